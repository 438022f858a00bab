from __future__ import annotations

import math

import numpy as np
import pytest

from costhub.transfer.selection.clustered import Clustered, mode
from costhub.transfer.selection.knobs import Knobs
from costhub.transfer.selection.selection import Candidates

GROUPS, EACH = 10, 9
KNOBS = [
    Knobs("s", ((1, 100 * group), (2, member // 3), (3, member % 3)))
    for group in range(GROUPS)
    for member in range(EACH)
]
"""Groups of programs that are alike; the fifth of each is in the middle."""
MIDDLE = [EACH * group + EACH // 2 for group in range(GROUPS)]


def some(*visited: int, scores: np.ndarray | None = None) -> Candidates:
    made = np.arange(float(len(KNOBS))) if scores is None else scores
    return Candidates(made, KNOBS, {KNOBS[place] for place in visited})


def groups(places: np.ndarray) -> list[int]:
    return [int(place) // EACH for place in places]


@pytest.mark.parametrize("seed", range(5))
def test_the_middles_of_groups_are_measured_and_no_more_than_there_are_groups(seed: int) -> None:
    found = Clustered(top=math.inf, knee=1.5).choose(some(), 64, seed=seed)

    # k-means may miss a group, and one more cluster than there are groups shows that it was one too many.
    assert 8 <= len(found) <= GROUPS + 2
    assert len(set(groups(found))) >= GROUPS - 2
    assert len(set(MIDDLE) & set(found.tolist())) >= GROUPS - 3


def test_no_more_are_chosen_than_asked_for() -> None:
    assert len(Clustered(top=math.inf, knee=1.0).choose(some(), 10, seed=0)) == 10
    assert len(Clustered(top=math.inf, knee=1.0).choose(some(), 3, seed=0)) == 3


def test_the_flatter_the_knee_the_more_is_measured() -> None:
    counts = [len(Clustered(top=math.inf, knee=knee).choose(some(), 64, seed=0)) for knee in (4.0, 1.05, 1.0)]
    assert counts[0] < counts[1] < counts[2] == 64


def test_what_was_measured_is_replaced_by_the_nearest_to_the_mode() -> None:
    selection = Clustered(top=math.inf)
    # A few programs more make group 0 the one that the mode is in.
    many = [*KNOBS, *(Knobs("s", ((1, 0), (2, 5), (3, member))) for member in range(3, 6))]
    centres = selection.choose(Candidates(np.zeros(len(many)), many), 8, seed=0)

    visited = {many[place] for place in centres[:1]}
    found = selection.choose(Candidates(np.zeros(len(many)), many, visited), 8, seed=0)

    (instead,) = set(found.tolist()) - set(centres.tolist())
    assert set(centres.tolist()) - set(found.tolist()) == {centres[0]}
    assert many[instead].decisions[0] == (1, 0) == mode(many).decisions[0]


def test_where_all_centroids_were_measured_as_many_others_are() -> None:
    selection = Clustered(top=math.inf)
    centres = selection.choose(some(), 8, seed=0)

    found = selection.choose(some(*centres), 8, seed=0)

    assert len(found) == 8
    assert not set(found.tolist()) & set(centres.tolist())


def test_only_the_best_are_clustered_and_the_best_of_them_comes_first() -> None:
    scores = np.random.default_rng(0).normal(size=len(KNOBS))
    found = Clustered(top=2.0).choose(some(scores=scores), 8, seed=0)

    assert set(found.tolist()) <= set(np.argsort(-scores)[:16].tolist())
    assert np.all(np.diff(scores[found]) <= 0)


def test_what_has_been_measured_does_not_crowd_out_what_has_not() -> None:
    best = range(len(KNOBS) - 40, len(KNOBS))
    found = Clustered(top=1.0).choose(some(*best), 8, seed=0)

    assert 0 < len(found) <= 8
    assert max(found) < len(KNOBS) - 40


def test_the_mode_is_of_the_most_frequent_sketch_knob_by_knob() -> None:
    programs = [
        Knobs("t", ((1, 7),)),
        *(Knobs("s", ((1, a), (2, (b, 1)))) for a, b in ((0, 2), (1, 4), (1, 2))),
    ]

    assert mode(programs) == Knobs("s", ((1, 1), (2, (2, 1))))
