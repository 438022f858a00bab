"""Knobs of a trace: every turn is a decision that TVM can replay."""

from __future__ import annotations

import copy
import json
import math
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from costhub.dataset.trace import plain, replay, trace_parts
from costhub.errors import DataError
from costhub.search.knobs import Knobs, SketchKnobs, coordinates, moved_factor
from costhub.search.strategies.search_space import ScheduledProgram, SearchSpace

INSTRUCTIONS = [
    ["GetSBlock", [], ["C", "main"], ["b0"]],
    ["SamplePerfectTile", ["l1"], [2, 64], ["v2", "v3"]],
    ["SampleCategorical", [], [[0, 16, 64], [0.25, 0.25, 0.5]], ["v6"]],
    ["Annotate", ["b0", 32], ["meta_schedule.parallel"], []],
    ["Annotate", ["b0", "v6"], ["meta_schedule.unroll_explicit"], []],
    ["EnterPostproc", [], [], []],
    ["SampleCategorical", [], [[1, 2], [0.5, 0.5]], ["v7"]],
]
DECISIONS = [[1, [8, 16]], [2, 2], [6, 1]]


def changed(**places: Any) -> Knobs:
    """The knobs with other instructions; the keys are `i` and their numbers."""
    instructions = copy.deepcopy(INSTRUCTIONS)
    for name, instruction in places.items():
        instructions[int(name[1:])] = instruction
    return Knobs.of(instructions, DECISIONS)


def test_knobs_are_the_decisions_before_post_processing_and_the_sizes_of_annotations() -> None:
    assert Knobs.of(INSTRUCTIONS, DECISIONS).decisions == ((1, (8, 16)), (2, 2), (3, (32,)))


def test_what_is_decided_does_not_change_the_sketch() -> None:
    plain_knobs = Knobs.of(INSTRUCTIONS, DECISIONS)
    others = [
        Knobs.of(INSTRUCTIONS, [[1, [4, 32]], [2, 0]]),
        changed(i3=["Annotate", ["b0", 64], ["meta_schedule.parallel"], []]),
        changed(i6=["GetLoops", ["b0"], [], ["l9"]]),
    ]

    assert {other.sketch for other in others} == {plain_knobs.sketch}
    assert [other == plain_knobs for other in others] == [False, False, True]


@pytest.mark.parametrize(
    "other",
    [
        changed(i0=["GetSBlock", [], ["D", "main"], ["b0"]]),
        changed(i1=["SamplePerfectTile", ["l1"], [2, 16], ["v2", "v3"]]),
        changed(i3=["Annotate", ["b0", 32], ["meta_schedule.vectorize"], []]),
        changed(i4=["Annotate", ["b0", "v2"], ["meta_schedule.unroll_explicit"], []]),
    ],
    ids=["argument", "attribute", "key", "reference"],
)
def test_programs_of_other_instructions_share_no_knob(other: Knobs) -> None:
    assert not other.components & Knobs.of(INSTRUCTIONS, DECISIONS).components


@pytest.mark.parametrize("name", ["matmul.128x128x128", "softmax.64x1000"])
def test_candidates_of_a_search_have_the_knobs_of_their_traces(name: str) -> None:
    from costhub.collector.propose.sampler import Sampler
    from costhub.collector.workloads.suites import find_workload

    mod = find_workload(name).module()
    target = '{"kind": "llvm", "mcpu": "x86-64-v3", "num-cores": 2}'
    traces = [program.trace for program in Sampler(mod, target, seed=1).random(12)]

    found = [Knobs.read(trace) for trace in traces]

    assert len(set(found)) == len(set(traces)) > 1
    assert len({program.sketch for program in found}) < 12  # they differ in decisions, too
    scheduled = [trace_parts(replay(mod, trace).trace, postproc=False) for trace in traces]
    assert [Knobs.of(*plain(parts)) for parts in scheduled] == found


@pytest.mark.parametrize("text", ["", "null", "[[]]", "[" * 100_000])
def test_a_text_that_is_no_trace_is_refused(text: str) -> None:
    with pytest.raises(DataError, match="JSON pair of instructions and decisions"):
        Knobs.read(text)


@pytest.mark.parametrize("decision", [None, "a", 0.5, ["a"], [1, [2]], {}, 1 << 64])
def test_a_decision_that_is_no_number_is_refused(decision: Any) -> None:
    with pytest.raises(DataError, match="A decision is a number or a list of numbers"):
        Knobs.of(INSTRUCTIONS, [[1, decision]])


leaves = st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=4)
anything = st.recursive(leaves, lambda inner: st.lists(inner, max_size=4), max_leaves=9)
annotate = st.tuples(st.just("Annotate"), st.lists(anything, max_size=3), anything).map(list)


