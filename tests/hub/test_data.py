"""Measurements from a folder, from a hub on this machine, and from the Hugging Face hub."""

from __future__ import annotations

import json
import os
import re
import runpy
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from costhub.cli import main
from costhub.dataset.folder import DataFolder
from costhub.dataset.load import load_measurements as load_from_path
from costhub.dataset.splits.split import save_split
from costhub.errors import AmbiguousNameError, ArgumentError, CosthubError, DataError, HubError, UnknownNameError
from costhub.hub.data import (
    find_data,
    iter_measurements,
    iter_programs,
    list_splits,
    load_measurements,
    load_programs,
    load_split,
    locate_data,
    open_programs,
)
from costhub.hub.remote.address import AddressError

ROOT = Path(__file__).parents[2]
build_groups = runpy.run_path(str(ROOT / "tests/dataset/grouped_folder.py"))["build_groups"]
SHARD = "measurements/cpu0/train-00000-of-00001.parquet"


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
    with pytest.raises(DataError, match=r"No hub on this machine has measurements of acme-two.*COSTHUB_HUB"):
        place("acme-two")


def test_an_unknown_name_is_refused_with_the_close_ones(shelf: Path) -> None:
    with pytest.raises(UnknownNameError, match=r"no data folder, dataset or device named 'bords'. Did you mean boards"):
        place("bords")
    with pytest.raises(UnknownNameError, match=r"Nothing is close to it.*COSTHUB_HUB can name the folder"):
        place("xyz")


def test_a_revision_is_refused_outside_hugging_face(shelf: Path) -> None:
    with pytest.raises(AddressError, match="Write boards, or hf-hub:ORG/NAME@v1"):
        place("boards@v1")


def test_paths_are_taken_as_they_are(tmp_path: Path) -> None:
    assert place(tmp_path) == place(str(tmp_path)) == place(f"local-dir:{tmp_path}") == tmp_path


