"""Composite specs: the rows of every part come back as they were, and belong to the same program."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from costhub.dataset.features.combined import combine, split_parts
from costhub.dataset.features.specs import find_spec
from costhub.dataset.workload import module_from_json

ALL = "per_store@1+relation@1+loop_context@1+trace_tokens@1"


@st.composite
def parts(draw: st.DrawFn) -> list[tuple[Any, Any]]:
    """Rows of one to four specs for zero to six programs, numbered so that none is like another."""
    n = draw(st.integers(0, 6))
    found = []
    for number in range(draw(st.integers(1, 4))):
        counts = np.array(draw(st.lists(st.integers(0, 3), min_size=n, max_size=n)), np.int64)
        shape = (int(counts.sum()), draw(st.integers(1, 4)))
        found.append((np.arange(shape[0] * shape[1], dtype=np.float32).reshape(shape) + 100 * number, counts))
    return found


@given(parts())
def test_what_is_combined_comes_apart_as_it_was(given_parts: list[tuple[Any, Any]]) -> None:
    rows, counts = combine(given_parts)
    widths = [own.shape[1] for own, _ in given_parts]
    found = split_parts(rows, counts, widths)

    assert rows.shape == (sum(len(own) for own, _ in given_parts), 1 + max(widths))
    assert counts.tolist() == [sum(own[i] for _, own in given_parts) for i in range(len(counts))]
    for (own, own_counts), (expected, expected_counts) in zip(found, given_parts, strict=True):
        assert (own.dtype, own_counts.dtype) == (np.float32, np.int64)
        assert np.array_equal(own, expected)
        assert np.array_equal(own_counts, expected_counts)


@given(parts())
def test_the_rows_of_a_program_follow_one_another_part_by_part(given_parts: list[tuple[Any, Any]]) -> None:
    rows, counts = combine(given_parts)

    programs = np.split(rows, np.cumsum(counts)[:-1]) if len(counts) else []
    for number, program in enumerate(programs):
        at = 0
        for part, (own, own_counts) in enumerate(given_parts):
            start, count = int(own_counts[:number].sum()), int(own_counts[number])
            piece = program[at : at + count]
            assert (piece[:, 0] == part).all()
            assert np.array_equal(piece[:, 1 : 1 + own.shape[1]], own[start : start + count])
            assert not piece[:, 1 + own.shape[1] :].any()
            at += count


def test_rows_in_any_layout_in_memory_come_apart() -> None:
    rows = np.asfortranarray([[0.0, 1.0, 2.0, 9.0], [1.0, 3.0, 0.0, 9.0]])

    (a, _), (b, counts) = split_parts(rows[:, :3], np.array([2]), [2, 1])

    assert (a.tolist(), b.tolist(), counts.tolist()) == ([[1.0, 2.0]], [[3.0]], [1])


@pytest.mark.parametrize("part", [2.0, -1.0, 0.5, np.nan])
def test_a_row_of_no_part_is_refused(part: float) -> None:
    with pytest.raises(ValueError, match="one of 0 to 1"):
        split_parts(np.array([[part, 1.0]], np.float32), np.array([1]), [1, 1])


def test_rows_too_narrow_for_the_parts_are_refused() -> None:
    with pytest.raises(ValueError, match=r"parts of \[3, 1\] columns need one more, got 2"):
        split_parts(np.zeros((1, 2), np.float32), np.array([1]), [3, 1])


def test_a_composite_spec_names_its_columns_after_those_of_its_parts() -> None:
    spec = find_spec(ALL)

    assert spec.name == ALL
    assert [part.name for part in spec.parts] == ALL.split("+")
    assert spec.width == 1 + 172 == len(set(spec.columns))
    assert spec.columns[1] == " | ".join(part.columns[0] for part in spec.parts)
    assert find_spec("trace_tokens@1+loop_context@1").columns[0] == "part"


@pytest.mark.slow
def test_a_composite_spec_has_the_features_of_its_parts(tiny_matmul: Any) -> None:
    spec = find_spec(ALL)
    mod = module_from_json(tiny_matmul.module_json)
    traces = [*tiny_matmul.traces, "not json", tiny_matmul.bad_trace]

    *good, no_json, no_replay = spec.extract(mod, traces, tiny_matmul.target)

    # The tokens of a trace that does not replay are known, but not its loops.
    assert no_json is None
    assert no_replay is None
    for trace, rows in zip(tiny_matmul.traces, good, strict=True):
        assert rows is not None
        found = split_parts(rows, np.array([len(rows)]), [part.width for part in spec.parts])
        for part, (own, _) in zip(spec.parts, found, strict=True):
            assert np.array_equal(own, part.extract(mod, [trace], tiny_matmul.target)[0])


def test_where_no_program_has_features_there_are_none(tiny_matmul: Any) -> None:
    mod = module_from_json(tiny_matmul.module_json)

    assert find_spec(ALL).extract(mod, ["not json"] * 2, tiny_matmul.target) == [None, None]
    assert find_spec(ALL).extract(mod, [], tiny_matmul.target) == []


def test_a_composite_of_specs_without_tvm_needs_none() -> None:
    assert not find_spec("trace_tokens@1").needs_tvm
    assert find_spec("trace_tokens@1+per_store@1").needs_tvm