@given(
    st.lists(annotate | anything, max_size=6),
    st.lists(st.tuples(st.integers(-1, 6), st.integers() | st.lists(st.integers(), max_size=4) | anything)),
)
def test_any_trace_is_read_or_refused(instructions: list[Any], decisions: list[Any]) -> None:
    try:
        found = Knobs.read(json.dumps([instructions, decisions]))
    except DataError:
        return

    assert all(0 <= place < len(instructions) for place, _ in found.decisions)
    assert np.isfinite(coordinates([found])).all()


programs = st.lists(
    st.builds(
        lambda sketch, sizes, choice: Knobs(sketch, ((1, tuple(sizes)), (4, choice))),
        st.sampled_from("st"),
        st.lists(st.integers(1, 64), min_size=2, max_size=2),
        st.integers(-2, 9),
    ),
    min_size=1,
    max_size=12,
)


@given(programs)
def test_points_are_as_different_as_programs(some: list[Knobs]) -> None:
    points = coordinates(some)

    assert len(np.unique(points, axis=0)) == len(set(some))
    assert points.shape == (len(some), 4 * len({program.sketch for program in some}))


def test_a_step_of_a_tile_counts_the_same_at_every_size_and_another_sketch_is_further() -> None:
    sizes = coordinates([Knobs("s", ((1, (n, 64 // n)),)) for n in (1, 2, 4, 32, 64)])
    steps = np.abs(np.diff(sizes, axis=0)).sum(axis=1)
    np.testing.assert_allclose(steps, [2, 2, 6, 2])

    same, alike, other = coordinates([Knobs(s, ((1, n),)) for s, n in (("s", 1), ("s", 2), ("t", 1))])
    assert np.linalg.norm(same - alike) < np.linalg.norm(same - other)


@pytest.fixture
def program(space: SearchSpace) -> ScheduledProgram:
    return next(p for p in space.random(8) if len(SketchKnobs.of(p.trace).decided) >= 4)


def test_a_state_says_where_each_decision_stands(program: ScheduledProgram) -> None:
    sketch = SketchKnobs.of(program.trace)

    state = sketch.state(program.trace)

    assert state.shape == (sketch.state_size,)
    assert (state >= 0).all()
    assert (state <= 1).all()
    assert len(sketch.knobs) == sum(max(1, size - 1) for *_, size in sketch.decided)
    place = 0
    for _, kind, size in sketch.decided:
        if kind == "SamplePerfectTile":
            assert state[place : place + size].sum() == pytest.approx(1.0)
        place += size


def test_standing_still_is_the_same_program(space: SearchSpace, program: ScheduledProgram) -> None:
    sketch = SketchKnobs.of(program.trace)
    still = np.zeros(len(sketch.knobs), np.int64)

    (again,) = space.programs([lambda _: sketch.turned(program.trace, still)])

    assert again is not None
    assert again.structure == program.structure


def test_each_knob_can_be_turned_by_itself(space: SearchSpace, program: ScheduledProgram) -> None:
    sketch = SketchKnobs.of(program.trace)
    state = sketch.state(program.trace)
    moved = 0
    for knob in range(len(sketch.knobs)):
        for step in (-1, 1):
            directions = np.zeros(len(sketch.knobs), np.int64)
            directions[knob] = step
            trace = sketch.turned(program.trace, directions)
            # One decision at most, and in a tile two neighbouring factors.
            changed = np.flatnonzero(sketch.state(trace) != state)
            assert len(changed) <= 2
            moved += bool(len(changed))
            (made,) = space.programs([lambda _, trace=trace: trace])
            assert made is None or SketchKnobs.of(made.trace) == sketch

    assert moved >= len(sketch.knobs)


FACTORS = st.lists(st.sampled_from([1, 2, 3, 4, 6, 7, 16, 30]), min_size=2, max_size=5)


@given(FACTORS, st.data())
def test_factors_keep_their_product_and_a_turn_can_be_undone(factors: list[int], data: st.DataObject) -> None:
    level = data.draw(st.integers(0, len(factors) - 2))
    step = data.draw(st.sampled_from([-1, 1]))

    moved = moved_factor(factors, level, step, innermost=0)

    assert math.prod(moved) == math.prod(factors)
    assert all(factor >= 1 for factor in moved)
    untouched = [i for i in range(len(factors)) if i not in (level, level + 1)]
    assert [moved[i] for i in untouched] == [factors[i] for i in untouched]
    source = factors[level + 1 if step > 0 else level]
    assert (moved != factors) == (source > 1)


def test_the_innermost_factor_stays_within_its_limit() -> None:
    assert moved_factor([2, 64], 0, -1, innermost=64) == [2, 64]
    assert moved_factor([2, 32], 0, -1, innermost=64) == [1, 64]
    assert moved_factor([2, 96], 0, 1, innermost=64) == [4, 48]  # nearer to it is allowed
