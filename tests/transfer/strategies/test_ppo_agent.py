"""The agent alone, in a world where the best direction is known."""

from __future__ import annotations

import numpy as np
import pytest

from costhub.transfer.strategies.ppo_agent import PpoAgent, advantages

KNOBS, PLACES, STEPS = 4, 32, 8


def episode(agent: PpoAgent, rng: np.random.Generator, *, learn: bool) -> float:
    """Knobs in [0, 1]: the reward is how near they are to (1, 0, 1, 0); returns the mean of the last step."""
    goal = np.array([1.0, 0.0, 1.0, 0.0])
    states = rng.random((PLACES, KNOBS)).astype(np.float32)
    turns, rewards = [], []
    for _ in range(STEPS):
        turn = agent.act(states)
        states = np.clip(states + 0.1 * turn.directions, 0, 1).astype(np.float32)
        turns.append(turn)
        rewards.append(-np.abs(states - goal).sum(axis=1))
    if learn:
        agent.learn(turns, np.stack(rewards).astype(np.float32), states)
    return float(rewards[-1].mean())


def test_it_learns_which_way_to_turn() -> None:
    agent, rng = PpoAgent(KNOBS, KNOBS, seed=0), np.random.default_rng(0)
    first = np.mean([episode(agent, rng, learn=False) for _ in range(4)])
    for _ in range(30):
        episode(agent, rng, learn=True)

    last = np.mean([episode(agent, rng, learn=False) for _ in range(4)])

    assert first == pytest.approx(-2.0, abs=0.25)  # at first it knows nothing
    assert last > first + 0.8


def test_equal_seeds_learn_the_same() -> None:
    found = []
    for _ in range(2):
        agent, rng = PpoAgent(KNOBS, KNOBS, seed=5), np.random.default_rng(0)
        found.append([episode(agent, rng, learn=True) for _ in range(3)])

    assert found[0] == found[1]


def test_actions_have_the_shape_of_the_knobs() -> None:
    turn = PpoAgent(3, 5, seed=0).act(np.zeros((7, 3), np.float32))

    assert turn.directions.shape == (7, 5)
    assert set(np.unique(turn.directions)) <= {-1, 0, 1}
    assert turn.log_probability.shape == turn.values.shape == (7,)
    assert (turn.log_probability < 0).all()


def test_advantages_are_zero_where_all_came_as_expected() -> None:
    values = np.array([[3.0], [2.0], [1.0]])
    rewards = values[:-1] - 0.9 * values[1:]

    assert np.allclose(advantages(rewards, values, discount=0.9, gae=0.99), 0.0)


def test_without_gae_an_advantage_looks_one_step_ahead() -> None:
    rewards, values = np.array([[1.0], [5.0]]), np.array([[0.5], [2.0], [4.0]])

    found = advantages(rewards, values, discount=0.5, gae=0.0)

    assert found.ravel().tolist() == [1.0 + 0.5 * 2.0 - 0.5, 5.0 + 0.5 * 4.0 - 2.0]
