"""Provides Ppo: agents that learn to turn the knobs of programs until the model likes them (ReLeASE)."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from functools import partial
from typing import TYPE_CHECKING, Any

import numpy as np

from costhub.dataset.programs import FloatArray, IntArray
from costhub.dataset.trace import plain, trace_parts
from costhub.models.protocol import Scores
from costhub.transfer.selection.knobs import Knobs
from costhub.transfer.strategies.dials import Dials
from costhub.transfer.strategies.ground import Ground, Program
from costhub.transfer.strategies.strategy import Exploration, Explorer

if TYPE_CHECKING:
    from costhub.transfer.strategies.ppo_agent import PpoAgent, Turn


@dataclass(frozen=True)
class Ppo(Explorer):
    """Reinforcement learning on the model's scores.

    *Reinforcement Learning and Adaptive Sampling for Optimized DNN Compilation* (Ahn et al., 2019), section
    4.1: the state is the vector of a program's knobs, an action turns each of them up, down or not at all,
    the reward is the model's score of the resulting program, and after each episode the agent learns by PPO.
    The programs of all episodes are candidates; together with the selection `clustered`, this is ReLeASE.

    Chosen here: programs of different sketches have different knobs, so each sketch has an agent of its own;
    several programs are changed side by side; an episode begins with the best programs of earlier episodes
    and as many random ones; if TVM finds the new knobs impossible, the program stays as it is and the reward
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

    def begin(self, ground: Ground) -> Exploration:
        """See `Explorer`."""
        return Agents(self, ground)


@dataclass
class _Group:
    """The programs of one sketch in an episode."""

    sketch: str
    dials: Dials
    agent: PpoAgent
    programs: list[Program]
    turns: list[Turn] = field(default_factory=list)
    rewards: list[Scores] = field(default_factory=list)

    def states(self) -> FloatArray:
        return np.stack([self.dials.state(program.trace) for program in self.programs])

    def learn(self) -> None:
        if self.turns:
            self.agent.learn(self.turns, np.stack(self.rewards).astype(np.float32), self.states())


class Agents:
    """The agents of one workload, by sketch."""

    def __init__(self, options: Ppo, ground: Ground) -> None:
        self.options, self.ground = options, ground
        self._agents: dict[str, tuple[Dials, PpoAgent]] = {}
        self._last: list[Program] = []

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
        self._last = self.ground.best(self.options.programs // 2)

    def _starts(self) -> list[Program]:
        """The best programs of the last episodes, or of an earlier search, and random ones; all scored."""
        if not self._last:
            self._last = self.ground.fastest(self.options.programs // 2)
        programs = [*self._last, *self.ground.random(self.options.programs - len(self._last))]
        if programs:
            self.ground.score(programs)
        return programs

    def _groups(self, programs: list[Program]) -> Iterator[_Group]:
        from costhub.transfer.strategies.ppo_agent import PpoAgent

        by_sketch: dict[str, list[Program]] = {}
        for program in programs:
            knobs = Knobs.of(*plain(trace_parts(program.trace, postproc=False)))
            by_sketch.setdefault(knobs.sketch, []).append(program)
        for sketch, own in by_sketch.items():
            if sketch not in self._agents:
                dials = Dials.of(own[0].trace)
                seed = int(self.ground.rng.integers(2**31))
                # A sketch without knobs has one program for each that is drawn; there is nothing to learn.
                self._agents[sketch] = (
                    dials,
                    PpoAgent(max(1, dials.state_size), max(1, len(dials.knobs)), seed=seed),
                )
            dials, agent = self._agents[sketch]
            if dials.knobs:
                yield _Group(sketch, dials, agent, own)

    def _step(self, groups: list[_Group]) -> float:
        """Turns the knobs of all programs; returns the best score reached."""
        proposals: list[Any] = []
        for group in groups:
            turn = group.agent.act(group.states())
            group.turns.append(turn)
            proposals += [
                partial(_propose, group.dials, program, directions)
                for program, directions in zip(group.programs, turn.directions, strict=True)
            ]
        made = self.ground.programs(proposals)
        scores = np.full(len(made), np.nan)
        there = [program is not None for program in made]
        if any(there):
            scores[there] = self.ground.score([program for program in made if program is not None])
        before = self.ground.score([program for group in groups for program in group.programs])
        worst = float(np.nanmin([*scores, *before]))
        place = 0
        for group in groups:
            own = slice(place, place := place + len(group.programs))
            group.programs = [new or old for new, old in zip(made[own], group.programs, strict=True)]
            group.rewards.append(np.where(np.isnan(scores[own]), worst, scores[own]))
        return float(np.nanmax(scores)) if any(there) else -np.inf


def _propose(dials: Dials, program: Program, directions: IntArray, _: np.random.Generator) -> Any:
    return dials.turned(program.trace, directions)
