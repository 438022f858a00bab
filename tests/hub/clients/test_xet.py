"""hf_xet, the part of the client that fetches large files from Xet storage."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("hf_xet")

pytestmark = pytest.mark.slow
Run = Callable[..., str]
MAIN = "from costhub.cli.main import main; main({!r})"


@pytest.fixture
def model(server: Any, sound_model: Any) -> Path:
    """A model, which is on the server too, with its weights in Xet storage."""
    folder: Path = sound_model("gbt", manifest=True)
    server.commit("acme/model", {path.name: path.read_bytes() for path in folder.iterdir()})
    server.xet = True
    return folder


def pull(out: Path) -> tuple[str, ...]:
    return sys.executable, "-c", MAIN.format(["pull", "hf-hub:acme/model", "--out", str(out)])


@pytest.mark.parametrize("disabled", [None, "1"], ids=["xet on", "xet off"])
def test_a_model_is_pulled_from_xet_storage_unless_that_is_switched_off(
    run: Run, server: Any, model: Path, tmp_path: Path, disabled: str | None
) -> None:
    run(*pull(tmp_path / "pulled"), HF_HUB_DISABLE_XET=disabled)

    for path in model.iterdir():
        assert (tmp_path / "pulled" / path.name).read_bytes() == path.read_bytes()
    used, other = ("xet", "model.ubj") if disabled is None else ("model.ubj", "xet")
    assert server.bytes_served[used] >= (model / "model.ubj").stat().st_size
    assert server.bytes_served[other] == 0


def test_a_data_folder_comes_from_xet_storage_and_is_the_same(
    run: Run, server: Any, rows: dict[str, bytes], tmp_path: Path
) -> None:
    server.commit("datasets/acme/data", rows)
    server.xet = True
    code = (
        "from huggingface_hub import snapshot_download\n"
        f"snapshot_download('acme/data', repo_type='dataset', local_dir={str(tmp_path / 'down')!r})\n"
        "import costhub\nprint(costhub.load_measurements('hf-hub:acme/data').num_rows)"
    )

    assert run(sys.executable, "-c", code, HF_HUB_DISABLE_XET=None).strip() == "40"
    assert {name: (tmp_path / "down" / name).read_bytes() for name in rows} == rows
    assert server.bytes_served["xet"] > 0


def test_xet_storage_that_fails_is_a_sentence_and_leaves_nothing(
    environment: dict[str, str], server: Any, model: Path, tmp_path: Path
) -> None:
    server.faults.append(sys.modules["loopback_hub"].Fault("GET /xet/blocks/", times=99, status=404))
    del environment["HF_HUB_DISABLE_XET"]

    done = subprocess.run(
        pull(tmp_path / "pulled"), env=environment, capture_output=True, text=True, check=False, timeout=120
    )

    assert done.returncode == 1
    assert done.stderr.startswith("costhub: hf-hub:acme/model could not be fetched from http://127.0.0.1")
    assert len(done.stderr.splitlines()) == 1
    assert not (tmp_path / "pulled").exists()
