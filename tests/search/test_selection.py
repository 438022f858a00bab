"""What a selection leaves waits and competes with what comes; nothing is chosen twice."""

from __future__ import annotations

import json
import math
from collections.abc import Sequence
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from costhub.collector.propose.sampler import Sampler
from costhub.collector.workloads.suites import find_workload
from costhub.dataset.trace import replay
from costhub.errors import UnknownNameError
from costhub.papers.autotvm import Diverse
from costhub.papers.release import Clustered
from costhub.search.knobs import Knobs
from costhub.search.options import SELECTIONS as SELECTIONS_
from costhub.search.options import find_selection
from costhub.search.selection import (
    PROPOSED_PER_TRIAL,
    Candidates,
    Ranked,
    Selection,
    Shortlist,
    candidate_knobs,
    epsilon_greedy,
)

WAITING = np.arange(100)[::-1]


def chosen(count: int, epsilon: float, seed: int) -> list[int]:
    return epsilon_greedy(WAITING, count, lambda n: WAITING[:n], epsilon=epsilon, seed=seed).tolist()


@pytest.mark.parametrize("epsilon", [0.0, 0.05, 0.5, 1.0])
def test_a_share_is_chosen_at_random_after_the_others(epsilon: float) -> None:
    found = [chosen(8, epsilon, seed) for seed in range(400)]
    greedy = [next((i for i, place in enumerate(f) if place != 99 - i), 8) for f in found]

    # A random candidate may happen to be the best that is left; of 100 it hardly ever is.
    assert np.mean(greedy) / 8 == pytest.approx(1 - epsilon, abs=0.04)
    assert all(len(set(f)) == 8 for f in found)


def test_without_a_model_all_are_equally_likely() -> None:
    counts = np.bincount(np.concatenate([chosen(10, 1.0, seed) for seed in range(1000)]), minlength=100)

    assert 60 < counts.min() < counts.max() < 150


def test_fewer_waiting_than_wanted_are_all_chosen() -> None:
    assert sorted(chosen(500, 0.3, 0)) == list(range(100))
    assert chosen(0, 0.3, 0) == []


SELECTIONS: list[Selection] = [
    Ranked(),
    Ranked(epsilon=1.0),
    Diverse(),
    Diverse(3.0, top=1.0),
    Clustered(),
    Clustered(top=math.inf),
]


def drawn(n: int, seed: int, *, visited: int = 0) -> Candidates:
    """Candidates of two sketches, some of which are the same program."""
    rng = np.random.default_rng(seed)
    knobs = [
        Knobs(str(rng.choice(["s", "t"])), ((1, (int(2 ** rng.integers(4)), 8)), (2, int(rng.integers(4)))))
        for _ in range(n)
    ]
    return Candidates(rng.normal(size=n), knobs, set(knobs[:visited]))


def test_there_is_a_score_for_each_candidate() -> None:
    with pytest.raises(ValueError, match="one score for each of the 1 candidates, got 2"):
        Candidates(np.zeros(2), [Knobs("s", ())])


def test_the_best_come_first_each_once_and_of_equals_the_first() -> None:
    a, b, c = (Knobs("s", ((1, choice),)) for choice in range(3))
    some = Candidates(np.array([0.5, 0.9, 0.5, 0.1, 0.9]), [a, b, c, a, b], {c})

    assert some.best_first().tolist() == [1, 0, 2]
    assert some.is_new().tolist() == [True, True, False, True, True]
    assert some.waiting().tolist() == [1, 0]


@pytest.mark.parametrize("selection", SELECTIONS, ids=str)
@given(n=st.integers(0, 60), count=st.integers(0, 30), visited=st.integers(0, 60), seed=st.integers(0, 99))
def test_new_programs_are_chosen_and_each_once(
    selection: Selection, n: int, count: int, visited: int, seed: int
) -> None:
    some = drawn(n, seed, visited=visited)

    found = selection.choose(some, count, seed=seed)

    programs = [some.knobs[place] for place in found]
    fresh = len(set(some.knobs) - set(some.visited))
    assert len(set(programs)) == len(programs) <= min(count, fresh)
    assert not set(programs) & set(some.visited)
    if not isinstance(selection, Clustered):
        assert len(programs) == min(count, fresh)
    assert len(programs) > 0 or min(count, fresh) == 0  # a search goes on while there is something to measure
    np.testing.assert_array_equal(found, selection.choose(some, count, seed=seed))


