from __future__ import annotations

from typing import Any

import pytest

from costhub.hub.catalogue import devices
from costhub.hub.catalogue.devices import Device
from costhub.hub.catalogue.figures import FIGURES, MOST_DIFFERENCE, low_figures

KNOWN = {"device_id": "acme-one", "kind": "cpu", "peak_gflops": 300.0, "dram_gbs": 30.0, "launch_overhead_us": 1.0}


@pytest.fixture(autouse=True)
def index(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(devices, "load_devices", lambda: (Device.from_row(KNOWN),))


@pytest.mark.parametrize(
    ("figures", "found"),
    [
        ({}, []),
        ({"peak_gflops": 300.0 / MOST_DIFFERENCE}, []),
        ({"peak_gflops": 150.0}, ["float32 is 2.0 times lower than the device index says (300 GFLOP/s)."]),
        ({"dram_gbs": 10.0}, ["reading memory is 3.0 times lower than the device index says (30 GB/s)."]),
        ({"peak_gflops": 900.0, "dram_gbs": None}, []),
        ({"l1_gbs": 1.0}, []),
        ({"launch_overhead_us": 0.1}, []),
        ({"device_id": "acme-two", "peak_gflops": 1.0}, []),
    ],
)
def test_only_figures_far_below_the_index_are_named(figures: dict[str, Any], found: list[str]) -> None:
    assert low_figures({**KNOWN, **figures}) == found


def test_the_figures_are_columns_of_devices() -> None:
    assert {key for key, *_ in FIGURES} <= Device.from_row(KNOWN).row().keys()
