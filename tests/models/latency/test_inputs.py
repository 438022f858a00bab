"""The columns that the latency predictor reads, and the roofline."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from costhub.dataset.workload_numbers import NAMES as WORKLOAD_NAMES
from costhub.errors import DeviceError
from costhub.models.latency.inputs import NAMES, device_figures, input_row, roofline_us

ROW: dict[str, Any] = {"device_id": "b", "kind": "cpu", "cores": 4, "peak_gflops": 100.0, "dram_gbs": 10.0}


def numbers(**changed: float) -> np.ndarray[Any, Any]:
    known = {"flop": 20.0, "input_bytes": 10.0, "output_bytes": 10.0, **changed}
    return np.array([known.get(name, 0.0) for name in WORKLOAD_NAMES])


def test_the_roofline_is_the_longer_of_arithmetic_and_memory() -> None:
    assert roofline_us(numbers(), ROW) == pytest.approx(2**20 / 100e3)
    assert roofline_us(numbers(flop=1.0), ROW) == pytest.approx(2**11 / 10e3)


def test_a_row_has_a_value_for_each_name_and_nan_for_what_is_not_known() -> None:
    row = dict(zip(NAMES, input_row(numbers(), ROW), strict=True))

    assert row["device_cores"] == 2.0
    assert np.isnan(row["device_l2_bytes"])
    assert np.isnan(row["bytes_per_l2"])
    assert row["compute_us"] == row["roofline_us"] == pytest.approx(np.log2(2**20 / 100e3))
    assert (row["is_gpu"], row["is_rocm"]) == (0.0, 0.0)


def test_gpus_are_told_apart_from_cpus() -> None:
    row = dict(zip(NAMES, input_row(numbers(), {**ROW, "kind": "rocm", "l2_bytes": 1024}), strict=True))

    assert (row["is_gpu"], row["is_rocm"]) == (1.0, 1.0)
    assert row["bytes_per_l2"] == 1.0  # all of it, whatever the multiprocessors


@pytest.mark.parametrize("missing", ["cores", "peak_gflops", "dram_gbs"])
def test_a_device_needs_what_the_roofline_needs(missing: str) -> None:
    with pytest.raises(DeviceError, match=rf"needs {missing}\. Run `costhub probe`"):
        device_figures({**ROW, missing: None})


def test_another_chip_gives_no_figures() -> None:
    part = {**ROW, "microarchitecture": "zen9", "peak_gflops": None}
    with pytest.raises(DeviceError):
        device_figures(part, {"other": {**ROW, "microarchitecture": "zen8"}})
    assert device_figures(part, {"other": {**ROW, "microarchitecture": "zen9", "cores": 8}})["peak_gflops"] == 50.0


def test_figures_that_are_known_stay() -> None:
    whole = {**ROW, "microarchitecture": "zen9", "l2_gbs": 80.0}

    assert device_figures(whole, {"other": {**whole, "peak_gflops": 1.0}}) == whole


def test_only_what_a_part_lacks_is_taken_from_another() -> None:
    part = {**ROW, "microarchitecture": "zen9", "l2_gbs": 80.0, "dram_gbs": None}
    other = {**part, "device_id": "other", "peak_gflops": 1.0, "l2_gbs": 1.0, "l3_gbs": 40.0, "dram_gbs": 7.0}

    found = device_figures(part, {"other": other})

    assert (found["peak_gflops"], found["l2_gbs"]) == (part["peak_gflops"], 80.0)
    assert (found["l3_gbs"], found["dram_gbs"]) == (40.0, 7.0)
