"""Knobs of a trace: every turn is a decision that TVM can replay."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from costhub.transfer.strategies.dials import Dials, moved_factor
from costhub.transfer.strategies.ground import Ground, Program


@pytest.fixture
def program(ground: Ground) -> Program:
    return next(p for p in ground.random(8) if len(Dials.of(p.trace).decided) >= 4)


def test_a_state_says_where_each_decision_stands(program: Program) -> None:
    dials = Dials.of(program.trace)

    state = dials.state(program.trace)

    assert state.shape == (dials.state_size,)
    assert (state >= 0).all()
    assert (state <= 1).all()
    assert len(dials.knobs) == sum(max(1, size - 1) for *_, size in dials.decided)
    place = 0
    for _, kind, size in dials.decided:
        if kind == "SamplePerfectTile":
            assert state[place : place + size].sum() == pytest.approx(1.0)
        place += size


def test_standing_still_is_the_same_program(ground: Ground, program: Program) -> None:
    dials = Dials.of(program.trace)
    still = np.zeros(len(dials.knobs), np.int64)

    (again,) = ground.programs([lambda _: dials.turned(program.trace, still)])

    assert again is not None
    assert again.structure == program.structure


def test_each_knob_can_be_turned_by_itself(ground: Ground, program: Program) -> None:
    dials = Dials.of(program.trace)
    state = dials.state(program.trace)
    moved = 0
    for knob in range(len(dials.knobs)):
        for step in (-1, 1):
            directions = np.zeros(len(dials.knobs), np.int64)
            directions[knob] = step
            trace = dials.turned(program.trace, directions)
            # One decision at most, and in a tile two neighbouring factors.
            changed = np.flatnonzero(dials.state(trace) != state)
            assert len(changed) <= 2
            moved += bool(len(changed))
            (made,) = ground.programs([lambda _, trace=trace: trace])
            assert made is None or Dials.of(made.trace) == dials

    assert moved >= len(dials.knobs)


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
