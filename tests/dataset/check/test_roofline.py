from __future__ import annotations

from typing import Any

import pytest

from costhub.dataset.check.roofline import faster_than_memory, faster_than_peak


def is_fast(found: Any) -> bool:
    [(_, mask)] = found
    return bool(mask[0])


@pytest.mark.parametrize(("gflops", "fast"), [(99, False), (119, False), (121, True)])
def test_a_program_faster_than_the_peak(batch: Any, gflops: int, fast: bool) -> None:
    rows = batch(run_s=[[1e6 / (gflops * 1e9)] * 3], devices={"peak_gflops": 100.0})

    assert is_fast(faster_than_peak(rows)) == fast


def test_the_peak_must_be_known_and_is_one_of_float32(batch: Any) -> None:
    assert not is_fast(faster_than_peak(batch(run_s=[[1e-12]])))
    half = batch(
        run_s=[[1e-12]],
        devices={"peak_gflops": 100.0},
        workloads={"flop": 1e6, "bytes": 1.0, "is_float32": False},
    )
    assert not is_fast(faster_than_peak(half))


DEVICE = {
    "l1_gbs": 400.0,
    "l1d_bytes": 1000,
    "l2_gbs": 200.0,
    "l2_bytes": 10_000,
    "l3_gbs": 100.0,
    "l3_bytes": 100_000,
    "dram_gbs": 10.0,
}


@pytest.mark.parametrize(
    ("size", "gbs", "fast"),
    [
        (1e3, 700, False),  # fits the first level
        (1e3, 900, True),
        (5e4, 300, False),  # more than two cores' first levels, even four times over; fits the second
        (5e4, 500, True),
        (1e6, 30, True),  # memory alone can hold it
        (1e6, 15, False),
    ],
)
def test_arguments_move_no_faster_than_the_cache_that_holds_them(
    batch: Any, size: float, gbs: float, fast: bool
) -> None:
    workload = {"flop": 1.0, "bytes": size, "is_float32": True}
    rows = batch(run_s=[[size / (gbs * 1e9)]], devices=DEVICE, workloads=workload)

    assert is_fast(faster_than_memory(rows)) == fast


@pytest.mark.parametrize(
    ("unknown", "fast"),
    [
        (("l1_gbs", "l1d_bytes"), False),  # every device has a first level, so its speed may be any
        (("l2_gbs",), False),
        (("l3_gbs", "l3_bytes"), True),  # but not a third
        (tuple(DEVICE), False),
    ],
)
def test_what_is_not_known_allows_any_speed(batch: Any, unknown: tuple[str, ...], fast: bool) -> None:
    workload = {"flop": 1.0, "bytes": 1e3, "is_float32": True}
    rows = batch(run_s=[[1e-12]], devices=DEVICE | dict.fromkeys(unknown), workloads=workload)

    assert is_fast(faster_than_memory(rows)) == fast
