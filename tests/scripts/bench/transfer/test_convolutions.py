"""Simulated searches of AutoTVM's figure 8, among made programs."""

from __future__ import annotations

import numpy as np
import pytest

from costhub.dataset.programs import Programs
from costhub.models.architectures import new_model
from costhub.models.protocol import CostModel
from scripts.bench.transfer.convolutions import CARRIED, METHODS, simulated
from scripts.bench.transfer.convolutions_live import FromNothing, Untrained
from scripts.tables.papers.autotvm import FIGURE_8_BASE


def programs(seed: int, sign: float = 1.0) -> Programs:
    """Their latency depends on the first column alone."""
    rows = np.random.default_rng(seed).normal(size=(60, 2)).astype(np.float32)
    ones = np.ones(60, np.int64)
    return Programs(rows, ones, 0 * ones, (f"w{seed}",), np.exp(sign * rows[:, 0]).astype(float), "demo@1")


@pytest.fixture(scope="module")
def source() -> CostModel:
    model = new_model("gbt", feature_spec="demo@1", options={"objective": "log", "rounds": 60})
    model.fit(programs(0), None, seed=0, progress=False)
    return model


@pytest.mark.parametrize("method", METHODS)
def test_a_search_has_one_best_for_each_trial_and_it_never_falls(method: str, source: CostModel) -> None:
    best = simulated(programs(1), source, method, batch=8, trials=20, seed=0)

    assert len(best) == 20
    assert best == sorted(best)


@pytest.mark.parametrize("method", CARRIED)
def test_a_good_source_leads_the_first_batch(method: str, source: CostModel) -> None:
    assert simulated(programs(1), source, method, batch=8, trials=8, seed=0)[-1] > 0.9


def test_without_a_source_the_first_batch_is_the_random_one(source: CostModel) -> None:
    nothing, chance = (
        simulated(programs(1), source, method, batch=8, trials=24, seed=0) for method in (FIGURE_8_BASE, "random")
    )

    assert nothing[:8] == chance[:8]
    assert nothing[-1] > chance[-1]


def test_a_source_that_is_wrong_leads_astray_unless_it_learns(source: CostModel) -> None:
    pool = programs(1, sign=-1.0)

    frozen, learned = (simulated(pool, source, method, batch=8, trials=32, seed=0) for method in ("frozen", "residual"))

    assert frozen[-1] < learned[-1]


def test_live_searches_from_nothing_leave_the_source_out() -> None:
    wrong, target = Untrained(feature_spec="demo@1"), programs(1)
    assert (wrong.predict(target.rows, target.counts) == 0).all()

    model = FromNothing().adapt(wrong, target, seed=0)

    scores = model.predict(target.rows, target.counts)
    assert np.corrcoef(scores, -np.log(target.latency_s))[0, 1] > 0.8
    one = target.select(np.array([0]))
    assert FromNothing().adapt(wrong, one, seed=0) is wrong
