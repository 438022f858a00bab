"""The agent alone, in a world where the best direction is known."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import torch

from costhub.papers.release import Clustered, Ppo, PpoAgent, PpoExploration, PpoOptions, advantages, most_frequent_knobs
from costhub.search.knobs import Knobs
from costhub.search.selection import Candidates
from costhub.search.strategies.search_space import SearchSpace

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


RATIOS = (2.0, 0.5, 2.0, 0.5)
"""How much likelier each action has become: beyond the clip of 0.3 upwards and downwards, with gain and loss."""
ADVANTAGES = (4.0, 2.0, 0.0, -2.0)
RETURNS = (1.0, 0.0, -1.0, 2.0)
VALUES = (0.5, 0.0, 0.0, 1.0)
POLICY = ((0.2, 0.3, 0.5), (0.1, 0.8, 0.1), (0.6, 0.2, 0.2), (1 / 3, 1 / 3, 1 / 3))
ACTIONS = (2, 1, 0, 1)


class _Fixed(torch.nn.Module):
    """An actor and a critic that know their answers."""

    def forward(self, states: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        return torch.tensor(POLICY).log().unsqueeze(1), torch.tensor(VALUES)


def loss_of(options: PpoOptions) -> float:
    agent = PpoAgent(1, 1, seed=0, options=options)
    agent._network = _Fixed()  # type: ignore[assignment]
    chosen = torch.tensor([policy[action] for policy, action in zip(POLICY, ACTIONS, strict=True)])
    before = (chosen / torch.tensor(RATIOS)).log()
    actions = torch.tensor(ACTIONS).unsqueeze(1)
    loss = agent._loss(torch.zeros(4, 1), actions, before, torch.tensor(ADVANTAGES), torch.tensor(RETURNS))
    return float(loss)


def test_the_surrogate_is_clipped_where_it_would_gain_and_only_there() -> None:
    """Schulman et al., 2017, eq. 7, by hand: the advantages become (3, 1, -1, -3) / sqrt(5)."""
    scale = math.sqrt(5.0)
    terms = [
        1.3 * 3 / scale,  # gain, clipped: the action is already 1.3 times as likely
        0.5 * 1 / scale,  # gain, not clipped: the action has become less likely
        2.0 * -1 / scale,  # loss, not clipped: the action has become likelier
        0.7 * -3 / scale,  # loss, clipped
    ]

    loss = loss_of(PpoOptions(value_weight=0.0, entropy_weight=0.0))

    assert loss == pytest.approx(-sum(terms) / 4, rel=1e-5)


def test_the_critic_learns_the_returns() -> None:
    without = loss_of(PpoOptions(value_weight=0.0))

    squared = sum((value - wanted) ** 2 for value, wanted in zip(VALUES, RETURNS, strict=True)) / 4
    assert loss_of(PpoOptions(value_weight=2.0)) - without == pytest.approx(2.0 * squared, rel=1e-5)


def test_a_policy_that_still_chooses_is_rewarded() -> None:
    without = loss_of(PpoOptions(entropy_weight=0.0))

    entropy = -sum(p * math.log(p) for policy in POLICY for p in policy) / 4
    assert loss_of(PpoOptions(entropy_weight=0.5)) - without == pytest.approx(-0.5 * entropy, rel=1e-4)


def test_returns_are_advantages_and_what_was_expected(monkeypatch: pytest.MonkeyPatch) -> None:
    agent = PpoAgent(1, 1, seed=0, options=PpoOptions(epochs=2, minibatch=4))
    steps = [agent.act(np.array([[value], [value + 1], [value + 2]], np.float32)) for value in (0.1, 0.6)]
    rewards, last = np.array([[1.0, 2.0, 3.0], [0.0, -1.0, 4.0]], np.float32), np.ones((3, 1), np.float32)
    seen: list[tuple[torch.Tensor, ...]] = []
    loss = agent._loss
    monkeypatch.setattr(agent, "_loss", lambda *given: (seen.append(given), loss(*given))[1])
    values = np.stack([*(step.values for step in steps), agent.expected(last)])

    agent.learn(steps, rewards, last)

    expected = advantages(rewards, values, discount=0.9, gae=0.99)
    columns = [
        *(np.concatenate([getattr(s, name) for s in steps]).ravel() for name in ("states", "actions")),
        np.concatenate([step.log_probability for step in steps]),
        expected.ravel(),
        (expected + values[:-1]).ravel(),
    ]
    assert [len(given[0]) for given in seen] == [4, 2, 4, 2]
    for passed in (seen[:2], seen[2:]):  # each program once, with what belongs to it
        found = np.stack([torch.cat([given[i] for given in passed]).numpy().ravel() for i in range(5)], axis=1)
        np.testing.assert_allclose(found[found[:, 0].argsort()], np.stack(columns, axis=1)[columns[0].argsort()], 1e-4)


def test_actions_have_the_shape_of_the_knobs() -> None:
    turn = PpoAgent(3, 5, seed=0).act(np.zeros((7, 3), np.float32))

    assert turn.directions.shape == (7, 5)
    assert set(np.unique(turn.directions)) <= {-1, 0, 1}
    assert turn.log_probability.shape == turn.values.shape == (7,)
    assert (turn.log_probability < 0).all()


def test_the_probability_of_a_turn_is_the_product_over_its_knobs() -> None:
    agent, states = PpoAgent(3, 5, seed=0), np.random.default_rng(0).random((7, 3)).astype(np.float32)
    turn = agent.act(states)

    policy = agent._network(torch.as_tensor(states))[0].detach().exp().numpy()
    chosen = [[policy[n, knob, action] for knob, action in enumerate(own)] for n, own in enumerate(turn.actions)]
    np.testing.assert_allclose(np.exp(turn.log_probability), np.prod(chosen, axis=1), rtol=1e-4)


def test_the_numbers_are_those_of_the_paper() -> None:
    """Table 2 of ReLeASE."""
    found = PpoOptions()

    assert (found.learning_rate, found.discount, found.gae) == (1e-3, 0.9, 0.99)
    assert (found.epochs, found.clip, found.value_weight, found.entropy_weight) == (3, 0.3, 1.0, 0.1)


def test_advantages_are_zero_where_all_came_as_expected() -> None:
    values = np.array([[3.0], [2.0], [1.0]])
    rewards = values[:-1] - 0.9 * values[1:]

    assert np.allclose(advantages(rewards, values, discount=0.9, gae=0.99), 0.0)


def test_without_gae_an_advantage_looks_one_step_ahead() -> None:
    rewards, values = np.array([[1.0], [5.0]]), np.array([[0.5], [2.0], [4.0]])

    found = advantages(rewards, values, discount=0.5, gae=0.0)

    assert found.ravel().tolist() == [1.0 + 0.5 * 2.0 - 0.5, 5.0 + 0.5 * 4.0 - 2.0]


def test_an_advantage_is_the_sum_of_the_surprises_to_come() -> None:
    """Schulman et al., 2016, eq. 16, written as the sum."""
    rng = np.random.default_rng(0)
    rewards, values = rng.normal(size=(4, 2)), rng.normal(size=(5, 2))
    discount, gae = 0.9, 0.7
    surprise = [rewards[t] + discount * values[t + 1] - values[t] for t in range(4)]
    expected = [sum((discount * gae) ** (k - t) * surprise[k] for k in range(t, 4)) for t in range(4)]

    np.testing.assert_allclose(advantages(rewards, values, discount=discount, gae=gae), expected)


def test_the_agents_come_to_better_programs_than_random_ones(
    new_space: Callable[..., SearchSpace], likes: Callable[[Any], float]
) -> None:
    space = new_space()
    agents = Ppo(programs=12, steps=4, episodes=2).begin(space)
    for _ in range(2):
        space.new_round()
        agents.explore(8)
    trained = [score for score, _ in space._scored.values()]

    by_chance = [likes(program.schedule) for program in new_space(seed=9).random(64)]
    assert np.mean(trained) > np.mean(by_chance) + 2 * np.std(by_chance) / 8
    assert max(trained) > max(by_chance)


@pytest.mark.slow
def test_the_policy_is_better_than_its_first_one_from_random_programs(
    new_space: Callable[..., SearchSpace],
) -> None:
    """From random programs alone, so that what counts is where the agents turn."""
    space = new_space()
    agents = Ppo(programs=16, steps=6, episodes=1, patience=6).begin(space)
    assert isinstance(agents, PpoExploration)
    gained = []
    for _ in range(10):
        space.new_round()
        groups = list(agents._groups(space.random(16)))
        first = np.mean([space.score(group.programs).mean() for group in groups])
        for _ in range(6):
            agents._step(groups)
        gained.append(np.mean([space.score(group.programs).mean() for group in groups]) - first)
        for group in groups:
            group.learn()

    assert np.mean(gained[-4:]) > np.mean(gained[:4]) + 0.2


def test_there_is_an_agent_for_each_sketch_and_they_persist(space: SearchSpace) -> None:
    agents = Ppo(programs=12, steps=2, episodes=1).begin(space)
    assert isinstance(agents, PpoExploration)
    agents.explore(4)
    known = dict(agents._agents)
    space.new_round()
    agents.explore(4)

    assert len(known) >= 2
    assert all(agents._agents[sketch] is pair for sketch, pair in known.items())


def test_what_tvm_finds_impossible_gets_the_lowest_reward_and_stays(space: SearchSpace) -> None:
    agents = Ppo(programs=8, steps=1, episodes=1).begin(space)
    assert isinstance(agents, PpoExploration)
    programs = space.random(8)
    space.score(programs)
    made = space.programs
    space.programs = lambda proposals: [None, *made(proposals)[1:]]  # type: ignore[method-assign]
    groups = list(agents._groups(programs))
    before = groups[0].programs[0]

    agents._step(groups)

    rewards = np.concatenate([group.rewards[0] for group in groups])
    assert groups[0].programs[0] is before
    assert groups[0].rewards[0][0] == rewards.min()


GROUPS, EACH = 10, 9
KNOBS_CLUSTERED = [
    Knobs("s", ((1, 100 * group), (2, member // 3), (3, member % 3)))
    for group in range(GROUPS)
    for member in range(EACH)
]
"""Groups of programs that are alike; the fifth of each is in the middle."""
MIDDLE = [EACH * group + EACH // 2 for group in range(GROUPS)]


def some(*visited: int, scores: np.ndarray | None = None) -> Candidates:
    made = np.arange(float(len(KNOBS_CLUSTERED))) if scores is None else scores
    return Candidates(made, KNOBS_CLUSTERED, {KNOBS_CLUSTERED[place] for place in visited})


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
    many = [*KNOBS_CLUSTERED, *(Knobs("s", ((1, 0), (2, 5), (3, member))) for member in range(3, 6))]
    centres = selection.choose(Candidates(np.zeros(len(many)), many), 8, seed=0)

    visited = {many[place] for place in centres[:1]}
    found = selection.choose(Candidates(np.zeros(len(many)), many, visited), 8, seed=0)

    (instead,) = set(found.tolist()) - set(centres.tolist())
    assert set(centres.tolist()) - set(found.tolist()) == {centres[0]}
    assert many[instead].decisions[0] == (1, 0) == most_frequent_knobs(many).decisions[0]


def test_where_all_centroids_were_measured_as_many_others_are() -> None:
    selection = Clustered(top=math.inf)
    centres = selection.choose(some(), 8, seed=0)

    found = selection.choose(some(*centres), 8, seed=0)

    assert len(found) == 8
    assert not set(found.tolist()) & set(centres.tolist())


def test_only_the_best_are_clustered_and_the_best_of_them_comes_first() -> None:
    scores = np.random.default_rng(0).normal(size=len(KNOBS_CLUSTERED))
    found = Clustered(top=2.0).choose(some(scores=scores), 8, seed=0)

    assert set(found.tolist()) <= set(np.argsort(-scores)[:16].tolist())
    assert np.all(np.diff(scores[found]) <= 0)


def test_what_has_been_measured_does_not_crowd_out_what_has_not() -> None:
    best = range(len(KNOBS_CLUSTERED) - 40, len(KNOBS_CLUSTERED))
    found = Clustered(top=1.0).choose(some(*best), 8, seed=0)

    assert 0 < len(found) <= 8
    assert max(found) < len(KNOBS_CLUSTERED) - 40


def test_the_mode_is_of_the_most_frequent_sketch_knob_by_knob() -> None:
    programs = [
        Knobs("t", ((1, 7),)),
        *(Knobs("s", ((1, a), (2, (b, 1)))) for a, b in ((0, 2), (1, 4), (1, 2))),
    ]

    assert most_frequent_knobs(programs) == Knobs("s", ((1, 1), (2, (2, 1))))
