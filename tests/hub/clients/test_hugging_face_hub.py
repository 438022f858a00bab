"""huggingface_hub's ways that costhub does not take: whole folders, listings, and Xet left on."""

from __future__ import annotations

import json
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

Run = Callable[..., str]
XET = pytest.mark.parametrize("disabled", ["1", None], ids=["xet off", "xet on"])


@XET
def test_a_folder_comes_down_as_it_is(
    run: Run, server: Any, rows: dict[str, bytes], tmp_path: Path, disabled: str | None
) -> None:
    server.commit("datasets/acme/data", rows)
    code = (
        "from huggingface_hub import HfApi, snapshot_download\n"
        f"snapshot_download('acme/data', repo_type='dataset', local_dir={str(tmp_path / 'down')!r})\n"
        f"found = HfApi().verify_repo_checksums('acme/data', repo_type='dataset',"
        f" local_dir={str(tmp_path / 'down')!r})\n"
        "print(found.checked_count, found.mismatches, found.missing_paths)"
    )

    said = run(sys.executable, "-c", code, HF_HUB_DISABLE_XET=disabled)

    assert said.split() == [str(len(rows)), "[]", "[]"]
    assert {name: (tmp_path / "down" / name).read_bytes() for name in rows} == rows


@XET
def test_small_files_go_up_with_and_without_xet(run: Run, server: Any, disabled: str | None) -> None:
    """With Xet the client opens the pull request first, and commits to its branch then."""
    server.commit("acme/model", {"README.md": b"# Model\n"})
    code = (
        "from huggingface_hub import CommitOperationAdd, HfApi\n"
        "done = HfApi().create_commit('acme/model', [CommitOperationAdd('a.json', b'{}')],"
        " commit_message='more', create_pr=True)\n"
        "print(done.pr_revision)"
    )

    assert run(sys.executable, "-c", code, HF_HUB_DISABLE_XET=disabled).strip() == "refs/pr/1"
    assert server.files("acme/model", "refs/pr/1")["a.json"] == b"{}"
    assert "a.json" not in server.files("acme/model")


@XET
def test_models_are_listed_by_tag_author_and_name(run: Run, server: Any, disabled: str | None) -> None:
    card = "---\nlibrary_name: costhub\nlicense: mit\ntags:\n- costhub\n- device:{}\n---\n"
    server.commit("acme/one", {"README.md": card.format("cpu0").encode()})
    server.commit("acme/two", {"README.md": card.format("cpu1").encode()})
    server.commit("blit/three", {"README.md": b"# Without a block\n"})
    server.commit("datasets/acme/data", {"README.md": card.format("cpu0").encode()})
    code = (
        "import json\nfrom huggingface_hub import HfApi\n"
        "def ids(**wanted): return [model.id for model in HfApi().list_models(**wanted)]\n"
        "print(json.dumps([ids(), ids(filter=['costhub', 'device:cpu0']), ids(author='blit'),"
        " ids(search='TWO'), ids(limit=1), [data.id for data in HfApi().list_datasets(filter='costhub')]]))"
    )

    assert json.loads(run(sys.executable, "-c", code, HF_HUB_DISABLE_XET=disabled)) == [
        ["acme/one", "acme/two", "blit/three"],
        ["acme/one"],
        ["blit/three"],
        ["acme/two"],
        ["acme/one"],
        ["acme/data"],
    ]
