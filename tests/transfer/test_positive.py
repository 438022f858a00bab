"""Scores at TVM's seam: positive, in the model's order, the same in every batch until the model changes."""

from __future__ import annotations

import numpy as np
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays

from costhub.transfer.positive import PositiveScores

SCORES = arrays(np.float64, st.integers(2, 30), elements=st.floats(-1e3, 1e3).map(lambda x: round(x, 3)))


@given(SCORES)
def test_they_are_positive_and_finite(raw: np.ndarray) -> None:
    scores = PositiveScores()(raw)
    assert (scores > 0).all()
    assert np.isfinite(scores).all()


@given(SCORES)
def test_they_keep_the_order(raw: np.ndarray) -> None:
    scores = PositiveScores()(raw)
    order = np.argsort(raw, kind="stable")
    assert (np.diff(scores[order]) >= 0).all()
    assert np.argmax(scores) in np.flatnonzero(raw == raw.max())


@given(SCORES, SCORES)
def test_a_later_batch_is_measured_by_the_same_rule(first: np.ndarray, second: np.ndarray) -> None:
    scores = PositiveScores()
    scores(first)
    together = scores(np.concatenate([first, second]))
    assert together.tolist() == [*scores(first), *scores(second)]


def test_reset_takes_the_rule_from_the_next_batch() -> None:
    scores = PositiveScores()
    before = scores(np.array([0.0, 1.0]))
    scores.reset()
    assert scores(np.array([100.0, 101.0])).tolist() == before.tolist()


def test_an_empty_batch_is_no_batch() -> None:
    scores = PositiveScores()
    assert len(scores(np.zeros(0))) == 0
    assert (scores(np.array([5.0, 6.0])) == PositiveScores()(np.array([5.0, 6.0]))).all()
