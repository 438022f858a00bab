"""`costhub probe`: a device's identity and limits, printed, drawn and kept."""

from __future__ import annotations

import json
import platform
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from costhub.collector.device.identity import identify
from costhub.collector.device.local import find_local
from costhub.collector.probe.probe import probe
from costhub.dataset.folder import DataFolder
from costhub.files import CACHE_VARIABLE
from costhub.hub.catalogue.devices import complete_device_row, load_devices


@pytest.fixture(autouse=True)
def own_cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(CACHE_VARIABLE, str(tmp_path / "cache"))
    # A probe of no time beside other tests may be as wrong as the check supposes; tests/api tests the check.
    monkeypatch.setattr("costhub.api.probe._ORDER", ())


@pytest.fixture(scope="module")
def figures() -> dict[str, Any]:
    """What one probe of this machine found."""
    (local,) = find_local([identify(threads=1)["device_id"]])
    return probe(local.target, device=local.row, threads=1, budget_s=0.0)


@pytest.fixture
def probed(figures: dict[str, Any], monkeypatch: pytest.MonkeyPatch) -> None:
    """A probe finds what one found before: the tests are of what becomes of it."""
    monkeypatch.setattr("costhub.collector.probe.probe.probe", lambda *_, **__: dict(figures))


@pytest.mark.slow
def test_the_row_is_printed_drawn_and_kept_beside_what_was_known(costhub: Any, tmp_path: Path) -> None:
    device_id = identify(threads=1)["device_id"]
    folder = DataFolder.create(tmp_path / "data")
    folder.put_device({"device_id": device_id, "kind": "cpu", "aliases": ["desk"], "l1_gbs": 1e9})
    folder.put_device({"device_id": "other", "kind": "cpu", "aliases": ["shelf"]})

    limits = ("--threads", "1", "--budget", "0s", "--plot", str(tmp_path / "ladder.svg"))
    output = costhub("probe", *limits, "--json", "--out", str(folder.path))

    row = json.loads(output.out)
    assert (output.code, row["device_id"], row["cores"]) == (0, device_id, 1)
    assert json.loads(row["target"])["num-cores"] == 1
    kept = {each["device_id"]: each for each in folder.devices().to_pylist()}
    assert kept[device_id]["aliases"] == ["desk"]
    assert kept[device_id]["l1_gbs"] == row["l1_gbs"] != 1e9
    assert kept[device_id]["bandwidth_ladder"] == row["bandwidth_ladder"]
    assert kept[device_id]["peak_gflops"] == row["peak_gflops"] > 0
    assert kept["other"]["aliases"] == ["shelf"]
    assert (tmp_path / "ladder.svg").read_text().count("</svg>") == 1


@pytest.mark.slow
@pytest.mark.skipif(platform.machine() != "x86_64", reason="an instruction set of x86")
def test_people_read_units_and_how_it_was_measured(costhub: Any) -> None:
    output = costhub("probe", "--isa", "sse4.2", "--threads", "1", "--budget", "0s")

    assert output.code == 0
    assert "-1c-sse4.2:" in output.out
    assert "GFLOP/s" in output.out
    assert "mulps xmm" in output.out
    assert ["bfloat16", "-", "GFLOP/s"] in [line.split() for line in output.out.splitlines()]


@pytest.mark.usefixtures("probed")
def test_searches_on_this_machine_know_what_was_probed(costhub: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    # As on a machine that the device index does not list, wherever the tests run.
    monkeypatch.setattr("costhub.hub.catalogue.devices.find_device", lambda name: None)

    output = costhub("probe", "--threads", "1", "--budget", "0s", "--json")

    row = json.loads(output.out)
    assert "now use these figures" in output.err
    is_part = identify()["cores"] > 1
    assert (f"with `--device {row['device_id']}` now use" in output.err) == is_part
    assert complete_device_row(identify(threads=1))["peak_gflops"] == row["peak_gflops"] > 0


@pytest.mark.usefixtures("probed")
def test_the_figures_of_the_index_take_precedence(costhub: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    shipped = next(device for device in load_devices() if device.peak_gflops)
    listed = replace(shipped, device_id=identify(threads=1)["device_id"])
    monkeypatch.setattr("costhub.hub.catalogue.devices.find_device", lambda name: listed)

    output = costhub("probe", "--threads", "1", "--budget", "0s", "--json")

    assert "keep using the figures of the device index" in output.err
    assert complete_device_row(identify(threads=1))["peak_gflops"] == listed.peak_gflops


@pytest.mark.usefixtures("probed")
@pytest.mark.parametrize("broken", ["cache", "cache/devices.json"])
def test_figures_that_cannot_be_kept_are_printed_even_so(costhub: Any, tmp_path: Path, broken: str) -> None:
    (tmp_path / broken).parent.mkdir(exist_ok=True)
    (tmp_path / broken).write_text("neither a folder nor an index")

    output = costhub("probe", "--threads", "1", "--budget", "0s", "--json")

    assert output.code == 0
    assert json.loads(output.out)["peak_gflops"] > 0
    assert "will not use these figures" in output.err


def test_an_unknown_instruction_set_is_refused(costhub: Any) -> None:
    output = costhub("probe", "--isa", "mmx")

    assert output.code != 0
    assert "mmx" in output.err


def test_a_gpu_is_not_limited_like_a_cpu(costhub: Any) -> None:
    output = costhub("probe", "--kind", "cuda", "--threads", "1")

    assert output.code == 2
    assert "--isa and --threads limit a CPU" in output.err
