"""What every rule keeps."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from costhub.transfer.controller.batch import Batch
from costhub.transfer.controller.certainty import Certainty
from costhub.transfer.controller.plateau import Plateau
from costhub.transfer.controller.stop_rule import StopRule
from costhub.transfer.controller.worthwhile import Worthwhile

RULES = (Certainty(trials=64), Plateau(), Worthwhile())


def search(seed: int, count: int, *, failing: float = 0.2) -> list[Batch]:
    """A made search whose model is half right."""
    rng = np.random.default_rng(seed)
    found = []
    for _ in range(count):
        scores = rng.normal(scale=0.3, size=4)
        latency_s = 1e-3 * np.exp(-scores + rng.normal(scale=0.3, size=4))
        latency_s[rng.random(4) < failing] = np.inf
        found.append(Batch(latency_s, scores, waiting=float(rng.normal(scale=0.3))))
    return found


@pytest.mark.parametrize("rule", RULES, ids=lambda rule: type(rule).__name__)
@given(seed=st.integers(0, 50), count=st.integers(1, 20), factor=st.floats(1e-3, 1e3))
def test_the_unit_of_latency_and_the_level_of_scores_do_not_matter(
    rule: StopRule, seed: int, count: int, factor: float
) -> None:
    batches = search(seed, count)
    other = [Batch(factor * b.latency_s, b.scores - 0.7, b.waiting - 0.7) for b in batches]

    assert rule.goes_on(batches) == rule.goes_on(other)


@pytest.mark.parametrize("rule", RULES, ids=lambda rule: type(rule).__name__)
def test_every_rule_begins_and_ends_a_search_that_no_longer_gains(rule: StopRule) -> None:
    flat = [Batch(np.full(4, 1e-3), np.full(4, -0.5), waiting=-0.5)] * 20

    assert rule.goes_on(flat[:1])
    assert not rule.goes_on(flat)


@pytest.mark.parametrize("rule", RULES, ids=lambda rule: type(rule).__name__)
def test_a_task_of_which_nothing_runs_ends_at_last(rule: StopRule) -> None:
    failed = search(0, 20, failing=1.0)

    assert rule.goes_on(failed[:1])
    assert not rule.goes_on(failed)
