from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from costhub.collector.device import identity as collector_device
from costhub.collector.device.local import local_names
from costhub.errors import DeviceError
from costhub.hub.catalogue.devices import keep_probed_figures, register_device


@pytest.fixture
def here(small_hub: Path) -> str:
    """Puts this machine into the small hub and returns its id."""
    return register_device(collector_device.identify(), path=small_hub / "devices.json").device_id


def test_the_table_shows_devices_models_and_aliases(small_hub: Path, costhub: Any) -> None:
    done = costhub("devices")

    lines = done.out.splitlines()
    assert done.code == 0
    assert lines[0].split() == ["device", "kind", "models", "data", "aliases"]
    assert lines[1].split() == ["acme-one", "cpu", "gbt,", "mlp", "-", "one"]
    assert lines[2].split() == ["blit-gpu", "cuda", "-", "-", "-"]


def test_this_machine_is_marked(here: str, costhub: Any) -> None:
    (line,) = (line for line in costhub("devices").out.splitlines() if line.startswith(f"{here} "))

    assert line.endswith("<- this machine")


def test_a_machine_outside_the_index_is_named(small_hub: Path, costhub: Any) -> None:
    device_id = collector_device.identify()["device_id"]

    out = costhub("devices").out
    assert f"This machine is {device_id}, which is not in the index" in out
    assert [
        name for name in local_names() if f" {name}" not in out.split("not in the index")[1] and name != device_id
    ] == []


def test_a_machine_outside_the_index_can_be_looked_at(
    small_hub: Path, costhub: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("COSTHUB_CACHE", str(tmp_path / "cache"))
    row = collector_device.identify()
    assert "`costhub probe` measures it" in costhub("devices").out

    keep_probed_figures({**row, "peak_gflops": 12.5})

    done = costhub("devices", str(row["device_id"]), "--json")
    (device,) = json.loads(done.out)["devices"]
    assert (device["device_id"], device["peak_gflops"], device["this_machine"]) == (row["device_id"], 12.5, True)
    assert json.loads(device["target"])["kind"] == "llvm"
    assert costhub("devices", "auto", "--json").out == done.out
    assert "It has been probed" in costhub("devices").out
    assert costhub("devices", "acme-nine").code == 2


@pytest.mark.parametrize("error", [DeviceError("no"), FileNotFoundError("no"), KeyError("no")])
def test_the_index_is_shown_where_the_machine_cannot_be_identified(
    small_hub: Path, costhub: Any, monkeypatch: pytest.MonkeyPatch, error: Exception
) -> None:
    def fail() -> dict[str, Any]:
        raise error

    monkeypatch.setattr(collector_device, "identify", fail)
    done = costhub("devices")

    assert done.code == 0
    assert "acme-one" in done.out
    assert "This machine could not be identified" in done.out


def test_one_device_is_shown_with_all_its_facts(small_hub: Path, costhub: Any) -> None:
    done = costhub("devices", "ONE")

    assert done.code == 0
    assert "cores                4\n" in done.out
    assert "costhub/acme-one-gbt (top_1 0.900 on held-out workloads; the embedded hub)" in done.out
    assert "none yet" in costhub("devices", "blit-gpu").out


def test_a_device_without_a_model_says_which_one_it_gets(
    costhub: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    own = {"device_id": "acme-one-2c", "kind": "cpu", "cores": 2, "simd_bits": 256}
    register_device(own, path=tmp_path / "devices.json")
    monkeypatch.setenv("COSTHUB_HUB", str(tmp_path))

    assert "none of its own; `auto` takes costhub/any-cpu-conditioned" in costhub("devices", "acme-one-2c").out


def test_an_unknown_device_is_refused_with_the_close_ones(small_hub: Path, costhub: Any) -> None:
    done = costhub("devices", "acme-on")

    assert done.code == 2
    assert "Did you mean acme-one" in done.err


def test_a_bad_model_folder_is_left_out_aloud(small_hub: Path, costhub: Any) -> None:
    (small_hub / "models" / "bob" / "typo").mkdir(parents=True)

    done = costhub("devices")

    assert done.code == 0
    assert "Left out:" in done.err
    assert "bob/typo is not a model folder" in done.err


def test_json_is_for_programs(here: str, costhub: Any) -> None:
    content = json.loads(costhub("devices", "--json").out)
    rows = {row["device_id"]: row for row in content["devices"]}

    assert content["this_machine"] == here
    assert [model["arch"] for model in rows["acme-one"]["models"]] == ["gbt", "mlp"]
    assert [device_id for device_id, row in rows.items() if row["this_machine"]] == [here]
