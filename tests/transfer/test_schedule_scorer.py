"""The scorer of a collection: a model's own scores of schedules, and what a sampler makes of them."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from costhub.collector.sampler import Sampler
from costhub.collector.shares import Shares
from costhub.collector.suite import find_workload
from costhub.dataset.features.spec import find_spec
from costhub.dataset.trace import replay
from costhub.errors import ScoreError
from costhub.models.trees.gbt import Gbt
from costhub.transfer.schedule_scorer import ScheduleScorer
from costhub.worker import Worker

WEIGHTS = np.linspace(-1, 1, 172)


@pytest.fixture(scope="module")
def mod() -> Any:
    return find_workload("matmul.128x128x128").module()


def test_scores_are_those_of_the_model_on_the_features_of_the_traces(
    linear: Any, mod: Any, target: str
) -> None:
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
    with Worker("costhub.worker:echo") as child:
        assert child.call(scorer, timeout_s=60).model.config() == scorer.model.config()
