"""The model in a search: it learns per task, and never turns the search into a random one unnoticed."""

from __future__ import annotations

import logging
from typing import Any

import numpy as np
import pytest

from costhub.errors import ScoreError
from costhub.transfer.methods.frozen import Frozen
from costhub.transfer.search_model import SearchModel

FEATURES: list[Any] = [np.full((2, 1), float(i), np.float32) for i in range(4)]
LATENCY = np.array([4e-3, 3e-3, 2e-3, 1e-3])


def test_scores_are_positive_and_in_the_models_order(linear: Any) -> None:
    scores = SearchModel(linear([-1.0])).predict("t", FEATURES)
    assert (scores > 0).all()
    assert np.argsort(-scores).tolist() == [0, 1, 2, 3]


def test_a_program_without_features_scores_lowest(linear: Any) -> None:
    scores = SearchModel(linear([1.0])).predict("t", [FEATURES[3], None, FEATURES[1]])
    assert scores[1] == scores.min() > 0


def test_raw_scores_are_the_models_own(linear: Any) -> None:
    model = SearchModel(linear([-1.0]))
    raw = model.raw("t", [FEATURES[3], None, FEATURES[1]])
    assert raw[[0, 2]].tolist() == [-6.0, -2.0]
    assert np.isnan(raw[1])
    expected = model.predict("t", [FEATURES[3], None, FEATURES[1]])
    assert model.positive("t", raw).tolist() == expected.tolist()


def test_the_model_of_a_task_is_the_pretrained_one_until_it_learns(linear: Any) -> None:
    model = SearchModel(linear([-1.0], shift=2.0))
    assert model.model_of("a") is model.base
    model.update("a", FEATURES, LATENCY)
    assert model.model_of("a") is not model.base
    assert model.model_of("b") is model.base


def test_each_task_learns_from_its_own_measurements_only(linear: Any) -> None:
    model = SearchModel(linear([-1.0], shift=2.0))
    model.update("a", FEATURES, LATENCY)
    assert np.argmax(model.predict("a", FEATURES)) == 3
    assert np.argmax(model.predict("b", FEATURES)) == 0


def test_every_update_starts_from_the_pretrained_model_with_all_measurements(linear: Any) -> None:
    base = linear([-1.0], shift=0.75)
    model = SearchModel(base)
    for _ in range(3):
        model.update("a", FEATURES, LATENCY)
    # Three shifts would have turned the order round; one does not.
    assert np.argmax(model.predict("a", FEATURES)) == 0
    assert model.health.updates == 3
    assert base.weights.tolist() == [-1.0]


def test_failures_are_not_learned_from(linear: Any) -> None:
    model = SearchModel(linear([1.0]))
    model.update("a", [*FEATURES[:2], None], np.array([1e-3, np.inf, 1e-3]))
    assert model.health.updates == 0


def test_a_frozen_model_stays_as_it_is(linear: Any) -> None:
    model = SearchModel(linear([-1.0], shift=5.0), method=Frozen())
    model.update("a", FEATURES, LATENCY)
    assert np.argmax(model.predict("a", FEATURES)) == 0


def test_an_update_that_diverges_is_thrown_away_and_said(
    linear: Any, caplog: pytest.LogCaptureFixture
) -> None:
    model = SearchModel(linear([1.0], shift=float("nan")))
    with caplog.at_level(logging.WARNING, "costhub"):
        model.update("a", FEATURES, LATENCY)
    assert model.health.diverged_updates == 1
    assert "pretrained" in caplog.text
    assert np.argmax(model.predict("a", FEATURES)) == 3


def test_constant_scores_are_counted_and_said(linear: Any, caplog: pytest.LogCaptureFixture) -> None:
    model = SearchModel(linear([0.0]))
    with caplog.at_level(logging.WARNING, "costhub"):
        scores = model.predict("a", FEATURES)
    assert model.health.constant_rounds == 1
    assert "random" in caplog.text
    assert (scores > 0).all()


def test_a_round_of_constant_scores_counts_once_however_many_generations_it_has(linear: Any) -> None:
    model = SearchModel(linear([0.0]), method=Frozen())
    for _ in range(2):
        for _ in range(3):
            model.predict("a", FEATURES)
        model.update("a", FEATURES, LATENCY)
    assert model.health.constant_rounds == 2


def test_a_model_that_is_given_up_leaves_no_scale_behind(linear: Any) -> None:
    # Fine-tuned, it scores on another scale, and beyond the largest float where the second column is not 0.
    model = SearchModel(linear([1.0, 0.0], shift=np.array([1e6, 1e308])))
    plain = [np.array([[float(i), 0.0]], np.float32) for i in range(4)]
    odd = [np.array([[float(i), 100.0]], np.float32) for i in range(4)]
    model.update("a", plain, LATENCY)
    assert np.ptp(model.predict("a", plain)) > 1

    with np.errstate(over="ignore"):
        scores = model.predict("a", odd)

    assert model.health.diverged_updates == 1
    assert np.argsort(scores).tolist() == [0, 1, 2, 3]
    assert scores.max() / scores.min() > 2


def test_a_pretrained_model_without_usable_scores_is_refused(linear: Any) -> None:
    with pytest.raises(ScoreError, match="NaN"):
        SearchModel(linear([float("nan")])).predict("a", FEATURES)
