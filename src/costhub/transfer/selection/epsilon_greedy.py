"""Provides epsilon_greedy: some of what is measured is chosen at random, whatever the model thinks of it."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from costhub.dataset.programs import IntArray

EPSILON = 0.05
"""AutoTVM's share of candidates that are chosen at random."""


def epsilon_greedy(
    waiting: IntArray, count: int, pick: Callable[[int], IntArray], *, epsilon: float, seed: int
) -> IntArray:
    """Candidates that `pick` chooses, and random ones after them.

    *Learning to Optimize Tensor Programs* (Chen et al., NeurIPS 2018), algorithm 1, takes epsilon * count at
    random. For a small batch that is less than one, so here each program is random with probability epsilon.

    Args:
        waiting: Positions to choose from.
        count: How many to choose; all where there are fewer.
        pick: Chooses so many of `waiting`.
        epsilon: In [0, 1].
        seed: The only source of chance.

    Example:
        >>> waiting = np.array([7, 3, 5])
        >>> epsilon_greedy(waiting, 2, lambda n: waiting[:n], epsilon=0, seed=0).tolist()
        [7, 3]
    """
    rng = np.random.default_rng(seed)
    count = min(count, len(waiting))
    chosen = pick(count - int(rng.binomial(count, epsilon)))
    rest = np.setdiff1d(waiting, chosen)
    return np.concatenate([chosen, rng.choice(rest, count - len(chosen), replace=False)])
