"""ReLeASE: a strategy that learns by proximal policy optimisation, and adaptive sampling.

Ahn et al., *Reinforcement Learning and Adaptive Sampling for Optimized DNN Compilation*, 2019.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field
from functools import partial
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

from costhub.dataset.programs import FloatArray, IntArray
from costhub.dataset.trace import plain, trace_parts
from costhub.models.networks.weights import draw_weights
from costhub.models.protocol import Scores
from costhub.search.knobs import Decision, Knobs, SketchKnobs, coordinates
from costhub.search.selection import Candidates
from costhub.search.strategies.search_space import ScheduledProgram, SearchSpace
from costhub.search.strategies.strategy import Exploration, Explorer

DIRECTIONS = 3
"""Down, stay, up."""


@dataclass(frozen=True)
class PpoOptions:
    """Table 2 of the paper, which gives neither the width of the networks nor the minibatch size."""

    learning_rate: float = 1e-3
    discount: float = 0.9
    gae: float = 0.99
    epochs: int = 3
    clip: float = 0.3
    value_weight: float = 1.0
    entropy_weight: float = 0.1
    hidden: int = 64
    minibatch: int = 32


@dataclass(frozen=True)
class AgentStep:
    """The agent's actions at one step of an episode, in parallel environments."""

    states: FloatArray
    """(n, state)."""
    actions: IntArray
    """(n, knobs), 0 to 2."""
    log_probability: FloatArray
    """(n,) of all knobs together."""
    values: FloatArray
    """(n,) what the agent expected."""

    @property
    def directions(self) -> IntArray:
        """(n, knobs) -1, 0 or 1."""
        return self.actions - 1


class PpoAgent:
    """An actor and a critic that share the first layer (ReLeASE, section 4.1), after Schulman et al., 2017.

    Implemented here rather than taken from stable-baselines3 or torchrl: see docs/adr/0011-strategies.md.

    Args:
        state_size: Number of values of a state.
        knobs: Number of knobs turned at once.
        seed: The only source of randomness.
        options: Parameters of the algorithm.
    """

    def __init__(self, state_size: int, knobs: int, *, seed: int, options: PpoOptions | None = None) -> None:
        self.options = options or PpoOptions()
        self._random = torch.Generator().manual_seed(seed)
        with torch.device("meta"):
            self._network = _ActorCritic(state_size, knobs, self.options.hidden)
        draw_weights(self._network, self._random)
        self._optimizer = torch.optim.Adam(self._network.parameters(), lr=self.options.learning_rate)

    @torch.no_grad()
    def act(self, states: FloatArray) -> AgentStep:
        """Chooses a direction for every knob.

        Args:
            states: (n, state).
        """
        log_policy, values = self._network(torch.as_tensor(states))
        flat = log_policy.exp().flatten(0, 1)
        actions = torch.multinomial(flat, 1, generator=self._random).view(log_policy.shape[:2])
        return AgentStep(states, actions.numpy(), _log_probability(log_policy, actions).numpy(), values.numpy())

    @torch.no_grad()
    def expected(self, states: FloatArray) -> FloatArray:
        """(n,) the expected return of states."""
        values: FloatArray = self._network(torch.as_tensor(states))[1].numpy()
        return values

    def learn(self, turns: list[AgentStep], rewards: FloatArray, last: FloatArray) -> None:
        """Learns from an episode.

        Args:
            turns: One for each step.
            rewards: (steps, n) rewards of the actions.
            last: (n, state) final states of the episode.
        """
        options = self.options
        values = np.stack([*(turn.values for turn in turns), self.expected(last)])
        gains = advantages(rewards, values, discount=options.discount, gae=options.gae)
        tensors = [
            torch.as_tensor(np.concatenate(parts))
            for parts in (
                [turn.states for turn in turns],
                [turn.actions for turn in turns],
                [turn.log_probability for turn in turns],
                list(gains.astype(np.float32)),
                list((gains + values[:-1]).astype(np.float32)),
            )
        ]
        for _ in range(options.epochs):
            order = torch.randperm(len(tensors[0]), generator=self._random)
            for chosen in torch.split(order, options.minibatch):
                self._optimizer.zero_grad(set_to_none=True)
                self._loss(*(tensor[chosen] for tensor in tensors)).backward()  # type: ignore[no-untyped-call]
                self._optimizer.step()

    def _loss(self, states: Tensor, actions: Tensor, before: Tensor, advantage: Tensor, returns: Tensor) -> Tensor:
        options = self.options
        log_policy, values = self._network(states)
        ratio = (_log_probability(log_policy, actions) - before).exp()
        advantage = (advantage - advantage.mean()) / (advantage.std(correction=0) + 1e-8)
        clipped = ratio.clamp(1 - options.clip, 1 + options.clip)
        gain = torch.minimum(ratio * advantage, clipped * advantage).mean()
        entropy = -(log_policy.exp() * log_policy).sum(-1).mean()
        loss: Tensor = (
            options.value_weight * nn.functional.mse_loss(values, returns) - gain - options.entropy_weight * entropy
        )
        return loss


