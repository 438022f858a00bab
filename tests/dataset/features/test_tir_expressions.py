"""Bounds of index expressions, against all the values that the expressions take."""

from __future__ import annotations

import itertools
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from costhub.dataset.features.tir_expressions import Atom, IndexForm, Operations, count_operations, index_form

LENGTHS = st.lists(st.integers(1, 5), min_size=1, max_size=3)
COEFFICIENTS = st.lists(st.integers(-7, 7), min_size=3, max_size=3)


def value(form: IndexForm, loops: tuple[int, ...]) -> int:
    total = form.constant
    for term, coefficient in form.terms.items():
        total += coefficient * (loops[term] if isinstance(term, int) else of_atom(term, loops))
    return total


def of_atom(atom: Atom, loops: tuple[int, ...]) -> int:
    left, right = value(atom.left, loops), value(atom.right, loops)
    kinds = {"div": lambda: left // right, "mod": lambda: left % right, "min": lambda: min(left, right)}
    return kinds[atom.kind]()


def values(form: IndexForm, lengths: list[int], level: int) -> set[int]:
    """What it takes while the loops from `level` on run and the others are at 0."""
    return {
        value(form, (*[0] * level, *inner))
        for inner in itertools.product(*(range(length) for length in lengths[level:]))
    }


@given(LENGTHS, COEFFICIENTS, st.integers(-9, 9))
def test_the_bounds_of_a_linear_index_are_exact(lengths: list[int], coefficients: list[int], constant: int) -> None:
    form = IndexForm(constant, {n: c for n, c in enumerate(coefficients[: len(lengths)]) if c})

    low, high = form.bounds(list(enumerate(lengths)))

    for level in range(len(lengths) + 1):
        found = values(form, lengths, level)
        assert (low[level], high[level]) == (min(found), max(found))


@given(LENGTHS, COEFFICIENTS, st.sampled_from(["div", "mod", "min"]), st.integers(1, 9))
def test_no_value_is_outside_the_bounds(lengths: list[int], coefficients: list[int], kind: str, by: int) -> None:
    linear = IndexForm(3, {n: abs(c) for n, c in enumerate(coefficients[: len(lengths)]) if c})
    form = IndexForm(1, {Atom(kind, linear, IndexForm(by)): 2, 0: 1})

    low, high = form.bounds(list(enumerate(lengths)))

    for level in range(len(lengths) + 1):
        assert all(low[level] <= v <= high[level] for v in values(form, lengths, level))


def test_a_step_of_a_fused_loop_moves_the_remainder_and_not_the_quotient() -> None:
    fused = IndexForm.of_loop(0)
    row, column = (IndexForm(0, {Atom(kind, fused, IndexForm(16)): 1}) for kind in ("div", "mod"))

    assert (row.stride(0), column.stride(0)) == (0, 1)
    assert (row.times(16).plus(column).stride(0), fused.times(32).stride(0)) == (1, 32)
    assert row.bounds([(0, 256)]) == ([0, 0], [15, 0])
    assert column.bounds([(0, 256)]) == ([0, 0], [15, 0])


def test_loops_that_cancel_out_are_gone() -> None:
    loop = IndexForm.of_loop(4)
    assert loop.plus(loop, -1).loops() == set()
    assert loop.times(3).plus(IndexForm.of_loop(2)).loops() == {2, 4}


@pytest.fixture(scope="module")
def variables() -> Any:
    from tvm import tirx

    return [tirx.Var(name, "int32") for name in "ij"]


def test_expressions_of_tvm_are_read(variables: Any) -> None:
    from tvm import tirx

    i, j = variables
    known = {i.__chandle__(): IndexForm.of_loop(0), j.__chandle__(): IndexForm.of_loop(1)}
    expressions = [
        i * 4 + j - 1,
        tirx.floordiv(i * 4 + j, 3),
        tirx.floormod(j, 3) * 2,
        tirx.min(i, j),
        i.astype("int64") * 2,
    ]
    expected = [4 * 2 + 1 - 1, 9 // 3, 2, 1, 4]

    forms = [index_form(expression, known) for expression in expressions]

    assert [form and value(form, (2, 1)) for form in forms] == expected
    assert index_form(7, {}) is not None


def test_what_is_no_index_of_loops_is_not_read(variables: Any) -> None:
    from tvm import tirx

    i, j = variables
    known = {i.__chandle__(): IndexForm.of_loop(0)}
    for expression in (j, i * i, tirx.floordiv(i, i), tirx.Select(i > 2, i, i + 1)):
        assert index_form(expression, known) is None


def test_operations_are_counted_by_class_and_indices_are_not() -> None:
    import tvm
    from tvm import te

    a = te.placeholder((8, 8), name="A")
    result = te.compute(
        (8, 8),
        lambda i, j: te.exp(a[i, (j + 1) % 8]) * 2.0 + tvm.tirx.Select(a[i, j] > 0, a[i, j], 0.0) / 3.0,
        name="C",
    )
    statement = te.create_prim_func([a, result]).body
    while type(statement).__name__ != "BufferStore":
        statement = getattr(statement, "block", statement).body

    assert count_operations(statement) == Operations(add_sub=1, mul=1, div_mod=1, compare=2, call=1)


def test_nothing_has_no_operations() -> None:
    assert count_operations(None) == Operations()
