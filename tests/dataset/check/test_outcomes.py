from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from costhub.dataset.check.outcomes import (
    bad_failures,
    bad_latencies,
    contradictions,
    faster_than_memory,
    faster_than_peak,
    shorter_than_its_repeats,
    unknown_statuses,
)
from costhub.dataset.schema import STATUSES


def messages(found: Any) -> list[str]:
    return [message for message, mask in found if mask.any()]


def test_every_status_of_the_schema_is_known(batch: Any) -> None:
    rows = batch(status=[*STATUSES, "fine"])
    [(_, mask)] = unknown_statuses(rows)

    assert np.flatnonzero(mask).tolist() == [len(STATUSES)]


@pytest.mark.parametrize("run_s", [[], [0.0], [1e-3, -1e-3], [float("nan")], [float("inf")], [1e-3, None]])
def test_an_ok_measurement_without_good_latencies(batch: Any, run_s: list[float]) -> None:
    [(_, mask)] = bad_latencies(batch(run_s=[[1e-3], run_s]))

    assert mask.tolist() == [False, True]


@pytest.mark.parametrize(
    ("error", "run_s", "count"),
    [("x", [], 0), (None, [], 1), (" ", [], 1), ("x", [1.0], 1), (None, [1.0], 2)],
)
def test_a_failure_with_latencies_or_without_words(batch: Any, error: str, run_s: Any, count: int) -> None:
    assert len(messages(bad_failures(batch(status=["run_error"], error=[error], run_s=[run_s])))) == count


@pytest.mark.parametrize(
    ("columns", "count"),
    [
        ({"status": ["ok"], "error": ["?"]}, 1),
        ({"status": ["build_timeout"], "run_s": [[]], "run_wall_s": [0.1]}, 1),
        ({"status": ["unknown_error"], "run_s": [[]], "run_wall_s": [0.1]}, 0),
        ({"evaluator_repeat": [3], "run_s": [[1.0, 2.0, 3.0]]}, 0),
        ({"evaluator_repeat": [3], "run_s": [[1.0]]}, 0),  # a slow program is called once
        ({"evaluator_repeat": [3], "run_s": [[1.0, 2.0]]}, 0),  # they agreed
        ({"evaluator_repeat": [3], "run_s": [[1.0, 2.0, 3.0, 4.0]]}, 1),
        ({"evaluator_repeat": [-1], "run_s": [[1.0]]}, 1),
        ({"build_s": [float("nan")]}, 1),
        ({"run_wall_s": [-1.0]}, 1),
    ],
)
def test_columns_that_cannot_be_so_together(batch: Any, columns: dict[str, Any], count: int) -> None:
    assert len(messages(contradictions(batch(**columns)))) == count


@pytest.mark.parametrize(
    ("wall_s", "number", "short"), [(6.1, 1, False), (5.0, 1, True), (6.1, 2, True), (None, 1, False)]
)
def test_a_run_shorter_than_its_repeats(batch: Any, wall_s: float, number: int, short: bool) -> None:
    rows = batch(run_s=[[1.0, 2.0, 3.0]], run_wall_s=[wall_s], evaluator_number=[number])
    [(_, mask)] = shorter_than_its_repeats(rows)

    assert mask.tolist() == [short]


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


@pytest.mark.parametrize(("peak", "gflops", "fast"), [(1000.0, 1190, False), (1000.0, 1210, True), (None, 1e6, False)])
def test_kernels_in_bfloat16_have_a_peak_of_their_own(batch: Any, peak: float | None, gflops: int, fast: bool) -> None:
    rows = batch(
        run_s=[[1e6 / (gflops * 1e9)] * 3],
        devices={"peak_gflops": 100.0, "peak_gflops_bfloat16": peak},
        workloads={"is_bfloat16": True},
    )

    assert is_fast(faster_than_peak(rows)) == fast


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
