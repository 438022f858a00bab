"""Provides Diverse: candidates of high scores that differ in what was decided (AutoTVM, equation 3)."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from costhub.dataset.programs import IntArray
from costhub.models.protocol import Scores
from costhub.transfer.selection.epsilon_greedy import EPSILON, epsilon_greedy
from costhub.transfer.selection.selection import Candidates


@dataclass(frozen=True)
class Diverse:
    """Greedy choice by score and by decisions that no candidate of the batch has made yet.

    Of the best `top` * count candidates those S are wanted that maximise

        sum of scores in S + alpha * number of different decisions in S

    (*Learning to Optimize Tensor Programs*, Chen et al., NeurIPS 2018, equation 3), where a decision is one
    of a knob: `Knobs.components`. The sum is submodular: taking the candidate with the largest gain, again
    and again, is a good approximation.

    A model's scores have any scale. Here their unit is their standard deviation among the best `top` * count,
    so that `alpha` is how many of these a new decision is worth. With 0 the choice is that of `Ranked`.

    Example:
        >>> from costhub.transfer.selection.knobs import Knobs
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
        """`count` of the best, by the largest gain; of equals the one with the higher score."""
        worth = _in_deviations(candidates.scores[best])
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


def _in_deviations(scores: Scores) -> Scores:
    """Scores in standard deviations."""
    spread = float(np.std(scores)) if len(scores) else 0.0
    return scores / spread if spread > 0 else np.zeros(len(scores))
