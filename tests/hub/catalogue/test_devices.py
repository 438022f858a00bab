from __future__ import annotations

import json
import os
from datetime import datetime, timezone
from pathlib import Path
from typing import Any

import pytest

from costhub.dataset.folder import DataFolder
from costhub.dataset.shards.lock import FolderLock
from costhub.errors import CosthubError, DataError
from costhub.files import CACHE_VARIABLE
from costhub.hub.catalogue import devices as index
from costhub.hub.catalogue import hubs
from costhub.hub.catalogue.devices import (
    Device,
    complete_device_row,
    device_rows,
    find_device,
    keep_probed_figures,
    load_devices,
    read_device,
    read_devices,
    register_device,
)

KIND_OF_TARGET = {"llvm": "cpu", "cuda": "cuda", "rocm": "rocm"}


def test_the_embedded_index_can_be_read_and_its_names_are_unique() -> None:
    devices = read_devices(hubs.EMBEDDED / "devices.json")
    names = [name for device in devices for name in {device.device_id, *device.aliases}]

    assert {"nvidia-h200", "nvidia-a100"} <= {device.device_id for device in devices}
    assert sorted(set(names)) == sorted(names)
    assert all(KIND_OF_TARGET[json.loads(device.target)["kind"]] == device.kind for device in devices if device.target)


def test_a_device_survives_its_row() -> None:
    for device in read_devices(hubs.EMBEDDED / "devices.json"):
        assert Device.from_row(json.loads(json.dumps(device.row()))) == device


def test_devices_come_in_the_order_of_their_ids(hub: Path) -> None:
    assert [device.device_id for device in load_devices()] == ["acme-one", "acme-two", "blit-gpu"]


def test_find_device_wants_the_exact_id(hub: Path) -> None:
    found = find_device("acme-one")

    assert found is not None
    assert found.cores == 4
    assert find_device("one") is None


