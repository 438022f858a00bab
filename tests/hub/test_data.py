"""The client reads its settings when it is imported, so what talks to the server runs in a child process."""

from __future__ import annotations

import json
import os
import runpy
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from costhub.dataset.folder import DataFolder
from costhub.dataset.load import load_measurements as load_from_path
from costhub.errors import AmbiguousNameError, CosthubError, DataError, UnknownNameError
from costhub.hub.data import iter_measurements, load_measurements, locate_data
from costhub.hub.remote.address import AddressError


@pytest.fixture
def shelf(hub: Path) -> Path:
    """Two datasets: acme/boards with measurements of acme-one and blit-gpu, other/boards-2 of acme-one."""
    for name, devices in (("acme/boards", ("acme-one", "blit-gpu")), ("other/boards-2", ("acme-one",))):
        folder = DataFolder.create(hub / "datasets" / name)
        for device_id in devices:
            (folder.path / "measurements" / device_id).mkdir()
    return hub / "datasets"


def place(where: str | Path) -> Path:
    with locate_data(where) as found:
        assert found.filesystem is None
        return Path(found.path)


@pytest.mark.parametrize("name", ["boards", "acme/boards", "blit-gpu", "BLIT GPU 9000"])
def test_a_dataset_is_found_by_its_name_or_by_its_only_device(shelf: Path, name: str) -> None:
    if " " in name:  # an address has no blanks
        with pytest.raises(AddressError):
            place(name)
    else:
        assert place(name) == shelf / "acme/boards"


def test_a_device_by_its_name_is_that_device_alone(shelf: Path) -> None:
    with locate_data("blit-gpu") as found:
        assert found.device_id == "blit-gpu"
    with locate_data("acme/boards") as found:
        assert found.device_id is None


def test_a_device_in_several_datasets_is_refused_with_their_names(shelf: Path) -> None:
    with pytest.raises(AmbiguousNameError, match="acme/boards, other/boards-2"):
        place("acme-one")


def test_a_device_without_data_is_said_to_have_none(shelf: Path) -> None:
    with pytest.raises(DataError, match="No hub on this machine has measurements of acme-two"):
        place("acme-two")


def test_an_unknown_name_is_refused_with_the_close_ones(shelf: Path) -> None:
    with pytest.raises(UnknownNameError, match=r"no dataset or device named 'bords'. Did you mean boards"):
        place("bords")


def test_a_revision_is_refused_outside_hugging_face(shelf: Path) -> None:
    with pytest.raises(AddressError, match="Write boards, or hf-hub:ORG/NAME@v1"):
        place("boards@v1")


def test_paths_are_taken_as_they_are(tmp_path: Path) -> None:
    assert place(tmp_path) == place(str(tmp_path)) == place(f"local-dir:{tmp_path}") == tmp_path


