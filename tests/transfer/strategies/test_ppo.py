"""Agents in TVM's design space, with a model whose likes are known."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from costhub.transfer.strategies.ground import Ground
from costhub.transfer.strategies.ppo import Agents, Ppo


def test_the_agents_come_to_better_programs_than_random_ones(
    new_ground: Callable[..., Ground], likes: Callable[[Any], float]
) -> None:
    ground = new_ground()
    agents = Ppo(programs=12, steps=4, episodes=2).begin(ground)
    for _ in range(2):
        ground.new_round()
        agents.explore(8)
    trained = [score for score, _ in ground._scored.values()]

    by_chance = [likes(program.schedule) for program in new_ground(seed=9).random(64)]
    assert np.mean(trained) > np.mean(by_chance) + 2 * np.std(by_chance) / 8
    assert max(trained) > max(by_chance)


def test_the_policy_is_better_than_its_first_one_from_random_programs(
    new_ground: Callable[..., Ground],
) -> None:
    """From random programs alone, so that what counts is where the agents turn."""
    ground = new_ground()
    agents = Ppo(programs=16, steps=6, episodes=1, patience=6).begin(ground)
    assert isinstance(agents, Agents)
    gained = []
    for _ in range(10):
        ground.new_round()
        groups = list(agents._groups(ground.random(16)))
        first = np.mean([ground.score(group.programs).mean() for group in groups])
        for _ in range(6):
            agents._step(groups)
        gained.append(np.mean([ground.score(group.programs).mean() for group in groups]) - first)
        for group in groups:
            group.learn()

    assert np.mean(gained[-4:]) > np.mean(gained[:4]) + 0.2


def test_there_is_an_agent_for_each_sketch_and_they_persist(ground: Ground) -> None:
    agents = Ppo(programs=12, steps=2, episodes=1).begin(ground)
    assert isinstance(agents, Agents)
    agents.explore(4)
    known = dict(agents._agents)
    ground.new_round()
    agents.explore(4)

    assert len(known) >= 2
    assert all(agents._agents[sketch] is pair for sketch, pair in known.items())


def test_what_tvm_finds_impossible_gets_the_lowest_reward_and_stays(ground: Ground) -> None:
    agents = Ppo(programs=8, steps=1, episodes=1).begin(ground)
    assert isinstance(agents, Agents)
    programs = ground.random(8)
    ground.score(programs)
    made = ground.programs
    ground.programs = lambda proposals: [None, *made(proposals)[1:]]  # type: ignore[method-assign]
    groups = list(agents._groups(programs))
    before = groups[0].programs[0]

    agents._step(groups)

    rewards = np.concatenate([group.rewards[0] for group in groups])
    assert groups[0].programs[0] is before
    assert groups[0].rewards[0][0] == rewards.min()
