"""The `hf` command."""

from __future__ import annotations

import json
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

Run = Callable[..., str]
HF = Path(sys.executable).parent / "hf"
pytestmark = pytest.mark.skipif(not HF.exists(), reason="huggingface_hub came without its command `hf`")


@pytest.fixture
def hf(run: Run) -> Run:
    return lambda *arguments, **settings: run(str(HF), *arguments, **settings)


def test_a_dataset_is_downloaded_and_counted(
    hf: Run, run: Run, server: Any, rows: dict[str, bytes], tmp_path: Path
) -> None:
    server.commit("datasets/acme/data", rows)
    hf("download", "acme/data", "--repo-type", "dataset", "--local-dir", str(tmp_path / "down"))
    code = "from costhub.cli.main import main; main(['stats', {!r}, '--json'])"

    said = run(sys.executable, "-c", code.format(str(tmp_path / "down")))

    assert json.loads(said)["measurements"] == 40
    assert {name: (tmp_path / "down" / name).read_bytes() for name in rows} == rows


@pytest.mark.slow
def test_a_dataset_that_hf_downloaded_is_published_again(
    hf: Run, run: Run, server: Any, rows: dict[str, bytes], tmp_path: Path
) -> None:
    server.commit("datasets/acme/data", rows)
    renewed = str(tmp_path / "renewed")
    hf("download", "acme/data", "--repo-type", "dataset", "--local-dir", renewed)
    code = f"from costhub.cli.main import main; main(['publish', {renewed!r}, '--to', 'hf-hub:acme/data', '--yes'])"

    assert "Published: " in run(sys.executable, "-c", code)

    assert b"Measured by " in server.files("datasets/acme/data")["README.md"]
    assert b"Measured by " not in rows["README.md"]


def test_what_hf_downloaded_costhub_reads_without_the_network(
    hf: Run, run: Run, server: Any, rows: dict[str, bytes]
) -> None:
    server.commit("datasets/acme/data", rows)
    hf("download", "acme/data", "--repo-type", "dataset")
    server.requests.clear()
    code = "import costhub; print(costhub.load_measurements('hf-hub:acme/data').num_rows)"

    assert run(sys.executable, "-c", code, HF_HUB_OFFLINE="1").strip() == "40"
    assert server.requests == []


@pytest.mark.slow
def test_a_model_that_hf_uploaded_costhub_pulls(
    hf: Run, run: Run, server: Any, sound_model: Any, tmp_path: Path
) -> None:
    folder = sound_model("gbt", manifest=True)
    hf("repos", "create", "acme/model")
    hf("upload", "acme/model", str(folder), ".", "--commit-message", "by hand")
    code = "from costhub.cli.main import main; main(['pull', 'hf-hub:acme/model', '--out', {!r}])"

    run(sys.executable, "-c", code.format(str(tmp_path / "pulled")))

    for path in folder.iterdir():
        assert (tmp_path / "pulled" / path.name).read_bytes() == path.read_bytes()


def test_an_upload_as_a_pull_request_is_found_listed_and_merged(
    hf: Run, server: Any, rows: dict[str, bytes], tmp_path: Path
) -> None:
    server.commit("datasets/acme/data", rows)
    (tmp_path / "more.json").write_text("{}")

    hf("upload", "acme/data", str(tmp_path / "more.json"), "--repo-type", "dataset", "--create-pr")
    listed = json.loads(hf("discussions", "list", "acme/data", "--repo-type", "dataset", "--format", "json"))
    hf("discussions", "merge", "acme/data", str(listed[0]["num"]), "--repo-type", "dataset", "--yes")

    assert [entry["num"] for entry in listed] == [1]
    assert server.files("datasets/acme/data")["more.json"] == b"{}"


def test_repositories_and_files_are_listed(hf: Run, server: Any, rows: dict[str, bytes]) -> None:
    server.commit("datasets/acme/data", rows)
    server.commit("acme/model", {"README.md": b"---\ntags: [costhub]\n---\n"})

    models = json.loads(hf("models", "list", "--filter", "costhub", "--format", "json"))
    datasets = json.loads(hf("datasets", "list", "--author", "acme", "--format", "json"))

    assert [entry["id"] for entry in models] == ["acme/model"]
    assert [entry["id"] for entry in datasets] == ["acme/data"]
