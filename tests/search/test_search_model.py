"""Scores at TVM's seam: positive, in the model's order, the same in every batch until the model changes."""

from __future__ import annotations

import copy
import logging
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays

from costhub.collector.propose.sampler import Sampler, Shares
from costhub.collector.workloads.suites import find_workload
from costhub.dataset.features.specs import find_spec
from costhub.dataset.trace import replay
from costhub.errors import ScoreError
from costhub.isolation.child import Child
from costhub.models.trees.gbt import Gbt
from costhub.search.search_model import PositiveScores, ScheduleScorer, SearchModel
from costhub.transfer.methods.method import Frozen

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


@pytest.mark.parametrize("pressure", [1.0, 3.0])
def test_a_parent_ahead_by_a_spread_weighs_as_much_more_as_the_pressure_says(pressure: float) -> None:
    low, high = PositiveScores(pressure)(np.array([-1.0, 1.0]))  # two spreads apart

    assert high / low == pytest.approx(np.exp(2 * pressure))


def test_every_task_has_the_pressure_of_the_search(linear: Any) -> None:
    mild, strong = (SearchModel(linear([-1.0]), pressure=pressure) for pressure in (1.0, 3.0))

    for task in ("one", "other"):
        np.testing.assert_allclose(np.log(strong.predict(task, FEATURES)), 3 * np.log(mild.predict(task, FEATURES)))


def test_an_empty_batch_is_no_batch() -> None:
    scores = PositiveScores()
    assert len(scores(np.zeros(0))) == 0
    assert (scores(np.array([5.0, 6.0])) == PositiveScores()(np.array([5.0, 6.0]))).all()


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


def test_an_update_that_diverges_is_thrown_away_and_said(linear: Any, caplog: pytest.LogCaptureFixture) -> None:
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


WEIGHTS = np.linspace(-1, 1, 172)


@pytest.fixture(scope="module")
def mod() -> Any:
    return find_workload("matmul.128x128x128").module()


def test_scores_are_those_of_the_model_on_the_features_of_the_traces(linear: Any, mod: Any, target: str) -> None:
    sampler = Sampler(mod, target, seed=4)
    programs = sampler.random(5)
    model = linear(WEIGHTS)

    scores = ScheduleScorer(model).score(sampler._context, [replay(mod, p.trace).copy() for p in programs])

    features = find_spec("per_store@1").extract(mod, [p.trace for p in programs], target)
    rows = [f for f in features if f is not None]
    expected = model.predict(np.concatenate(rows), np.array([len(f) for f in rows]))
    np.testing.assert_allclose(scores, expected)
    assert len(set(scores.tolist())) == 5


def test_a_sampler_keeps_the_scores_of_what_the_model_picked(linear: Any, mod: Any, target: str) -> None:
    sampler = Sampler(mod, target, seed=4)
    programs = sampler.propose(
        8,
        parents=(),
        shares=Shares.parse("random=0.5,model=0.5"),
        scorer=ScheduleScorer(linear(WEIGHTS)),
    )

    by = {name: [p for p in programs if p.proposed_by == name] for name in ("random", "model")}
    assert len(by["random"]) == len(by["model"]) == 4
    assert all(p.predicted_score is None for p in by["random"])
    for program in by["model"]:
        again = ScheduleScorer(linear(WEIGHTS)).score(sampler._context, [replay(mod, program.trace)])
        assert program.predicted_score == pytest.approx(again[0])


def test_a_model_that_gives_nan_is_refused(linear: Any, mod: Any, target: str) -> None:
    sampler = Sampler(mod, target, seed=4)
    with pytest.raises(ScoreError, match="NaN"):
        sampler.guide((), 1, ScheduleScorer(linear(np.full(172, np.nan))))


def test_it_travels_to_a_child_with_its_model() -> None:
    # A user's own design space is sampled in a child, and the scorer goes along.
    scorer = ScheduleScorer(Gbt(feature_spec="per_store@1"))
    with Child() as child:
        assert child.call(copy.copy, scorer, timeout_s=60).model.config() == scorer.model.config()
