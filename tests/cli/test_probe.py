"""`costhub probe`: this machine's identity and limits."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from costhub.collector import probe
from costhub.collector.device import identify
from costhub.dataset.folder import DataFolder


@pytest.fixture(autouse=True)
def brief(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(probe, "SECONDS_EACH", 0.02)
    monkeypatch.setattr(probe, "PEAK_SIZE", 128)
    monkeypatch.setattr(probe, "DRAM_BYTES", 16 << 20)


def test_the_row_is_printed_and_kept(costhub: Any, tmp_path: Path) -> None:
    output = costhub("probe", "--json", "--out", str(tmp_path / "data"))

    row = json.loads(output.out)
    assert row["device_id"] == identify()["device_id"]
    assert row["peak_gflops"] > 0
    kept = DataFolder.open(tmp_path / "data").devices().to_pylist()[0]
    assert kept["peak_gflops"] == row["peak_gflops"]


def test_people_read_units(costhub: Any) -> None:
    output = costhub("probe")
    assert output.code == 0
    assert "GFLOP/s" in output.out
