"""Provides Annealing: simulated annealing on the model's scores, by chains that outlast a batch (AutoTVM)."""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np

from costhub.models.protocol import Scores
from costhub.transfer.strategies.ground import Ground, Program
from costhub.transfer.strategies.strategy import Exploration, Explorer


@dataclass(frozen=True)
class Annealing(Explorer):
    """Parallel Markov chains over the design space, whose energy is the model's score.

    *Learning to Optimize Tensor Programs* (Chen et al., NeurIPS 2018), section 3.3: chains run in parallel,
    so that the model scores many programs at once; their states persist as the model learns; the best
    programs that they came upon are measured. Appendix A.3 has 128 chains and at most 500 steps. There, a
    step changes an index; here, TVM makes a schedule of each state, which takes milliseconds, so the defaults
    are chosen to score as many programs for a batch as the evolutionary search does. A move is one of TVM's
    mutators. The paper leaves the temperature open: it falls linearly to zero, and is in standard deviations
    of the model's scores.
    """

    chains: int = 64
    steps: int = 12
    """The most for a batch."""
    hottest: float = 1.0
    """Temperature of the first step of a batch: a chain takes a step down by so much with probability 1/e."""
    patience: int = 6
    """Steps without a change among the best programs, after which a batch needs no more."""

    name = "annealing"

    def begin(self, ground: Ground) -> Exploration:
        """See `Explorer`."""
        return Chains(self, ground)


@dataclass
class Chains:
    """The states of the chains of one workload."""

    options: Annealing
    ground: Ground
    states: list[Program] = field(default_factory=list)

    def explore(self, count: int) -> None:
        """See `Exploration`."""
        self._fill()
        if not self.states:
            return
        scores = self.ground.score(self.states)
        best, since = self._best(count), 0
        for step in range(self.options.steps):
            scores = self._step(scores, self.options.hottest * (1 - step / self.options.steps))
            found = self._best(count)
            since = 0 if found != best else since + 1
            best = found
            if since >= self.options.patience:
                break

    def _fill(self) -> None:
        """Random programs for chains that have none yet, after the best that an earlier search measured."""
        wanted = self.options.chains - len(self.states)
        if not self.states:
            self.states = self.ground.fastest(wanted // 2)
            wanted -= len(self.states)
        if wanted > 0:
            self.states += self.ground.random(wanted)

    def _step(self, scores: Scores, temperature: float) -> Scores:
        """Moves each chain, or leaves it where it is; returns the scores of the new states."""
        moved = self.ground.neighbours([state.trace for state in self.states])
        places = [place for place, program in enumerate(moved) if program is not None]
        programs = [program for program in moved if program is not None]
        if not programs:
            return scores
        after = scores.copy()
        for place, program, score in zip(places, programs, self.ground.score(programs).tolist(), strict=True):
            if self.ground.rng.random() < acceptance(score - float(scores[place]), temperature):
                self.states[place] = program
                after[place] = score
        return after

    def _best(self, count: int) -> list[int]:
        return [program.structure for program in self.ground.best(count, new=True)]


def acceptance(gain: float, temperature: float) -> float:
    """The probability of a move that gains so much (Metropolis).

    Example:
        >>> acceptance(0.5, 0.1), round(acceptance(-1.0, 1.0), 3), acceptance(-1.0, 0.0)
        (1.0, 0.368, 0.0)
    """
    if gain >= 0:
        return 1.0
    return float(np.exp(gain / temperature)) if temperature > 0 else 0.0
