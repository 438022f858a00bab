"""tiles@2: where intermediate results lie, and what is left once loops are unrolled, counted by hand."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest

from costhub.dataset.features import tiles
from costhub.dataset.features.bodies import COLUMN_NAMES, SPEC, body_rows


def named(schedule: Any) -> list[dict[str, float]]:
    return [dict(zip(COLUMN_NAMES, row, strict=True)) for row in body_rows(schedule.mod).tolist()]


def plain(row: dict[str, float], *names: str) -> list[float]:
    """What counts and sizes were before the logarithm."""
    return [round(2.0 ** row[name] - 1, 2) for name in names]


def product(columns: int = 16, *, vector: int = 8) -> Any:
    """16 x `columns` x 16, with 2 vectors of sums; the inner reduction is 4 long and unrolled."""
    import tvm
    from tvm import te

    a, b = te.placeholder((16, 16), name="A"), te.placeholder((16, columns), name="B")
    k = te.reduce_axis((0, 16), name="k")
    c = te.compute((16, columns), lambda i, j: te.sum(a[i, k] * b[k, j], axis=k), name="C")
    schedule = tvm.s_tir.Schedule(te.create_prim_func([a, b, c]).with_attr("global_symbol", "main"))
    i, j, reduction = schedule.get_loops(schedule.get_sblock("C"))
    pairs = ((i, 2), (j, vector), (reduction, 4))
    (i0, i1), (j0, j1), (k0, k1) = (schedule.split(loop, [None, factor]) for loop, factor in pairs)
    schedule.reorder(i0, j0, k0, k1, i1, j1)
    schedule.parallel(i0)
    schedule.vectorize(j1)
    schedule.annotate(i0, "pragma_auto_unroll_max_step", 8)
    return schedule


def chain() -> Any:
    """Twice a 64 x 64 matrix, plus one: two statements, and a buffer between them."""
    import tvm
    from tvm import te

    a = te.placeholder((64, 64), name="A")
    twice = te.compute((64, 64), lambda i, j: a[i, j] * 2.0, name="twice")
    plus = te.compute((64, 64), lambda i, j: twice[i, j] + 1.0, name="plus")
    return tvm.s_tir.Schedule(te.create_prim_func([a, plus]).with_attr("global_symbol", "main"))


def test_the_first_columns_are_those_of_tiles_1() -> None:
    schedule = product()

    rows = body_rows(schedule.mod)

    np.testing.assert_array_equal(rows[:, : len(tiles.COLUMN_NAMES)], tiles.tile_rows(schedule.mod))
    assert len(set(COLUMN_NAMES)) == len(COLUMN_NAMES) == SPEC.width


def test_the_body_that_the_pragma_leaves_keeps_its_sums() -> None:
    [row] = named(product())

    # 2 rows x 4 steps of k: 4 vectors of B and 8 numbers of A for 16 operations on vectors.
    names = ("copies", "accumulators", "contiguous", "broadcast", "strided", "repeats")
    assert plain(row, *(f"unrolled_{name}" for name in names)) == [8, 16, 32, 8, 0, 4]
    assert row["unrolled_sums_stay"] == 1
    assert row["unrolled_loads_per_operation"] == pytest.approx(math.log2(12 / 16), abs=1e-3)
    assert row["unrolled_elements_per_instruction"] == pytest.approx(math.log2(16 * 8 / (16 + 12)), abs=1e-5)


def test_llvm_unrolls_short_loops_without_being_told() -> None:
    [row] = named(product())

    # All of the reduction and both vectors of a row: 64 copies, and no loop that adds to the same sums.
    assert plain(row, "llvm_copies", "llvm_accumulators", "llvm_repeats") == [64, 32, 8]
    assert row["llvm_sums_stay"] == 0
    # As many sums as vectors of B are held: 32 of each.
    assert plain(row, "registers_of_4", "registers_of_8", "registers_of_16") == [16, 8, 8]


@pytest.mark.parametrize(("vector", "parts", "registers"), [(8, 1, 1), (12, 2, 2), (24, 2, 3), (7, 3, 1)])
def test_a_vector_of_an_odd_length_is_divided(vector: int, parts: int, registers: int) -> None:
    [row] = named(product(columns=2 * vector, vector=vector))
    [eights] = plain(row, "registers_of_8")

    assert row["lane_parts"] == parts
    assert eights == 8 * registers  # 4 vectors of sums, and as many of B


@pytest.mark.parametrize("vector", [8, 16])
@pytest.mark.parametrize(("columns", "lines"), [(16, 1), (960, 1), (1024, 16), (2048, 16)])
def test_rows_a_multiple_of_a_page_apart_compete_for_lines(columns: int, lines: int, vector: int) -> None:
    [row] = named(product(columns, vector=vector))

    # The 16 rows of B that a tile reads are `columns` numbers apart.
    assert 2.0 ** row["lines_in_a_set_of_l1"] == lines


def test_a_small_buffer_within_a_loop_lies_on_the_stack() -> None:
    outside, inside = chain(), chain()
    inside.compute_at(inside.get_sblock("twice"), inside.get_loops(inside.get_sblock("plus"))[0])

    for schedule, size, is_on_stack, made in ((outside, 64 * 64 * 4, 0, 1), (inside, 64 * 4, 1, 64)):
        twice, plus = sorted(named(schedule), key=lambda row: -row["writes_intermediate"])
        assert (twice["writes_intermediate"], plus["writes_intermediate"], plus["intermediates_read"]) == (1, 0, 1)
        for row, what in ((twice, "written"), (plus, "read")):
            assert plain(row, f"{what}_bytes", f"{what}_begun") == [size, made]
            assert row[f"{what}_is_on_stack"] == is_on_stack
        assert plain(plus, "program_heap_bytes", "program_stack_bytes") == [
            size * (not is_on_stack),
            size * is_on_stack,
        ]


def test_what_is_computed_for_each_use_is_computed_again() -> None:
    import tvm
    from tvm import te

    a = te.placeholder((64,), name="A")
    twice = te.compute((64,), lambda i: a[i] * 2.0, name="twice")
    table = te.compute((8, 64), lambda i, j: twice[j] + 1.0, name="table")
    schedule = tvm.s_tir.Schedule(te.create_prim_func([a, table]).with_attr("global_symbol", "main"))

    once = named(schedule)
    schedule.compute_at(schedule.get_sblock("twice"), schedule.get_loops(schedule.get_sblock("table"))[0])
    again = named(schedule)

    [before], [after] = ([row["written_again"] for row in rows if row["writes_intermediate"]] for rows in (once, again))
    assert (before, after) == (0.0, 3.0)  # once, and once for each of the 8 rows
    # 64 + 8 x 64 elements are declared, and 8 x 64 + 8 x 64 are computed.
    assert [rows[0]["program_computed_again"] for rows in (once, again)] == [0.0, pytest.approx(math.log2(1024 / 576))]


def test_steps_of_a_reduction_compute_no_element_again() -> None:
    [row] = named(product())

    assert row["written_again"] == 0.0


def test_a_program_without_statements_has_no_rows() -> None:
    import tvm

    assert body_rows(tvm.IRModule({})).shape == (0, len(COLUMN_NAMES))


def test_work_outside_parallel_loops_is_told() -> None:
    alone, shared = chain(), chain()
    shared.parallel(shared.get_loops(shared.get_sblock("plus"))[0])

    first, second = named(alone)[0], named(shared)[0]
    names = ("statements", "statements_outside_parallel", "work_outside_parallel", "parallel_loops")
    assert [first[f"program_{name}"] for name in names] == [2, 2, 1, 0]
    assert [second[f"program_{name}"] for name in names] == [2, 1, 0.5, 1]
