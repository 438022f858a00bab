"""The probe: physically possible numbers, each with how it was taken."""

from __future__ import annotations

import json

import pytest

from costhub.collector import probe as probe_module
from costhub.collector.device import identify
from costhub.collector.probe import probe
from costhub.dataset.schema import table_from_rows


def test_the_probe_fills_its_columns(target: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(probe_module, "SECONDS_EACH", 0.05)
    monkeypatch.setattr(probe_module, "PEAK_SIZE", 256)
    monkeypatch.setattr(probe_module, "DRAM_BYTES", 64 << 20)
    device = identify()

    row = {**device, **probe(device, json.loads(target))}

    assert table_from_rows("devices", [row]).num_rows == 1
    assert row["peak_gflops"] > 1
    assert row["dram_gbs"] > 0.1
    assert row["launch_overhead_us"] < 10_000
    assert "dot product" in row["probe_method"]


def test_a_device_of_unknown_caches_is_probed_without_them(
    target: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(probe_module, "SECONDS_EACH", 0.01)
    monkeypatch.setattr(probe_module, "PEAK_SIZE", 64)
    monkeypatch.setattr(probe_module, "DRAM_BYTES", 1 << 20)
    assert probe({}, json.loads(target))["l1_gbs"] is None
