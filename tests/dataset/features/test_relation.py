from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from costhub.dataset.features.relation import COLUMN_NAMES, SPEC, relation_rows
from costhub.dataset.features.spec import replay_schedules
from costhub.dataset.workload import module_from_json

extract = SPEC.extract


def curve(row: Any, i: str, j: str) -> list[float]:
    """What the row says of i where j is below 2, 4, 8, ..., as it was before the logarithm."""
    return [round(2.0 ** row[COLUMN_NAMES.index(f"{i}_where_{j}_below_2^{t}")] - 1) for t in range(1, 25)]


def test_relations_of_a_matmul_are_those_one_computes_by_hand(tiny_matmul: Any) -> None:
    mod = module_from_json(tiny_matmul.module_json)

    a, _, c = relation_rows(mod)

    # Of A the loops i, j, k touch 256, 16 and 16 elements, reuse them 16, 16 and 1 times, and lie in 1, 16
    # and 256 iterations; a loop counts while it is strictly below the threshold.
    assert curve(a, "reuse", "touch") == [0] * 4 + [16] * 20
    assert curve(a, "touch", "reuse") == [16] * 4 + [256] * 20
    assert curve(a, "top_down", "touch") == [0] * 4 + [256] * 20
    assert curve(a, "touch", "top_down") == [256] * 24
    # Of C they touch 256, 16 and 1, and reuse each element 16 times.
    assert curve(c, "reuse", "touch") == [16] * 24
    assert curve(c, "touch", "reuse") == [0] * 4 + [256] * 20
    assert curve(c, "top_down", "touch") == [256] * 24


def test_a_row_says_what_the_buffer_is_and_which_loops_touch_it(tiny_matmul: Any) -> None:
    [rows] = extract(module_from_json(tiny_matmul.module_json), tiny_matmul.traces[2:3], tiny_matmul.target)

    assert rows is not None
    assert rows.shape == (3, len(COLUMN_NAMES))
    a = dict(zip(COLUMN_NAMES, rows[0].tolist(), strict=True))
    expected = {
        "elements": 256,
        "element_bytes": 4,
        "touch": 256,
        "touch_bytes": 1024,
        "uses": 4096,
        "reuse": 16,
        "inner_stride": 1,
        "loops": 5,
        "longest_parallel": 4,
        "longest_vectorized": 4,
        "longest_serial": 16,
        "longest_thread": 0,
        "work_mul": 4096,
        "work_add_sub": 4096,
        "work_call": 0,
    }
    assert {name: a[name] for name in expected} == pytest.approx({n: np.log2(x + 1) for n, x in expected.items()})
    assert (a["in_global"], a["in_shared"], a["reads"], a["writes"]) == (1, 0, 1, 0)


def test_different_programs_have_different_rows(tiny_matmul: Any) -> None:
    schedules = replay_schedules(module_from_json(tiny_matmul.module_json), tiny_matmul.traces, tiny_matmul.target)

    assert len({relation_rows(schedule.mod).tobytes() for schedule in schedules}) == len(schedules)
