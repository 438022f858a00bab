from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest

from costhub.dataset.features.spec import replay_schedules
from costhub.dataset.features.specs import find_spec
from costhub.dataset.features.tiles import COLUMN_NAMES, SPEC, tile_rows
from costhub.dataset.workload import module_from_json

extract = SPEC.extract


def named(row: Any) -> dict[str, float]:
    return dict(zip(COLUMN_NAMES, row.tolist(), strict=True))


def plain(row: dict[str, float], *names: str) -> list[float]:
    """What counts and sizes were before the logarithm."""
    return [round(2.0 ** row[name] - 1, 2) for name in names]


@pytest.fixture
def kernel(tiny_matmul: Any) -> Any:
    """16 x 16 x 16, tiled for registers: 2 x 8 accumulators, the inner reduction 4 long and unrolled."""
    import tvm

    schedule = tvm.s_tir.Schedule(module_from_json(tiny_matmul.module_json))
    i, j, k = schedule.get_loops(schedule.get_sblock("C"))
    (i0, i1), (j0, j1), (k0, k1) = (schedule.split(loop, [None, factor]) for loop, factor in ((i, 2), (j, 8), (k, 4)))
    schedule.reorder(i0, j0, k0, k1, i1, j1)
    schedule.parallel(i0)
    schedule.vectorize(j1)
    schedule.annotate(i0, "pragma_auto_unroll_max_step", 8)
    schedule.annotate(i0, "pragma_unroll_explicit", 1)
    return schedule


def test_the_register_tile_of_a_matmul_is_that_one_counts_by_hand(kernel: Any) -> None:
    [row] = (named(row) for row in tile_rows(kernel.mod))

    assert plain(row, "runs", "parallel", "vectorized") == [4096, 8, 8]
    # From the inside: 2 x 8 spatial, 16 of reduction, 8 x 2 spatial.
    assert plain(row, "run_0", "run_1", "run_2", "run_3", "run_outside") == [16, 16, 16, 1, 1]
    # C: 2 x 8, B: a vector of 8 side by side, A: 2 elements that all lanes share.
    names = ("accumulators", "contiguous", "broadcast", "strided", "bytes")
    assert plain(row, *(f"tile_0_{name}" for name in names)) == [16, 8, 2, 0, 4 * 26]
    assert plain(row, *(f"tile_1_{name}" for name in names)) == [16, 128, 32, 0, 4 * 176]
    # Three loads for two operations on vectors.
    assert row["tile_0_loads_per_run"] == pytest.approx(math.log2(3 / 2), abs=1e-3)


def test_what_is_unrolled_ends_where_the_pragma_says(kernel: Any) -> None:
    [row] = (named(row) for row in tile_rows(kernel.mod))

    # 2 rows x 4 steps of k are 8 copies; the outer loop over k is left.
    assert plain(row, "body", "body_elements", "next_extent") == [8, 64, 4]
    assert (row["next_is_reduction"], row["next_writes_next"]) == (1, 0)
    assert (row["lane_writes_next"], row["lane_is_innermost"], row["lanes_by_8"]) == (1, 1, 1)


def test_a_cache_that_holds_everything_is_filled_once(kernel: Any) -> None:
    [row] = (named(row) for row in tile_rows(kernel.mod))

    everything = 3 * 256 * 4
    assert row["traffic_beyond_2^12"] == pytest.approx(math.log2(everything / 4096 + 1e-3), abs=1e-5)
    traffic = [row[name] for name in COLUMN_NAMES if name.startswith("traffic")]
    assert traffic == sorted(traffic, reverse=True)


def test_the_statement_of_the_most_work_comes_first(tiny_matmul: Any) -> None:
    import tvm

    schedule = tvm.s_tir.Schedule(module_from_json(tiny_matmul.module_json))
    block = schedule.get_sblock("C")
    schedule.decompose_reduction(block, schedule.get_loops(block)[2])

    rows = [named(row) for row in tile_rows(schedule.mod)]

    assert [round(row["work_share"], 3) for row in rows] == [round(8192 / 8448, 3), round(256 / 8448, 3)]
    assert [row["is_reduction"] for row in rows] == [1, 0]
    assert find_spec("tiles@1").leads


def test_different_programs_have_different_finite_rows(tiny_matmul: Any) -> None:
    mod = module_from_json(tiny_matmul.module_json)

    found = extract(mod, tiny_matmul.traces, tiny_matmul.target)

    assert all(rows is not None and np.isfinite(rows).all() for rows in found)
    assert len({tile_rows(s.mod).tobytes() for s in replay_schedules(mod, tiny_matmul.traces, tiny_matmul.target)}) == 4