class _ActorCritic(nn.Module):
    def __init__(self, state_size: int, knobs: int, hidden: int) -> None:
        super().__init__()
        self.shared = nn.Linear(state_size, hidden)
        self.policy = _output_head(hidden, knobs * DIRECTIONS)
        self.value = _output_head(hidden, 1)

    def forward(self, states: Tensor) -> tuple[Tensor, Tensor]:
        """(n, knobs, 3) logarithms of probabilities, and (n,) values."""
        seen = torch.tanh(self.shared(states))
        logits = self.policy(seen).unflatten(-1, (-1, DIRECTIONS))
        return logits.log_softmax(-1), self.value(seen).squeeze(-1)


def _output_head(hidden: int, outputs: int) -> nn.Module:
    return nn.Sequential(nn.Linear(hidden, hidden), nn.Tanh(), nn.Linear(hidden, outputs))


def advantages(rewards: FloatArray, values: FloatArray, *, discount: float, gae: float) -> FloatArray:
    """Generalised advantage estimates (Schulman et al., 2016), for episodes that are truncated, not finished.

    Args:
        rewards: (steps, n).
        values: (steps + 1, n) expected values before each step and after the last.
        discount: Gamma.
        gae: Lambda.

    Returns:
        (steps, n).

    Example:
        >>> advantages(np.ones((2, 1)), np.zeros((3, 1)), discount=0.5, gae=1.0).tolist()
        [[1.5], [1.0]]
    """
    estimates: FloatArray = np.zeros_like(rewards)
    running: Any = np.zeros(rewards.shape[1])
    for step in reversed(range(len(rewards))):
        surprise = rewards[step] + discount * values[step + 1] - values[step]
        running = surprise + discount * gae * running
        estimates[step] = running
    return estimates


def _log_probability(log_policy: Tensor, actions: Tensor) -> Tensor:
    """(n,) logarithms of the probability of actions."""
    return log_policy.gather(-1, actions.unsqueeze(-1)).squeeze(-1).sum(-1)


@dataclass(frozen=True)
class Ppo(Explorer):
    """Reinforcement learning on the model's scores.

    Section 4.1: the state is the vector of a program's knobs, an action turns each of them up, down or not at all,
    the reward is the model's score of the resulting program, and after each episode the agent learns by PPO.
    The programs of all episodes are candidates; together with the selection `clustered`, this is ReLeASE.

    Choices made here: programs of different sketches have different knobs, so each sketch has its own agent;
    several programs are changed in parallel; an episode begins with the best programs of earlier episodes
    and as many random ones; if TVM finds the new knobs impossible, the program is not changed and the reward
    is the lowest score before and after that step. A batch scores at most as many programs as TVM's search.
    """

    programs: int = 32
    """Programs that an episode changes side by side."""
    steps: int = 8
    """Most steps of an episode."""
    episodes: int = 3
    """Episodes for each batch."""
    patience: int = 4
    """Steps without a better program, after which an episode has converged."""

    name = "ppo"

    def begin(self, space: SearchSpace) -> Exploration:
        """See `Explorer`."""
        return PpoExploration(self, space)