def test_a_data_folder_in_the_working_directory_comes_before_names(
    shelf: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    for name in ("boards", "mine", "a/b/c"):
        DataFolder.create(tmp_path / name)
    (tmp_path / "blit-gpu").mkdir()

    assert place("boards") == Path("boards")
    assert place("acme/boards") == place("blit-gpu") == shelf / "acme/boards"
    assert place("mine") == Path("mine")
    assert place("a/b/c") == Path("a/b/c")


def test_data_on_this_machine_come_with_their_device_and_dataset(shelf: Path, tmp_path: Path) -> None:
    by_device, by_path = find_data("blit-gpu"), find_data(shelf / "acme/boards")

    assert (by_device.folder, by_device.device_id, by_device.dataset) == (
        shelf / "acme/boards",
        "blit-gpu",
        "acme/boards",
    )
    assert (by_path.folder, by_path.device_id, by_path.dataset) == (shelf / "acme/boards", None, None)


@pytest.mark.parametrize(
    ("where", "sentence"),
    [
        ("nowhere", "no data folder, dataset or device named 'nowhere'"),
        ("mesurements", "Did you mean measurements?"),
        ("./nowhere", "The folder nowhere does not exist; `costhub collect --out nowhere` makes one."),
        ("measurements/measurements", "is a part of a data folder; name the whole one, measurements."),
        ("measurements/measurements/cpu", "is a part of a data folder; name the whole one, measurements."),
        ("a model", "a model is a model folder; expected a data folder"),
        ("notes", "notes is a file; expected a data folder"),
        ("hf-hub:acme/boards@v1", "`hf download acme/boards --repo-type dataset --revision v1 --local-dir boards`"),
    ],
)
def test_what_are_no_data_on_this_machine_is_said(
    shelf: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, where: str, sentence: str
) -> None:
    monkeypatch.chdir(tmp_path)
    (DataFolder.create("measurements").path / "measurements/cpu").mkdir()
    (tmp_path / "a model").mkdir()
    (tmp_path / "a model/config.json").write_text("{}")
    (tmp_path / "notes").write_text("mine")

    with pytest.raises(CosthubError, match=re.escape(sentence)):
        find_data(where)


def test_programs_and_splits_are_found_by_name(tmp_path: Path) -> None:
    split = load_split("nvidia-h200", list_splits("nvidia-h200")[-1])
    save_split(split, tmp_path / "mine.json")
    assert load_split("nvidia-h200", str(tmp_path / "mine.json")) == split
    programs = load_programs("nvidia-h200", workloads=set(split.test), spec="trace_decisions@1")
    blocks = open_programs("nvidia-h200", workloads=set(split.test), spec="trace_decisions@1")
    batches = list(iter_programs("nvidia-h200", workloads=set(split.test), spec="trace_decisions@1"))

    assert set(programs.workload_ids) == set(split.test)
    assert blocks.n == programs.n == sum(batch.n for batch in batches) > 0
    assert programs.device_ids == ("nvidia-h200",)


def test_a_device_that_is_asked_for_wins_over_the_one_in_the_name() -> None:
    with pytest.raises(DataError, match="has no measurements of 'cpu0'"):
        load_programs("amd-epyc-zen5-2c", device="cpu0")


def test_the_programs_of_a_device_by_its_name_are_its_own() -> None:
    workload = load_split("amd-epyc-zen5", "workload-40-seed0").test[0]

    programs = load_programs("amd-epyc-zen5-1c", workloads={workload}, spec="trace_decisions@1")

    assert programs.device_ids == ("amd-epyc-zen5-1c",)


def test_programs_are_found_by_the_names_of_their_workloads_and_unknown_names_are_refused() -> None:
    spec = "trace_decisions@1"
    named = load_programs("amd-epyc-zen5-1c", workloads=["matmul.512x512x512"], spec=spec)

    assert named.n == load_programs("amd-epyc-zen5-1c", workloads=set(named.workload_ids), spec=spec).n > 0
    assert len(named.workload_ids) == 1
    assert sum(part.n for part in iter_programs("amd-epyc-zen5-1c", workloads={"matmul.512x512x512"}, spec=spec)) == (
        named.n
    )
    with pytest.raises(UnknownNameError, match=r"Did you mean .*matmul\.512x512x512"):
        load_programs("amd-epyc-zen5-1c", workloads={"matmul.512x512x51"}, spec=spec)


def test_an_error_in_the_block_is_not_taken_for_an_unknown_name(shelf: Path) -> None:
    with pytest.raises(CosthubError, match="mine"), locate_data("boards"):
        raise CosthubError("mine")


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> DataFolder:
    return build_groups(tmp_path_factory.mktemp("grouped") / "data")


@pytest.fixture
def files(folder: DataFolder) -> dict[str, bytes]:
    paths = [path for path in folder.path.rglob("*") if path.is_file()]
    return {path.relative_to(folder.path).as_posix(): path.read_bytes() for path in paths}


def run_in_a_process(tmp_path: Path, url: str, code: str, **environment: str) -> str:
    """Runs a program as people do: the client reads its settings from the environment."""
    # Nothing of the caller's Hugging Face settings may reach the test, a token least of all.
    env = {k: v for k, v in os.environ.items() if not k.startswith(("HF_", "COSTHUB_"))}
    env |= {"HF_ENDPOINT": url, "HF_HOME": str(tmp_path / "hf"), "HF_HUB_DISABLE_XET": "1"}
    env |= {"PYTHONPATH": str(ROOT / "src"), **environment}
    command = [sys.executable, "-c", code]
    return subprocess.run(command, env=env, capture_output=True, text=True, check=True, timeout=60).stdout


def test_one_workload_costs_a_small_share_of_the_file(hugging_face: Any, files: dict[str, bytes]) -> None:
    commit = hugging_face.commit("datasets/acme/cpu0", files)

    batches = iter_measurements("hf-hub:acme/cpu0", workload="matmul3", batch_rows=100)

    assert [batch.num_rows for batch in batches] == [100, 100, 50]
    # One row group of twenty, and the footer.
    assert hugging_face.bytes_served[SHARD] < 0.15 * len(files[SHARD])
    # Only the first question leaves the commit open: a push in between cannot mix two versions.
    asked = [request for request in hugging_face.requests if "/cpu0" in request]
    assert asked[0] == "GET /api/datasets/acme/cpu0"
    assert [request for request in asked[1:] if commit not in request] == []


@pytest.mark.slow
def test_counting_what_is_there_fetches_no_traces(
    hugging_face: Any, files: dict[str, bytes], capsys: pytest.CaptureFixture[str]
) -> None:
    hugging_face.commit("datasets/acme/cpu0", files)

    assert main.run(["stats", "hf-hub:acme/cpu0", "--json"]) == 0

    assert json.loads(capsys.readouterr().out)["measurements"] == 5000
    assert hugging_face.bytes_served[SHARD] < 0.15 * len(files[SHARD])


def test_what_is_loaded_from_the_hub_is_what_is_in_the_folder(
    hugging_face: Any, files: dict[str, bytes], folder: DataFolder
) -> None:
    hugging_face.commit("datasets/acme/cpu0", files, ref="v1")
    hugging_face.commit("datasets/acme/cpu0", {"README.md": b"emptied"})
    choice: dict[str, Any] = {"operator": "softmax", "columns": ["record_id", "run_s"]}

    table = load_measurements("hf-hub:acme/cpu0@v1", **choice)

    assert table.num_rows == 500
    assert table.equals(load_from_path(folder.path, **choice))


def test_what_was_downloaded_needs_no_network(server: Any, files: dict[str, bytes], tmp_path: Path) -> None:
    server.commit("datasets/acme/cpu0", files)
    download = "from huggingface_hub import snapshot_download; snapshot_download('acme/cpu0', repo_type='dataset')"
    run_in_a_process(tmp_path, server.url, download)
    server.requests.clear()

    load = "costhub.load_measurements('hf-hub:acme/cpu0', workload='matmul3', columns=['status'])"
    out = run_in_a_process(
        tmp_path, server.url, f"import costhub; t = {load}; print(t.num_rows, t.column_names)", HF_HUB_OFFLINE="1"
    )

    assert out == "250 ['status']\n"
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
    hugging_face: Any, files: dict[str, bytes], address: str, sentence: str
) -> None:
    hugging_face.commit("datasets/acme/cpu0", files)
    hugging_face.commit("datasets/acme/model", {"config.json": b"{}"})
    hugging_face.gated.add("datasets/acme/closed")

    with pytest.raises(DataError, match=re.escape(sentence)):
        load_measurements(address)


