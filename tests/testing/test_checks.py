from __future__ import annotations

import numpy as np
import pytest

from costhub.dataset.programs import Programs
from costhub.errors import ModelError
from costhub.models.trees.gbt import Gbt, GbtOptions
from costhub.testing.checks import agreement, require, require_equal, require_model_error, scores_of
from costhub.testing.made_programs import made_programs


class Fixed(Gbt):
    """Returns what it is told to."""

    def __init__(self, scores: object) -> None:
        super().__init__(feature_spec="demo@1", options=GbtOptions(rounds=1))
        self.scores = scores

    def predict(self, rows: object, counts: object) -> object:  # type: ignore[override]
        return self.scores


def test_a_condition_that_does_not_hold_is_said() -> None:
    require(True, "never said")
    with pytest.raises(AssertionError, match=r"^said$"):
        require(np.False_, "said")


def test_scores_may_differ_by_rounding_of_their_spread_and_size() -> None:
    scores = np.array([1.0, 2.0, 3.0])

    require_equal(scores + 1e-5, scores, "equal")
    require_equal(1e6 + scores + 0.1, 1e6 + scores, "equal")
    require_equal(np.zeros(0), np.zeros(0), "equal")
    with pytest.raises(AssertionError, match=r"^A must be B, but 1 of 3 scores differ by up to 0\.001"):
        require_equal(scores + np.array([0.0, 1e-3, 0.0]), scores, "A must be B")
    with pytest.raises(AssertionError, match="3 of 3"):
        require_equal(np.nextafter(scores, 9.0), scores, "A must be B", tolerance=0.0)


def test_the_right_error_is_asked_for() -> None:
    def fail(error: Exception) -> None:
        raise error

    require_model_error(lambda: fail(ModelError("x")), "the call")
    with pytest.raises(AssertionError, match="the call must raise ModelError, but did not"):
        require_model_error(lambda: None, "the call")
    with pytest.raises(AssertionError, match="the call must raise ModelError, but raised IndexError"):
        require_model_error(lambda: fail(IndexError("x")), "the call")


@pytest.mark.parametrize(
    ("scores", "sentence"),
    [
        (np.zeros(96, np.float32), r"must return float64 of shape \(96,\), got float32 of shape \(96,\)"),
        (np.zeros((96, 1)), r"got float64 of shape \(96, 1\)"),
        ([0.0] * 96, "got list of shape None"),
        (np.full(96, np.nan), "96 of 96 scores are NaN or infinite"),
        (np.r_[np.zeros(95), np.inf], "1 of 96 scores"),
    ],
)
def test_what_is_no_score_is_refused(scores: object, sentence: str) -> None:
    with pytest.raises(AssertionError, match=sentence):
        scores_of(Fixed(scores), made_programs("demo@1"))


def test_agreement_counts_measured_pairs_within_groups() -> None:
    programs = Programs.from_list(
        [np.ones((1, 2))] * 5, np.array([0, 0, 0, 1, 1]), ("a", "b"),
        np.array([1e-3, 2e-3, np.inf, 5.0, 4.0]),
    )  # fmt: skip

    assert agreement(Fixed(np.array([2.0, 1.0, 9.0, 1.0, 2.0])[[0, 1, 3, 4]]), programs) == 1.0
    assert agreement(Fixed(np.array([2.0, 1.0, 2.0, 1.0])), programs) == 0.5
