"""`costhub.devices`: a table of all devices, and the facts of one."""

from __future__ import annotations

from collections import Counter
from pathlib import Path
from typing import Any

import pytest

from costhub.api import devices as module
from costhub.api.devices import DeviceFacts, DeviceTable, devices, this_machine
from costhub.errors import DeviceError, UnknownNameError
from costhub.hub.catalogue import hubs


def test_all_devices_are_a_sequence_a_table_and_a_data_frame() -> None:
    found = devices()

    names = [device["device_id"] for device in found]
    assert {"nvidia-h200", "amd-epyc-zen5-2c"} <= set(names)
    assert str(found).splitlines()[0].split() == ["device", "kind", "models", "data", "aliases"]
    assert str(found) == repr(found)
    assert found.to_pandas()["device_id"].tolist() == names
    assert [device["device_id"] for device in found[:2]] == names[:2]
    assert found.this_machine == this_machine()


def test_this_machine_is_said_where_it_is_not_among_them() -> None:
    row = {"device_id": "acme", "kind": "cpu", "models": [], "datasets": [], "aliases": [], "this_machine": False}
    facts = DeviceFacts(row)

    assert "This machine is other, which is not in the index" in str(DeviceTable((facts,), "other"))
    with_parts = DeviceTable((facts,), "other", parts=("other-1c", "other-1c-avx2"))
    last = "`--device` also takes parts of this machine: other-1c, other-1c-avx2."
    assert str(with_parts).splitlines()[-1] == last
    listed = DeviceTable((DeviceFacts({**row, "this_machine": True}),), "acme", parts=("acme-1c",), cores=8)
    assert str(listed).endswith(
        "\n\n`--device` also takes parts of this machine: acme-1c, and other numbers of threads (-4c)."
    )
    assert "could not be identified" in str(DeviceTable((facts,), None))
    assert str(DeviceTable((DeviceFacts({**row, "this_machine": True}),), "acme")).endswith("<- this machine")


def test_one_device_is_a_mapping_of_facts() -> None:
    device = devices("h200")

    assert (device["device_id"], device["kind"], "cores" in device) == ("nvidia-h200", "cuda", True)
    assert [name for name in dict(device)["datasets"] if "h200" in name]
    lines = str(device).splitlines()
    assert lines[0].split() == ["device_id", "nvidia-h200"]
    assert any(line.startswith("model ") and "top_1" in line for line in lines)
    assert len(device.to_pandas()) == 1
    assert len(device) == len(list(device))
    with pytest.raises(UnknownNameError, match="nvidia-h200"):
        devices("nvidia-h20")


def test_models_are_read_as_often_for_many_devices_as_for_one(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    reads, read = Counter[Path](), hubs.read_entry

    def counted(folder: Path, **names: str) -> Any:
        reads[folder] += 1
        return read(folder, **names)

    monkeypatch.setattr(hubs, "read_entry", counted)

    assert len(devices()) > 2
    assert set(reads.values()) == {2}


def test_a_file_is_told_where_it_goes(tmp_path: Path) -> None:
    (tmp_path / "chip.json").write_text("{}")

    with pytest.raises(DeviceError, match=r"chip\.json is a file: `costhub compile` and `costhub estimate` take it"):
        devices(str(tmp_path / "chip.json"))


def test_a_machine_that_cannot_be_identified_does_not_hide_the_index(monkeypatch: pytest.MonkeyPatch) -> None:
    def fail() -> None:
        raise LookupError("no /proc/cpuinfo")

    monkeypatch.setattr("costhub.collector.device.identity.identify", fail)
    assert module.this_machine() is None
    assert devices().this_machine is None


def test_texts_of_a_shared_hub_cannot_steer_the_terminal() -> None:
    (facts, *_) = devices()
    row = {**dict(facts), "vendor": "\x1b]0;owned\x07", "models": []}

    assert "\x1b" not in str(DeviceTable((DeviceFacts(row),), None)) + str(DeviceFacts(row))