def test_a_shared_hub_says_more_about_a_device(hub: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    shared = tmp_path / "shared"
    register_device({"device_id": "acme-one", "kind": "cpu", "cores": 64}, path=shared / "devices.json")
    register_device({"device_id": "zeta", "kind": "cpu"}, path=shared / "devices.json")
    monkeypatch.setenv(hubs.HUB_VARIABLE, str(shared))

    assert [(d.device_id, d.cores) for d in load_devices()] == [
        ("acme-one", 64),
        ("acme-two", 8),
        ("blit-gpu", 100),
        ("zeta", None),
    ]


def test_registering_again_keeps_what_the_new_row_leaves_open(hub: Path) -> None:
    path = hub / "devices.json"
    probed_at = datetime(2026, 11, 20, tzinfo=timezone.utc)
    row = {"device_id": "acme-one", "kind": "cpu", "cores": 6, "vendor": None, "aliases": ["uno"]}

    register_device({**row, "probed_at": probed_at, "session": "not a column"}, path=path)

    device = find_device("acme-one")
    assert device is not None
    assert (device.cores, device.vendor, device.simd_bits) == (6, "ACME", 256)
    assert device.aliases == ("one", "rocket", "uno")
    assert device.probed_at == "2026-11-20T00:00:00+00:00"
    assert len(read_devices(path)) == 3


@pytest.mark.parametrize("row", [{}, {"device_id": "x"}, {"kind": "cpu"}, {"device_id": "", "kind": "cpu"}])
def test_a_row_without_an_id_or_kind_is_refused(tmp_path: Path, row: dict[str, str]) -> None:
    with pytest.raises(CosthubError, match=r"A device needs a (device_id|kind)"):
        register_device(row, path=tmp_path / "devices.json")

    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("text", ["", "[]", "{}", '{"devices": [3]}', '{"devices": [{"device_id": "x"}]}'])
def test_a_broken_index_is_refused_with_its_path(tmp_path: Path, text: str) -> None:
    path = tmp_path / "devices.json"
    path.write_text(text)

    with pytest.raises(CosthubError, match=r"devices\.json is not a device index|A device needs"):
        read_devices(path)


@pytest.mark.parametrize(
    ("values", "words"),
    [
        ({"cores": "9" * 99}, "cores of the device x is"),
        ({"peak_gflops": True}, "not a number"),
        ({"peak_gflops": -3.0}, "-3.0; give a number from 0 up"),
        ({"dram_gbs": float("nan")}, "nan; give a number from 0 up"),
        ({"cores": 10**400}, "give a number from 0 up"),
        ({"dram_gbs": 1e300}, "give a number from 0 up"),
        ({"cores": 5e-324}, "give a number from 0 up"),
        ({"vendor": {"a": 1}}, "vendor of the device x is .* not a text"),
        ({"device_id": "../../x"}, "cannot name a device"),
        ({"device_id": "\x1b[2J"}, "cannot name a device"),
    ],
)
def test_a_hostile_row_of_an_index_is_a_sentence(tmp_path: Path, values: dict[str, Any], words: str) -> None:
    row = {"device_id": "x", "kind": "cpu"} | values
    (tmp_path / "devices.json").write_text(json.dumps({"version": 1, "devices": [row]}))

    with pytest.raises(DataError, match=words):
        read_devices(tmp_path / "devices.json")


def test_an_index_is_a_regular_file_of_bounded_size_and_depth(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe.json")
    with (tmp_path / "large.json").open("wb") as file:
        file.truncate(1 << 40)
    (tmp_path / "deep.json").write_text("[" * 100_000 + "]" * 100_000)

    for name, words in (("pipe", "named pipe"), ("large", "At most"), ("deep", "not a device index")):
        with pytest.raises(DataError, match=words):
            read_devices(tmp_path / f"{name}.json")


def test_nobody_else_writes_an_index_between_its_reading_and_its_writing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path, read, reads = tmp_path / "new/devices.json", index.read_devices, []

    def read_alone(path: Path) -> Any:
        with pytest.raises(DataError, match="written by another process"):
            FolderLock(path.parent)
        reads.append(path)
        return read(path)

    monkeypatch.setattr(index, "read_devices", read_alone)
    register_device({"device_id": "new", "kind": "cpu"}, path=path)

    assert reads == [path]
    assert [device.device_id for device in read(path)] == ["new"]


def test_the_index_is_read_once_until_it_changes(hub: Path) -> None:
    first = read_devices(hub / "devices.json")

    assert read_devices(hub / "devices.json") is first
    register_device({"device_id": "new", "kind": "cpu"}, path=hub / "devices.json")
    assert len(read_devices(hub / "devices.json")) == len(first) + 1


def test_units_stand_in_the_names_of_the_columns() -> None:
    numbers = [n for n, t in index.Device.__annotations__.items() if t in ("int | None", "float | None")]
    types = ("_gflops_float64", "_gflops_float16", "_gflops_bfloat16", "_gops_int8")
    units = ("_bytes", "_bits", "_gflops", "_gbs", "_us", *types)

    assert [name for name in numbers if not name.endswith(units)] == ["cores"]


def test_the_folder_counts_more_than_the_index_which_fills_its_gaps(tmp_path: Path) -> None:
    DataFolder.create(tmp_path).put_device({"device_id": "nvidia-h200", "kind": "cuda", "dram_gbs": 4000.0})
    known = find_device("nvidia-h200")
    assert known is not None
    assert known.dram_gbs not in (None, 4000.0)

    row = device_rows(tmp_path, ["nvidia-h200"])["nvidia-h200"]

    assert (row["dram_gbs"], row["cores"], row["isa_features"]) == (4000.0, known.cores, ["sm_90"])


def test_a_device_that_only_the_index_knows_is_found(tmp_path: Path) -> None:
    DataFolder.create(tmp_path)

    assert device_rows(tmp_path, ["amd-epyc-zen5-2c"])["amd-epyc-zen5-2c"]["kind"] == "cpu"


def test_of_an_unknown_device_there_is_the_id(tmp_path: Path) -> None:
    DataFolder.create(tmp_path)

    assert device_rows(tmp_path, ["acme-one"]) == {"acme-one": {"device_id": "acme-one"}}
    assert complete_device_row({"device_id": "acme-one", "kind": "cpu", "cores": None}) == {
        "device_id": "acme-one",
        "kind": "cpu",
    }


def test_what_was_probed_here_fills_what_the_index_leaves_open(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(CACHE_VARIABLE, str(tmp_path))
    known = find_device("nvidia-h200")
    assert known is not None
    keep_probed_figures({"device_id": "acme-one", "kind": "cpu", "cores": 4, "dram_gbs": 30.0})
    keep_probed_figures({"device_id": "nvidia-h200", "kind": "cuda", "cores": 1, "l2_gbs": 4000.0})

    own, listed = (
        complete_device_row({"device_id": "acme-one", "cores": 2}),
        complete_device_row({"device_id": "nvidia-h200"}),
    )

    assert (own["dram_gbs"], own["cores"]) == (30.0, 2)
    assert (listed["l2_gbs"], listed["cores"]) == (4000.0, known.cores)


def test_damaged_figures_are_named_with_what_to_do(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(CACHE_VARIABLE, str(tmp_path))
    (tmp_path / "devices.json").write_text('{"version": 1, "devi')

    with pytest.raises(CosthubError, match=r"devices\.json is not .* remove it and run `costhub probe`"):
        complete_device_row({"device_id": "acme-one"})


def test_a_path_without_data_is_refused(tmp_path: Path) -> None:
    with pytest.raises(DataError, match="does not exist"):
        device_rows(tmp_path / "missing", ["acme-one"])


def test_a_device_is_read_as_the_commands_print_it(tmp_path: Path) -> None:
    row = {"device_id": "acme-one", "kind": "cpu", "cores": 4}
    (tmp_path / "acme.json").write_text(json.dumps({"this_machine": "other", "devices": [row]}))

    assert read_device(tmp_path / "acme.json") == read_device(json.dumps(row)) == Device.from_row(row)


@pytest.mark.parametrize(
    ("content", "sentence"),
    [
        ("no json", "is not JSON; give the row that `costhub probe --json` prints"),
        ("[1]", "does not hold the row of one device"),
        ('{"devices": [{}, {}]}', "does not hold the row of one device"),
        ('{"device_id": "acme"}', "A device needs a kind"),
    ],
)
def test_a_file_that_holds_no_device_is_a_sentence(content: str, sentence: str, tmp_path: Path) -> None:
    (tmp_path / "acme.json").write_text(content)
    with pytest.raises(CosthubError, match=sentence):
        read_device(tmp_path / "acme.json")
