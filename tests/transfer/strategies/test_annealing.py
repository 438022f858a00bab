"""Chains that climb, stay alive between batches, and stop when nothing changes."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from costhub.transfer.strategies.annealing import Annealing, Chains, acceptance
from costhub.transfer.strategies.ground import Ground


def mean(chains: Chains, likes: Callable[[Any], float]) -> float:
    return float(np.mean([likes(state.schedule) for state in chains.states]))


def test_chains_persist_and_climb(ground: Ground, likes: Callable[[Any], float]) -> None:
    chains = Annealing(chains=12, steps=8, hottest=0.1).begin(ground)
    assert isinstance(chains, Chains)
    chains._fill()
    levels = [mean(chains, likes)]
    for _ in range(3):
        before = [state.structure for state in chains.states]
        ground.new_round()
        chains.explore(4)
        assert len(chains.states) == 12
        # A batch begins where the last one ended: what was scored first are the states of before.
        assert list(ground._scored)[: len(set(before))] == list(dict.fromkeys(before))
        levels.append(mean(chains, likes))

    assert levels[-1] > levels[0] + 0.5


def test_without_heat_no_chain_ever_goes_down(ground: Ground) -> None:
    chains = Annealing(chains=6, steps=6, hottest=0.0).begin(ground)
    assert isinstance(chains, Chains)
    chains._fill()
    first = ground.score(chains.states)

    chains.explore(2)

    assert (ground.score(chains.states) >= first).all()


def test_a_batch_ends_when_the_best_stay_the_best(new_ground: Callable[..., Ground]) -> None:
    class Constant:
        calls = 0

        def predict(self, context: Any, candidates: Any) -> Any:
            self.calls += 1
            return np.ones(len(candidates))

    ground = new_ground(Constant())

    Annealing(chains=4, steps=50, patience=3).begin(ground).explore(2)

    assert ground._cost_model.calls <= 4


def test_chains_begin_at_what_was_measured_before(ground: Ground) -> None:
    known = ground.random(2)
    for program in known:
        ground.told(program.trace, 1e-3)
    chains = Annealing(chains=6, steps=1).begin(ground)
    assert isinstance(chains, Chains)

    chains._fill()

    assert {program.structure for program in known} <= {state.structure for state in chains.states}


def test_a_warmer_chain_goes_down_more_often() -> None:
    chances = [acceptance(-1.0, temperature) for temperature in (0.0, 0.1, 1.0, 10.0)]

    assert chances == sorted(chances)
    assert chances[0] == 0.0
    assert acceptance(0.0, 0.0) == 1.0
