"""Chains that climb, stay alive between batches, and stop when nothing changes."""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from costhub.papers.autotvm import Annealing, AnnealingChains, Diverse, acceptance
from costhub.search.knobs import Knobs
from costhub.search.selection import Candidates, Ranked
from costhub.search.strategies.search_space import SearchSpace


def mean(chains: AnnealingChains, likes: Callable[[Any], float]) -> float:
    return float(np.mean([likes(state.schedule) for state in chains.states]))


def test_chains_persist_and_climb(space: SearchSpace, likes: Callable[[Any], float]) -> None:
    chains = Annealing(chains=12, steps=8, hottest=0.1).begin(space)
    assert isinstance(chains, AnnealingChains)
    chains._fill()
    levels = [mean(chains, likes)]
    for _ in range(3):
        before = [state.structure for state in chains.states]
        space.new_round()
        chains.explore(4)
        assert len(chains.states) == 12
        # A batch begins where the last one ended: what was scored first are the states of before.
        assert list(space._scored)[: len(set(before))] == list(dict.fromkeys(before))
        levels.append(mean(chains, likes))

    assert levels[-1] > levels[0] + 0.5


def test_without_heat_no_chain_ever_goes_down(space: SearchSpace) -> None:
    chains = Annealing(chains=6, steps=6, hottest=0.0).begin(space)
    assert isinstance(chains, AnnealingChains)
    chains._fill()
    first = space.score(chains.states)

    chains.explore(2)

    assert (space.score(chains.states) >= first).all()


def test_a_batch_ends_when_the_best_stay_the_best(new_space: Callable[..., SearchSpace]) -> None:
    class Constant:
        calls = 0

        def predict(self, context: Any, candidates: Any) -> Any:
            self.calls += 1
            return np.ones(len(candidates))

    space = new_space(Constant())

    Annealing(chains=4, steps=50, patience=3).begin(space).explore(2)

    assert space._cost_model.calls <= 4


def test_chains_begin_at_what_was_measured_before(space: SearchSpace) -> None:
    known = space.random(2)
    for program in known:
        space.add_measured(program.trace, 1e-3)
    chains = Annealing(chains=6, steps=1).begin(space)
    assert isinstance(chains, AnnealingChains)

    chains._fill()

    assert {program.structure for program in known} <= {state.structure for state in chains.states}


def test_a_warmer_chain_goes_down_more_often() -> None:
    chances = [acceptance(-1.0, temperature) for temperature in (0.0, 0.1, 1.0, 10.0)]

    assert chances == sorted(chances)
    assert chances[0] == 0.0
    assert acceptance(0.0, 0.0) == 1.0


def test_every_batch_begins_hot_and_cools_in_equal_steps(space: SearchSpace, monkeypatch: pytest.MonkeyPatch) -> None:
    chains = Annealing(chains=4, steps=4, hottest=0.8, patience=9).begin(space)
    assert isinstance(chains, AnnealingChains)
    temperatures: list[float] = []
    step = chains._step
    monkeypatch.setattr(chains, "_step", lambda scores, now: (temperatures.append(now), step(scores, now))[1])

    for _ in range(2):
        space.new_round()
        chains.explore(4)

    assert temperatures == pytest.approx([0.8, 0.6, 0.4, 0.2] * 2)


def drawn(n: int, seed: int) -> Candidates:
    rng = np.random.default_rng(seed)
    knobs = {Knobs("s", tuple(enumerate(rng.integers(5, size=3).tolist()))) for _ in range(2 * n)}
    return Candidates(rng.uniform(size=n), sorted(knobs, key=str)[:n])


def covered(some: Candidates, places: np.ndarray) -> int:
    return len(frozenset().union(*(some.knobs[place].components for place in places)))


@given(seed=st.integers(0, 99), alpha=st.sampled_from([0.0, 0.1, 0.5, 2.0]))
def test_the_greedy_choice_comes_near_the_best_one(seed: int, alpha: float) -> None:
    some = drawn(9, seed)

    def worth(places: np.ndarray) -> float:
        return float((some.scores / some.scores.std())[places].sum()) + alpha * covered(some, places)

    best = max(worth(np.array(places)) for places in itertools.combinations(range(9), 4))
    found = worth(Diverse(alpha, top=10.0, epsilon=0).choose(some, 4, seed=0))

    # Nemhauser, Wolsey and Fisher (1978), for scores that are not negative.
    assert (1 - 1 / math.e) * best <= found <= best + 1e-9


def test_without_alpha_it_is_the_ranking() -> None:
    some = drawn(40, 3)
    found, ranked = (s.choose(some, 12, seed=0) for s in (Diverse(0.0, epsilon=0), Ranked(epsilon=0)))
    np.testing.assert_array_equal(found, ranked)


def test_the_more_alpha_the_more_decisions_are_covered() -> None:
    some = [drawn(60, seed) for seed in range(20)]
    counts = [
        sum(covered(s, Diverse(alpha, epsilon=0).choose(s, 6, seed=0)) for s in some) for alpha in (0.0, 0.3, 3.0)
    ]

    assert counts[0] < counts[1] < counts[2]


@pytest.mark.parametrize("scale", [1e-6, 1e6])
def test_the_scale_of_the_scores_does_not_matter(scale: float) -> None:
    some = drawn(40, 5)
    other = Candidates(some.scores * scale + 7 * scale, some.knobs)

    found, expected = (Diverse(0.3, epsilon=0).choose(s, 8, seed=0) for s in (other, some))

    np.testing.assert_array_equal(found, expected)


def test_none_is_chosen_from_beyond_the_top() -> None:
    some = drawn(60, 1)
    found = Diverse(100.0, top=2.0, epsilon=0).choose(some, 5, seed=0)
    assert set(found.tolist()) <= set(np.argsort(-some.scores)[:10].tolist())


def test_where_all_scores_are_the_same_only_diversity_counts() -> None:
    programs = [Knobs("s", ((1, a), (2, a))) for a in (1, 1, 2, 3)]
    some = Candidates(np.full(4, 0.5), [*programs[:1], Knobs("s", ((1, 1), (2, 9))), *programs[2:]])

    assert Diverse(epsilon=0).choose(some, 3, seed=0).tolist() == [0, 2, 3]


def test_fewer_than_the_count_cannot_be_considered() -> None:
    with pytest.raises(ValueError, match=r"top must be 1 or more, got 0\.5"):
        Diverse(top=0.5)