@dataclass
class _SketchEpisode:
    """The programs of one sketch in an episode."""

    sketch: str
    sketch_knobs: SketchKnobs
    agent: PpoAgent
    programs: list[ScheduledProgram]
    turns: list[AgentStep] = field(default_factory=list)
    rewards: list[Scores] = field(default_factory=list)

    def states(self) -> FloatArray:
        return np.stack([self.sketch_knobs.state(program.trace) for program in self.programs])

    def learn(self) -> None:
        if self.turns:
            self.agent.learn(self.turns, np.stack(self.rewards).astype(np.float32), self.states())


class PpoExploration:
    """The agents of one workload, by sketch."""

    def __init__(self, options: Ppo, space: SearchSpace) -> None:
        self.options, self.space = options, space
        self._agents: dict[str, tuple[SketchKnobs, PpoAgent]] = {}
        self._last: list[ScheduledProgram] = []

    def explore(self, count: int) -> None:
        """See `Exploration`."""
        for _ in range(self.options.episodes):
            self._episode()

    def _episode(self) -> None:
        groups = list(self._groups(self._starts()))
        best, since = -np.inf, 0
        for _ in range(self.options.steps):
            if not groups or since >= self.options.patience:
                break
            reached = self._step(groups)
            since = 0 if reached > best else since + 1
            best = max(best, reached)
        for group in groups:
            group.learn()
        self._last = self.space.best(self.options.programs // 2)

    def _starts(self) -> list[ScheduledProgram]:
        """The best programs of the last episodes or of an earlier search, plus random ones; all scored."""
        if not self._last:
            self._last = self.space.fastest(self.options.programs // 2)
        programs = [*self._last, *self.space.random(self.options.programs - len(self._last))]
        if programs:
            self.space.score(programs)
        return programs

    def _groups(self, programs: list[ScheduledProgram]) -> Iterator[_SketchEpisode]:

        by_sketch: dict[str, list[ScheduledProgram]] = {}
        for program in programs:
            knobs = Knobs.of(*plain(trace_parts(program.trace, postproc=False)))
            by_sketch.setdefault(knobs.sketch, []).append(program)
        for sketch, own in by_sketch.items():
            if sketch not in self._agents:
                sketch_knobs = SketchKnobs.of(own[0].trace)
                seed = int(self.space.rng.integers(2**31))
                # A sketch without knobs only yields the programs drawn; there is nothing to learn.
                self._agents[sketch] = (
                    sketch_knobs,
                    PpoAgent(max(1, sketch_knobs.state_size), max(1, len(sketch_knobs.knobs)), seed=seed),
                )
            sketch_knobs, agent = self._agents[sketch]
            if sketch_knobs.knobs:
                yield _SketchEpisode(sketch, sketch_knobs, agent, own)

    def _step(self, groups: list[_SketchEpisode]) -> float:
        """Turns the knobs of all programs; returns the best score reached."""
        proposals: list[Any] = []
        for group in groups:
            turn = group.agent.act(group.states())
            group.turns.append(turn)
            proposals += [
                partial(_turned_knobs, group.sketch_knobs, program, directions)
                for program, directions in zip(group.programs, turn.directions, strict=True)
            ]
        turned = self.space.programs(proposals)
        scores = np.full(len(turned), np.nan)
        possible = [program is not None for program in turned]
        if any(possible):
            scores[possible] = self.space.score([program for program in turned if program is not None])
        before = self.space.score([program for group in groups for program in group.programs])
        worst = float(np.nanmin([*scores, *before]))
        place = 0
        for group in groups:
            own = slice(place, place := place + len(group.programs))
            group.programs = [new or old for new, old in zip(turned[own], group.programs, strict=True)]
            group.rewards.append(np.where(np.isnan(scores[own]), worst, scores[own]))
        return float(np.nanmax(scores)) if any(possible) else -np.inf


def _turned_knobs(
    sketch_knobs: SketchKnobs, program: ScheduledProgram, directions: IntArray, _: np.random.Generator
) -> Any:
    return sketch_knobs.turned(program.trace, directions)


MIN_CLUSTERS, MAX_CLUSTERS = 8, 64
"""Clusters that are tried first, and the most there can be."""
_KMEANS_STARTS = 8
"""Random starts of the first k-means; the others go on from the one before."""


@dataclass(frozen=True)
class Clustered:
    """Adaptive sampling: k-means over the candidates, with as many clusters as the loss justifies.

    Section 4.2: k grows from 8 until the loss, the squared distance of candidates from their centroids, falls
    by too little (the knee), and the centroids are measured. So it may choose fewer than requested, but
    never more. A centroid that has been measured already is replaced by the mode: for each knob, the decision
    that most candidates have.

    Not every point is a program, so here a centroid is replaced by the nearest candidate of its cluster, and
    the mode by the nearest candidate that is new and not chosen yet; the knobs of the mode are those of the
    most frequent sketch. The paper's candidates were found by an agent rewarded by the model; among
    candidates from elsewhere, those with the best scores are used instead. Programs are measured in the order
    of their scores.

    Example:
        >>> programs = [Knobs("s", ((1, choice),)) for choice in (0, 1, 2, 50, 51, 52, 53)]
        >>> some = Candidates(np.arange(7.0), programs)
        >>> Clustered().choose(some, 2, seed=0).tolist() in ([4, 1], [5, 1])
        True
    """

    top: float = 8.0
    """The best `top` * count new candidates are clustered, and with them measured ones that score as well;
    `math.inf` takes all."""
    knee: float = 1.02
    """Clusters are added until one more divides the loss by less than this."""

    name = "clustered"

    def choose(self, candidates: Candidates, count: int, *, seed: int) -> IntArray:
        """See `Selection`."""
        order = candidates.best_first()
        new = candidates.is_new()[order]
        if count < 1 or not new.any():
            return np.zeros(0, np.int64)
        most = np.searchsorted(np.cumsum(new), self.top * count) + 1
        order, new = order[:most], new[:most]
        knobs = [candidates.knobs[place] for place in order.tolist()]
        points = coordinates([*knobs, most_frequent_knobs(knobs)])
        central = _central_points(points[:-1], count, knee=self.knee, seed=seed)
        chosen = central[new[central]]
        near = np.argsort(((points[:-1] - points[-1]) ** 2).sum(axis=1), kind="stable")
        spare = near[new[near] & ~np.isin(near, chosen)]
        ranks: IntArray = np.sort(np.concatenate([chosen, spare[: len(central) - len(chosen)]]))
        return order[ranks]


def most_frequent_knobs(programs: list[Knobs]) -> Knobs:
    """For each knob of the most frequent sketch, the most common decision; ties go to the first.

    Example:
        >>> most_frequent_knobs([Knobs("s", ((1, 4),)), Knobs("t", ((1, 2), (3, 0))), Knobs("t", ((1, 2), (3, 1)))])
        Knobs(sketch='t', decisions=((1, 2), (3, 0)))
    """
    ((sketch, _),) = Counter(program.sketch for program in programs).most_common(1)
    own = [program.decisions for program in programs if program.sketch == sketch]
    by_place: dict[int, Counter[Decision]] = {}
    for decisions in own:
        for place, decision in decisions:
            by_place.setdefault(place, Counter())[decision] += 1
    return Knobs(sketch, tuple((p, by_place[p].most_common(1)[0][0]) for p in sorted(by_place)))


def _central_points(points: Scores, count: int, *, knee: float, seed: int) -> IntArray:
    """The point nearest to the centroid of each cluster, with as many clusters as pay off."""
    from scipy.cluster.vq import kmeans, vq

    most = min(count, MAX_CLUSTERS, len(points))
    centres, _ = kmeans(points, min(MIN_CLUSTERS, most), iter=_KMEANS_STARTS, rng=np.random.default_rng(seed))
    owner, distance = vq(points, centres)
    loss = float((distance**2).sum())
    while len(centres) < most and loss > 0:
        # A further cluster begins where the centroids describe the candidates worst.
        guess = np.vstack([centres, points[np.argmax(distance)]])
        centres, _ = kmeans(points, guess)
        owner, distance = vq(points, centres)
        before, loss = loss, float((distance**2).sum())
        if knee * loss > before:
            break
    nearest = [np.flatnonzero(owner == c) for c in np.unique(owner)]
    return np.array([members[np.argmin(distance[members])] for members in nearest], np.int64)
