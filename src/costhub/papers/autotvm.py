"""AutoTVM: simulated annealing and diversity-aware selection.

Chen et al., *Learning to Optimize Tensor Programs*, NeurIPS 2018.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, field

import numpy as np

from costhub.dataset.programs import IntArray
from costhub.models.protocol import Scores
from costhub.search.selection import Candidates, epsilon_greedy
from costhub.search.strategies.search_space import EPSILON, ScheduledProgram, SearchSpace
from costhub.search.strategies.strategy import Exploration, Explorer


@dataclass(frozen=True)
class Annealing(Explorer):
    """Parallel Markov chains over the design space, with the model's score as energy.

    Section 3.3: chains run in parallel, so that the model scores many programs at once; their states persist while the
    model learns; the best programs they visit are measured. Appendix A.3 uses 128 chains and at most 500 steps.
    There, a step changes an index; here, TVM builds a schedule for each state, which takes milliseconds, so the
    defaults are chosen to score as many programs per batch as the evolutionary search does. A move is one of TVM's
    mutators. The paper leaves the temperature open: here it falls linearly to zero, in standard deviations of the
    model's scores.
    """

    chains: int = 64
    steps: int = 12
    """The most for a batch."""
    hottest: float = 1.0
    """Temperature of the first step of a batch: a chain takes a step down by so much with probability 1/e."""
    patience: int = 6
    """Steps without a change among the best programs, after which a batch needs no more."""

    name = "annealing"

    def begin(self, space: SearchSpace) -> Exploration:
        """See `Explorer`."""
        return AnnealingChains(self, space)


@dataclass
class AnnealingChains:
    """The states of the chains of one workload."""

    options: Annealing
    space: SearchSpace
    states: list[ScheduledProgram] = field(default_factory=list)

    def explore(self, count: int) -> None:
        """See `Exploration`."""
        self._fill()
        if not self.states:
            return
        scores = self.space.score(self.states)
        best, since = self._best(count), 0
        for step in range(self.options.steps):
            scores = self._step(scores, self.options.hottest * (1 - step / self.options.steps))
            now = self._best(count)
            since = 0 if now != best else since + 1
            best = now
            if since >= self.options.patience:
                break

    def _fill(self) -> None:
        """Starts chains that have no program yet: from the best of an earlier search, then at random."""
        missing = self.options.chains - len(self.states)
        if not self.states:
            self.states = self.space.fastest(missing // 2)
            missing -= len(self.states)
        if missing > 0:
            self.states += self.space.random(missing)

    def _step(self, scores: Scores, temperature: float) -> Scores:
        """Moves each chain, or leaves it where it is; returns the scores of the new states."""
        moved = self.space.neighbours([state.trace for state in self.states])
        places = [place for place, program in enumerate(moved) if program is not None]
        programs = [program for program in moved if program is not None]
        if not programs:
            return scores
        after = scores.copy()
        for place, program, score in zip(places, programs, self.space.score(programs).tolist(), strict=True):
            if self.space.rng.random() < acceptance(score - float(scores[place]), temperature):
                self.states[place] = program
                after[place] = score
        return after

    def _best(self, count: int) -> list[int]:
        return [program.structure for program in self.space.best(count, new=True)]


def acceptance(gain: float, temperature: float) -> float:
    """The probability of accepting a move with this gain (Metropolis).

    Example:
        >>> acceptance(0.5, 0.1), round(acceptance(-1.0, 1.0), 3), acceptance(-1.0, 0.0)
        (1.0, 0.368, 0.0)
    """
    if gain >= 0:
        return 1.0
    return float(np.exp(gain / temperature)) if temperature > 0 else 0.0


@dataclass(frozen=True)
class Diverse:
    """Greedy choice by score and by decisions that are new to the batch.

    Among the best `top` * count candidates, it looks for the set S that maximises

        sum of scores in S + alpha * number of different decisions in S

    (equation 3), where a decision is the setting of a knob: `Knobs.components`. The sum is submodular:
    repeatedly taking the candidate with the largest gain is a good approximation.

    A model's scores have any scale. Here they are measured in standard deviations among the best `top` * count,
    and `alpha` is how many of these a new decision is worth. With 0 the choice is that of `Ranked`.

    Example:
        >>> from costhub.search.knobs import Knobs
        >>> programs = [Knobs("s", ((1, a), (2, b))) for a, b in ((1, 1), (1, 2), (8, 9))]
        >>> some = Candidates(np.array([0.9, 0.8, 0.7]), programs)
        >>> [Diverse(alpha, epsilon=0).choose(some, 2, seed=0).tolist() for alpha in (0.0, 2.0)]
        [[0, 1], [0, 2]]
    """

    alpha: float = 0.1
    """Worth of a decision that is new to the batch."""
    top: float = 4.0
    """Lambda: how many times the count are considered."""
    epsilon: float = EPSILON
    """Share that is chosen at random."""

    name = "diverse"

    def __post_init__(self) -> None:
        if not self.top >= 1:
            raise ValueError(f"top must be 1 or more, got {self.top}.")

    def choose(self, candidates: Candidates, count: int, *, seed: int) -> IntArray:
        """See `Selection`."""
        waiting = candidates.waiting()
        best = waiting[: math.ceil(self.top * count)]
        return epsilon_greedy(
            waiting, count, lambda n: self._cover(candidates, best, n), epsilon=self.epsilon, seed=seed
        )

    def _cover(self, candidates: Candidates, best: IntArray, count: int) -> IntArray:
        """Picks `count` of the best by largest gain; ties go to the higher score."""
        worth = _standardized(candidates.scores[best])
        parts = [candidates.knobs[place].components for place in best.tolist()]
        covered: set[object] = set()
        left = list(range(len(best)))
        chosen: list[int] = []
        while left and len(chosen) < count:
            gained = [worth[i] + self.alpha * len(parts[i] - covered) for i in left]
            taken = left.pop(int(np.argmax(gained)))
            covered |= parts[taken]
            chosen.append(taken)
        return best[chosen]


def _standardized(scores: Scores) -> Scores:
    """Scores in standard deviations."""
    spread = float(np.std(scores)) if len(scores) else 0.0
    return scores / spread if spread > 0 else np.zeros(len(scores))
