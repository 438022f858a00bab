"""Provides Ranked: the candidates of the highest scores are measured, and a few random ones."""

from __future__ import annotations

from dataclasses import dataclass

from costhub.dataset.programs import IntArray
from costhub.transfer.selection.epsilon_greedy import EPSILON, epsilon_greedy
from costhub.transfer.selection.selection import Candidates


@dataclass(frozen=True)
class Ranked:
    """The best by score, epsilon-greedy.

    Example:
        >>> import numpy as np
        >>> from costhub.transfer.selection.knobs import Knobs
        >>> programs = [Knobs("s", ((1, size),)) for size in (1, 2, 4)]
        >>> some = Candidates(np.array([0.2, 0.9, 0.5]), programs, visited={programs[1]})
        >>> Ranked(epsilon=0).choose(some, 2, seed=0).tolist()
        [2, 0]
    """

    epsilon: float = EPSILON
    """Share that is chosen at random."""

    name = "ranked"

    def choose(self, candidates: Candidates, count: int, *, seed: int) -> IntArray:
        """See `Selection`."""
        waiting = candidates.waiting()
        return epsilon_greedy(waiting, count, lambda n: waiting[:n], epsilon=self.epsilon, seed=seed)
