from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from costhub.dataset.features.loop_context import COLUMN_NAMES, PARENT, SPEC, context_rows
from costhub.dataset.workload import module_from_json

extract = SPEC.extract


def named(row: Any) -> dict[str, float]:
    return dict(zip(COLUMN_NAMES, row.tolist(), strict=True))


def test_a_matmul_is_a_chain_of_loops_with_its_statement_at_the_end(tiny_matmul: Any) -> None:
    rows = context_rows(module_from_json(tiny_matmul.module_json))

    assert rows[:, PARENT].tolist() == [-1, 0, 1, 2, 3]
    assert rows[:, COLUMN_NAMES.index("depth")].tolist() == [0, 1, 2, 3, 4]
    j = named(rows[2])
    assert j["is_serial"] == 1
    expected = {"extent": 16, "top_down": 16, "bottom_up": 256, "unroll_steps": 0}
    # B is the largest that loop j touches: all of it, 4 bytes each, every element once. A and C are equal.
    expected |= {"S0.touch": 256, "S0.bytes": 1024, "S0.reuse": 1, "S0.stride": 1, "S0.element_bytes": 4}
    expected |= {
        "S1.touch": 16,
        "S1.reuse": 16,
        "S1.stride": 0,
        "S2.touch": 16,
        "S2.stride": 1,
        "S3.touch": 0,
    }
    assert {name: j[name] for name in expected} == pytest.approx({n: np.log2(x + 1) for n, x in expected.items()})
    assert [j[f"S{slot}.writes"] for slot in range(5)] == [0, 0, 1, 0, 0]
    leaf = named(rows[4])
    assert (leaf["is_statement"], leaf["is_reduction"], leaf["op_mul"], leaf["op_call"]) == (1, 1, 1, 0)


def test_every_parent_comes_before_its_children(tiny_matmul: Any) -> None:
    found = extract(module_from_json(tiny_matmul.module_json), tiny_matmul.traces, tiny_matmul.target)

    for rows in found:
        assert rows is not None
        parents = rows[:, PARENT]
        assert parents[0] == -1
        assert (parents[1:] >= 0).all()
        assert (parents < np.arange(len(rows))).all()


def test_annotations_are_told(tiny_matmul: Any) -> None:
    [rows] = extract(module_from_json(tiny_matmul.module_json), tiny_matmul.traces[2:3], tiny_matmul.target)

    assert rows is not None
    assert [named(row)["is_parallel"] for row in rows] == [0, 1, 0, 0, 0, 0, 0]
    assert [named(row)["is_vectorized"] for row in rows] == [0, 0, 0, 0, 1, 0, 0]
