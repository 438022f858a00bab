from __future__ import annotations

import numpy as np

from costhub.transfer.selection.knobs import Knobs
from costhub.transfer.selection.ranked import Ranked
from costhub.transfer.selection.selection import Candidates

PROGRAMS = [Knobs("s", ((1, number),)) for number in range(50)]
SCORES = np.random.default_rng(0).normal(size=50)


def test_the_highest_scores_come_first() -> None:
    found = Ranked(epsilon=0).choose(Candidates(SCORES, PROGRAMS), 6, seed=0)

    assert found.tolist() == np.argsort(-SCORES)[:6].tolist()


def test_chance_finds_what_the_model_thinks_nothing_of() -> None:
    some = Candidates(SCORES, PROGRAMS)
    low = set(np.argsort(SCORES)[:25].tolist())

    found = [low & set(Ranked().choose(some, 16, seed=seed).tolist()) for seed in range(40)]

    assert 4 <= sum(map(bool, found)) <= 36