@pytest.mark.parametrize("selection", SELECTIONS, ids=str)
def test_every_selection_has_a_name(selection: Selection) -> None:
    assert selection.name in ("ranked", "diverse", "clustered")


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


SCORES_SHORTLIST = [float(score) for score in np.random.default_rng(0).permutation(24)]


@pytest.fixture(scope="module")
def candidates(target: str) -> list[Any]:
    from tvm.s_tir import meta_schedule as ms

    mod = find_workload("matmul.128x128x128").module()
    schedules = [replay(mod, program.trace) for program in Sampler(mod, target, seed=1).random(24)]
    arguments = ms.arg_info.ArgInfo.from_entry_func(mod, False)
    return [ms.MeasureCandidate(schedule, arguments) for schedule in schedules]


def shortlist(candidates: Sequence[Any], selection: Any, scores: Sequence[float] = SCORES_SHORTLIST) -> Shortlist:
    by_knobs = dict(zip(map(candidate_knobs, candidates), scores, strict=True))
    return Shortlist(selection, lambda some: np.array([by_knobs[candidate_knobs(c)] for c in some]), seed=0)


def test_what_is_left_competes_with_what_comes(candidates: list[Any]) -> None:
    best = sorted(range(24), key=lambda i: -SCORES_SHORTLIST[i])
    chooser = shortlist(candidates, Ranked(epsilon=0.0))

    first = chooser.choose(candidates[:12], 3)
    second = chooser.choose(candidates[12:], 24)

    assert first == [candidates[i] for i in best if i < 12][:3]
    assert second == [candidates[i] for i in best if candidates[i] not in first]
    assert chooser.choose([], 4) == []


@pytest.mark.parametrize("selection", [Ranked(), Diverse(), Clustered()], ids=lambda s: s.name)
def test_all_are_chosen_once_in_the_end(candidates: list[Any], selection: Any) -> None:
    chooser, found = shortlist(candidates, selection), []
    for start in range(0, 24, 8):
        found += chooser.choose(candidates[start : start + 8], 2)
    while more := chooser.choose([], 6):
        found += more

    assert len({candidate_knobs(c) for c in found}) == len(found)
    assert len(found) >= 2 * PROPOSED_PER_TRIAL


def test_what_an_earlier_search_measured_is_not_chosen(candidates: list[Any]) -> None:
    chooser = shortlist(candidates, Ranked(epsilon=0.0))
    chooser.measured(candidates[:20])

    assert {candidate_knobs(c) for c in chooser.choose(candidates, 24)} == set(map(candidate_knobs, candidates[20:]))


def test_no_more_wait_than_were_proposed_for_a_batch(candidates: list[Any]) -> None:
    chooser = shortlist(candidates, Ranked(epsilon=0.0))

    chooser.choose(candidates, 1)

    assert len(chooser.choose([], 24)) == PROPOSED_PER_TRIAL


def test_knobs_are_those_of_the_trace_as_text(candidates: list[Any]) -> None:
    from costhub.dataset.trace import trace_to_json
    from costhub.search.knobs import Knobs

    for candidate in candidates[:4]:
        text = trace_to_json(candidate.sch.trace)
        assert candidate_knobs(candidate) == Knobs.read(text)
        assert json.loads(text)


def test_every_selection_has_its_name_and_ranking_needs_none() -> None:
    assert find_selection("ranked") is None
    for name in set(SELECTIONS_) - {"ranked"}:
        found = find_selection(name)
        assert found is not None
        assert found.name == name


def test_an_unknown_name_says_what_there_is() -> None:
    with pytest.raises(UnknownNameError, match="diverse"):
        find_selection("divers")
