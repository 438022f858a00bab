"""compiled@1: what LLVM made of real programs."""

from __future__ import annotations

import json
from typing import Any

import numpy as np
import pytest

from costhub.dataset.features.compiled import COLUMN_NAMES, MOST_LOOPS, SPEC, compiled_rows
from costhub.dataset.workload import module_from_json

AVX2 = json.dumps({"kind": "llvm", "mcpu": "haswell", "mtriple": "x86_64-linux-gnu", "num-cores": 2})
SIDE = 64


def product(*, rows: int, columns: int) -> Any:
    """A product of two square matrices that keeps a tile of sums."""
    import tvm
    from tvm import te

    a, b = (te.placeholder((SIDE, SIDE), name=name) for name in "AB")
    k = te.reduce_axis((0, SIDE), name="k")
    c = te.compute((SIDE, SIDE), lambda i, j: te.sum(a[i, k] * b[k, j], axis=k), name="C")
    schedule = tvm.s_tir.Schedule(te.create_prim_func([a, b, c]).with_attr("global_symbol", "main"))
    block = schedule.get_sblock("C")
    local = schedule.cache_write(block, 0, "local")
    i, j, reduction = schedule.get_loops(block)
    i, inner_i = schedule.split(i, [None, rows])
    j, inner_j = schedule.split(j, [None, columns])
    schedule.reorder(i, j, reduction, inner_i, inner_j)
    schedule.reverse_compute_at(local, j)
    schedule.parallel(i)
    schedule.unroll(inner_i)
    schedule.vectorize(inner_j)
    schedule.decompose_reduction(block, reduction)
    return schedule


def all_rows(schedule: Any, target: str = AVX2) -> list[dict[str, float]]:
    [rows] = SPEC.extract(schedule.mod, ["[[], []]"], target)
    assert rows is not None
    return [dict(zip(COLUMN_NAMES, row, strict=True)) for row in rows.tolist()]


def first_row(schedule: Any) -> dict[str, float]:
    return all_rows(schedule)[0]


def test_operations_times_repeats_are_those_of_the_workload() -> None:
    row = first_row(product(rows=4, columns=16))

    counted, repeats = (2 ** row[name] - 1 for name in ("program_flop", "program_repeats"))
    assert counted * repeats == pytest.approx(2 * SIDE**3, rel=1e-3)
    assert repeats == pytest.approx(SIDE / 4, rel=1e-3)  # iterations of the parallel loop


def test_the_first_row_is_the_loop_that_multiplies() -> None:
    rows = all_rows(product(rows=4, columns=16))
    row = rows[0]

    assert 2 ** row["fma"] - 1 == pytest.approx(8)  # 4 rows of two vectors
    assert 2 ** row["trips"] - 1 == pytest.approx(SIDE)
    assert row["packed_share"] == 1.0
    assert row["widest"] == pytest.approx(np.log2(33))
    assert row["stack_share"] == 0.0
    # LLVM may unroll the loop over columns, so that there are several of these.
    assert sum(each["cycle_share"] for each in rows if each["fma"]) > 0.8


def test_more_sums_than_registers_are_spilled() -> None:
    few, many = (first_row(product(rows=rows, columns=16)) for rows in (4, 16))

    assert few["program_stack"] < many["program_stack"]
    assert many["stores_per_flop"] > few["stores_per_flop"]


def test_rows_are_few_and_the_costliest_come_first(tiny_matmul: Any) -> None:
    mod = module_from_json(tiny_matmul.module_json)
    found = SPEC.extract(mod, tiny_matmul.traces, tiny_matmul.target)

    assert any(rows is not None for rows in found)
    place = COLUMN_NAMES.index("all_cycles")
    for rows in found:
        if rows is not None:
            assert 1 <= len(rows) <= MOST_LOOPS
            assert (np.diff(rows[:, place]) <= 0).all()


ARM, CUDA = {"kind": "llvm", "mtriple": "aarch64-linux-gnu"}, {"kind": "cuda", "arch": "sm_80"}


@pytest.mark.parametrize("target", [ARM, CUDA])
def test_programs_of_other_processors_have_no_features(target: dict[str, str], tiny_matmul: Any) -> None:
    mod = module_from_json(tiny_matmul.module_json)

    assert SPEC.extract(mod, tiny_matmul.traces[:2], json.dumps(target)) == [None, None]


def test_text_without_code_has_no_rows() -> None:
    assert compiled_rows("", 1.0).shape == (0, len(COLUMN_NAMES))