def test_a_folder_in_the_working_directory_comes_after_names(
    shelf: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    for name in ("boards", "mine", "a/b/c"):
        DataFolder.create(tmp_path / name)

    assert place("boards") == shelf / "acme/boards"
    assert place("mine") == Path("mine")
    assert place("a/b/c") == Path("a/b/c")


def test_an_error_in_the_block_is_not_taken_for_an_unknown_name(shelf: Path) -> None:
    with pytest.raises(CosthubError, match="mine"), locate_data("boards"):
        raise CosthubError("mine")


ROOT = Path(__file__).parents[2]
build_groups = runpy.run_path(str(ROOT / "tests/dataset/grouped_folder.py"))["build_groups"]
SHARD = "measurements/cpu0/train-00000-of-00001.parquet"
Run = Callable[..., subprocess.CompletedProcess[str]]

LOAD = "import costhub; t = costhub.load_measurements({}); print(t.num_rows, t.column_names)"
ITERATE = "import costhub; print([b.num_rows for b in costhub.iter_measurements({})])"


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> DataFolder:
    return build_groups(tmp_path_factory.mktemp("grouped") / "data")


@pytest.fixture
def files(folder: DataFolder) -> dict[str, bytes]:
    paths = [path for path in folder.path.rglob("*") if path.is_file()]
    return {path.relative_to(folder.path).as_posix(): path.read_bytes() for path in paths}


@pytest.fixture
def python(tmp_path: Path, server: Any) -> Run:
    """Runs a program against the server; a CosthubError becomes its last line."""

    def run(code: str, **environment: str) -> subprocess.CompletedProcess[str]:
        # Nothing of the caller's Hugging Face settings may reach the test, a token least of all.
        env = {k: v for k, v in os.environ.items() if not k.startswith(("HF_", "COSTHUB_"))}
        env |= {"HF_ENDPOINT": server.url, "HF_HOME": str(tmp_path / "hf"), "HF_HUB_DISABLE_XET": "1"}
        env |= {"PYTHONPATH": str(ROOT / "src"), **environment}
        done = subprocess.run(
            [sys.executable, "-c", code], env=env, capture_output=True, text=True, check=False, timeout=60
        )
        assert "During handling" not in done.stderr
        return done

    return run


def test_one_workload_costs_a_small_share_of_the_file(
    python: Run, server: Any, files: dict[str, bytes], folder: DataFolder
) -> None:
    commit = server.commit("datasets/acme/cpu0", files)

    done = python(ITERATE.format("'hf-hub:acme/cpu0', workload='matmul3', batch_rows=100"))

    assert (done.stdout, done.stderr) == ("[100, 100, 50]\n", "")
    # One row group of twenty, and the footer.
    assert server.bytes_served[SHARD] < 0.15 * len(files[SHARD])
    # Only the first question leaves the commit open: a push in between cannot mix two versions.
    asked = [request for request in server.requests if "/cpu0" in request]
    assert asked[0] == "GET /api/datasets/acme/cpu0"
    assert [request for request in asked[1:] if commit not in request] == []


def test_counting_what_is_there_fetches_no_traces(python: Run, server: Any, files: dict[str, bytes]) -> None:
    server.commit("datasets/acme/cpu0", files)

    done = python("from costhub.cli.main import run; run(['stats', 'hf-hub:acme/cpu0', '--json'])")

    assert json.loads(done.stdout)["measurements"] == 5000
    assert server.bytes_served[SHARD] < 0.15 * len(files[SHARD])


def test_what_is_loaded_from_the_hub_is_what_is_in_the_folder(
    python: Run, server: Any, files: dict[str, bytes], folder: DataFolder, tmp_path: Path
) -> None:
    server.commit("datasets/acme/cpu0", files, ref="v1")
    server.commit("datasets/acme/cpu0", {"README.md": b"emptied"})
    out = tmp_path / "out.arrow"
    code = f"""
import costhub, pyarrow as pa
table = costhub.load_measurements("hf-hub:acme/cpu0@v1", operator="softmax", columns=["record_id", "run_s"])
with pa.OSFile({str(out)!r}, "wb") as sink, pa.ipc.new_file(sink, table.schema) as writer:
    writer.write_table(table)
"""
    assert python(code).stderr == ""

    import pyarrow as pa

    with pa.OSFile(str(out)) as source:
        found = pa.ipc.open_file(source).read_all()
    here = load_from_path(folder.path, operator="softmax", columns=["record_id", "run_s"])
    assert found.num_rows == 500
    assert found.equals(here)


def test_what_was_downloaded_needs_no_network(python: Run, server: Any, files: dict[str, bytes]) -> None:
    server.commit("datasets/acme/cpu0", files)
    python("from huggingface_hub import snapshot_download; snapshot_download('acme/cpu0', repo_type='dataset')")
    server.requests.clear()

    done = python(LOAD.format("'hf-hub:acme/cpu0', workload='matmul3', columns=['status']"), HF_HUB_OFFLINE="1")

    assert done.stdout == "250 ['status']\n"
    assert server.requests == []


@pytest.mark.parametrize(
    ("address", "sentence"),
    [
        ("hf-hub:acme/nothing", "hf-hub:acme/nothing does not exist at http://127.0.0.1"),
        ("hf-hub:acme/cpu0@v9", "hf-hub:acme/cpu0 has no revision 'v9'"),
        ("hf-hub:acme/cpu--0", "is not a name the Hugging Face hub allows"),
        ("hf-hub:acme/closed", "hf-hub:acme/closed is gated"),
        ("hf-hub:acme/model", "is not a data folder: it has no shards"),
    ],
)
def test_what_the_hub_does_not_have_is_a_sentence(
    python: Run, server: Any, files: dict[str, bytes], address: str, sentence: str
) -> None:
    server.commit("datasets/acme/cpu0", files)
    server.commit("datasets/acme/model", {"config.json": b"{}"})
    server.gated.add("datasets/acme/closed")

    done = python(LOAD.format(repr(address)))

    last = done.stderr.splitlines()[-1]
    assert last.startswith("costhub.errors.DataError: ")
    assert sentence in last


@pytest.mark.parametrize(
    "environment",
    [
        {"HF_HUB_OFFLINE": "1"},
        pytest.param({"HF_ENDPOINT": "http://127.0.0.1:9"}, marks=pytest.mark.slow),  # retried for a while
    ],
)
def test_a_hub_that_cannot_be_asked_is_a_sentence(python: Run, environment: dict[str, str]) -> None:
    done = python(LOAD.format("'hf-hub:acme/cpu0'"), **environment)

    last = done.stderr.splitlines()[-1]
    assert last.startswith("costhub.errors.DataError: hf-hub:acme/cpu0 could not be fetched from http://127")


def test_a_hub_that_stops_in_the_middle_is_a_sentence(python: Run, server: Any, files: dict[str, bytes]) -> None:
    server.commit("datasets/acme/cpu0", files)
    server.fail_after = 6

    done = python(ITERATE.format("'hf-hub:acme/cpu0'"))

    last = done.stderr.splitlines()[-1]
    assert last.startswith("costhub.errors.DataError: hf-hub:acme/cpu0 could not be fetched from http://127")


def test_a_dataset_of_the_hubs_is_found_by_its_name(hub: Path, folder: DataFolder) -> None:
    (hub / "datasets/acme").mkdir(parents=True)
    (hub / "datasets/acme/boards").symlink_to(folder.path)

    batches = list(iter_measurements("boards", workload="matmul3", columns=["record_id"]))
    table = load_measurements("acme/boards", workload="matmul3", columns=["record_id"])

    assert sum(batch.num_rows for batch in batches) == table.num_rows == 250


def test_an_unknown_workload_is_refused_in_either_form(folder: DataFolder) -> None:
    for read in (load_measurements, lambda *a, **k: list(iter_measurements(*a, **k))):
        with pytest.raises(UnknownNameError, match="Did you mean matmul1"):
            read(folder.path, workload="matmul100")  # type: ignore[operator]


def test_a_table_comes_in_the_form_asked_for(folder: DataFolder) -> None:
    choice: dict[str, Any] = {"workload": "matmul3", "columns": ["record_id", "run_s"]}
    arrow = load_measurements(folder.path, **choice)

    frame = load_measurements(folder.path, **choice, format="pandas")
    data = load_measurements(folder.path, **choice, format="datasets")

    assert frame["record_id"].tolist() == arrow["record_id"].to_pylist()
    assert json.loads(frame["run_s"].to_json())["3"] == pytest.approx(arrow["run_s"].to_pylist()[3])
    assert data[7] == arrow.slice(7, 1).to_pylist()[0]
