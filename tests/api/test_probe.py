"""`costhub.probe`: a device of this machine by name, measured."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from costhub.api.probe import probe
from costhub.collector.device.identity import identify
from costhub.dataset.folder import DataFolder
from costhub.dataset.schema import PROBED
from costhub.errors import DeviceError, MeasureError
from costhub.files import CACHE_VARIABLE
from costhub.hub.catalogue.devices import complete_device_row, load_devices


@pytest.mark.slow
def test_a_device_by_name_is_measured_printed_and_stored(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(CACHE_VARIABLE, str(tmp_path / "cache"))
    monkeypatch.setattr("costhub.api.probe._ORDER", ())  # beside other tests, a probe of no time may be that wrong
    monkeypatch.setattr("costhub.hub.catalogue.devices.find_device", lambda name: None)
    one_core = identify(threads=1)["device_id"]

    found = probe(one_core, budget_s=0.0, out=tmp_path / "data", progress=False)

    assert (found["device_id"], found["cores"]) == (one_core, 1)
    assert found["peak_gflops"] > 0
    lines = str(found).splitlines()
    assert lines[0].startswith(f"{one_core}: ")
    assert lines[1].split() == ["what", "best", "unit"]
    assert found.to_pandas()["device_id"].tolist() == [one_core]
    assert complete_device_row({"device_id": one_core})["peak_gflops"] == found["peak_gflops"]
    assert DataFolder.open(tmp_path / "data").devices()["peak_gflops"].to_pylist() == [found["peak_gflops"]]


def test_an_alias_of_this_machine_stands_for_its_device(monkeypatch: pytest.MonkeyPatch) -> None:
    one_core, asked = str(identify(threads=1)["device_id"]), []
    device = replace(load_devices()[0], device_id=one_core, aliases=("my-desk",))
    monkeypatch.setattr("costhub.hub.catalogue.names.load_devices", lambda: [device])

    def refused(*_: object, device: Any, **__: object) -> None:
        asked.append(device["device_id"])
        raise MeasureError("enough")

    monkeypatch.setattr("costhub.collector.probe.probe.probe", refused)
    with pytest.raises(MeasureError, match="enough"):
        probe("my-desk", progress=False)
    assert asked == [one_core]


@pytest.mark.parametrize(
    ("figures", "sentence"),
    [
        ({"peak_gflops": 180.0, "peak_gflops_float64": 0.00014}, "float64 arithmetic came out at 0.00014"),
        ({"l3_gbs": 1.7, "dram_gbs": 7.4}, "reading L3 came out at 1.7, 4 times below reading memory"),
        ({"l1_gbs": 1.0, "dram_gbs": 43.0}, "The figures were not kept"),
    ],
)
def test_figures_that_no_cpu_has_are_not_kept(
    figures: dict[str, float], sentence: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv(CACHE_VARIABLE, str(tmp_path / "cache"))
    one_core = identify(threads=1)["device_id"]
    before = complete_device_row({"device_id": one_core})
    monkeypatch.setattr("costhub.collector.probe.probe.probe", lambda *_, **__: figures)

    with pytest.raises(MeasureError, match=sentence):
        probe(one_core, out=tmp_path / "data", progress=False)

    assert complete_device_row({"device_id": one_core}) == before
    assert not (tmp_path / "data").exists()


@pytest.mark.parametrize("replace", [False, True])
def test_the_best_figures_of_all_probes_count_unless_they_are_replaced(
    *, replace: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level("INFO", "costhub")
    monkeypatch.setenv(CACHE_VARIABLE, str(tmp_path / "cache"))
    monkeypatch.setattr("costhub.hub.catalogue.devices.find_device", lambda name: None)
    name = identify(threads=1)["device_id"]
    probes = (
        {"peak_gflops": 232.0, "dram_gbs": 10.0, "launch_overhead_us": 1.0},
        {"peak_gflops": 46.8, "dram_gbs": 20.0},
    )
    for figures in probes:
        measured = {**dict.fromkeys(PROBED), "launch_overhead_us": 3.0, **figures, "probe_method": "at will"}
        monkeypatch.setattr("costhub.collector.probe.probe.probe", lambda *_, given=measured, **__: given)
        row = probe(name, replace=replace, out=tmp_path / "data", progress=False)

    expected = (46.8, 20.0, 3.0) if replace else (232.0, 20.0, 1.0)
    for found in (
        row,
        complete_device_row({"device_id": name}),
        DataFolder.open(tmp_path / "data").devices().to_pylist()[0],
    ):
        assert (found["peak_gflops"], found["dram_gbs"], found["launch_overhead_us"]) == expected
    told = "worse: float32 232 GFLOP/s, an empty program 1 us. `costhub probe --replace`"
    assert (told in caplog.text) is not replace


def test_a_device_that_this_machine_lacks_is_refused() -> None:
    with pytest.raises(DeviceError, match="has no device named 'amd-epyc-zen9'"):
        probe("amd-epyc-zen9")