def test_an_answer_that_makes_no_sense_is_a_sentence(
    hugging_face: Any, files: dict[str, bytes], monkeypatch: pytest.MonkeyPatch
) -> None:
    from huggingface_hub import HfApi

    def fail(*_: Any, **__: Any) -> None:
        raise KeyError("sha")

    hugging_face.commit("datasets/acme/cpu0", files)
    with pytest.raises(KeyError, match="mine"), locate_data("hf-hub:acme/cpu0"):
        raise KeyError("mine")  # an error of the caller, and no answer of the hub
    monkeypatch.setattr(HfApi, "resolve_revision", fail)

    with pytest.raises(DataError, match=r"^hf-hub:acme/cpu0 got an answer that no Hugging Face hub gives \(KeyError"):
        load_measurements("hf-hub:acme/cpu0")


@pytest.mark.parametrize(
    ("setting", "value"),
    [
        ("HF_HUB_OFFLINE", True),
        pytest.param("ENDPOINT", "http://127.0.0.1:9", marks=pytest.mark.slow),  # retried for a while
    ],
)
def test_a_hub_that_cannot_be_asked_is_a_sentence(
    hugging_face: Any, monkeypatch: pytest.MonkeyPatch, setting: str, value: object
) -> None:
    monkeypatch.setattr(f"huggingface_hub.constants.{setting}", value)

    with pytest.raises(HubError, match=r"^hf-hub:acme/cpu0 could not be fetched from http://127"):
        load_measurements("hf-hub:acme/cpu0")


def test_a_hub_that_stops_in_the_middle_is_a_sentence(hugging_face: Any, files: dict[str, bytes]) -> None:
    hugging_face.commit("datasets/acme/cpu0", files)
    hugging_face.fail_after = 6

    with pytest.raises(HubError, match=r"^hf-hub:acme/cpu0 could not be fetched from http://127"):
        list(iter_measurements("hf-hub:acme/cpu0"))


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
        with pytest.raises(UnknownNameError, match="Did you mean matmul1"):
            read(folder.path, workloads={"matmul100"})  # type: ignore[operator]


def test_workloads_are_named_as_for_programs_too(folder: DataFolder) -> None:
    one, both = (
        load_measurements(folder.path, workload=names, columns=["record_id", "workload_id"])
        for names in ("matmul3", ["matmul3", "matmul1"])
    )

    assert 0 < one.num_rows < both.num_rows
    ids = set(both["workload_id"].to_pylist())
    for names, rows in (({"matmul1", "matmul3"}, both), (ids, both), ({"matmul3"}, one), ("matmul3", one)):
        assert load_measurements(folder.path, workloads=names, columns=["record_id", "workload_id"]) == rows
    batches = list(iter_measurements(folder.path, workloads=ids, columns=["record_id"]))
    assert sum(batch.num_rows for batch in batches) == both.num_rows
    assert load_measurements(folder.path, workloads=set()).num_rows == 0
    with pytest.raises(ArgumentError, match="give one of them"):
        load_measurements(folder.path, workload="matmul3", workloads={"matmul3"})


def test_a_table_comes_in_the_form_asked_for(folder: DataFolder) -> None:
    choice: dict[str, Any] = {"workload": "matmul3", "columns": ["record_id", "run_s"]}
    arrow = load_measurements(folder.path, **choice)

    frame = load_measurements(folder.path, **choice, format="pandas")
    data = load_measurements(folder.path, **choice, format="datasets")

    assert frame["record_id"].tolist() == arrow["record_id"].to_pylist()
    assert json.loads(frame["run_s"].to_json())["3"] == pytest.approx(arrow["run_s"].to_pylist()[3])
    assert data[7] == arrow.slice(7, 1).to_pylist()[0]
