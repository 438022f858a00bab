"""Provides in_turn: some programs of one workload after the other, in random order."""

from __future__ import annotations

import numpy as np

from costhub.dataset.programs import IntArray, Programs

EACH = 8
"""Programs measured of a workload before the next one: pairs are what a model learns from, and two programs
of many workloads make fewer of them than some programs of a few."""
BATCH = 4 * EACH
"""Programs between two looks at how a transfer goes."""


def in_turn(programs: Programs, trials: int, *, seed: int, each: int = EACH) -> IntArray:
    """The positions of programs to measure first.

    Args:
        programs: What could be measured, of one device.
        trials: How many to choose; all where there are fewer.
        seed: The only source of chance. A larger number of trials chooses the smaller one's programs first.
        each: Programs of a workload; when all workloads have had their turn, a second one follows.

    Returns:
        (trials,) positions, in the order of measuring.

    Example:
        >>> rows, latency_s = [np.ones((1, 2))] * 6, np.arange(1.0, 7.0)
        >>> pool = Programs.from_list(rows, np.arange(6) // 3, ("a", "b"), latency_s)
        >>> pool.workload[in_turn(pool, 4, seed=0, each=2)].tolist() in ([0, 0, 1, 1], [1, 1, 0, 0])
        True
    """
    rng = np.random.default_rng(seed)
    waiting = [
        rng.permutation(np.flatnonzero(programs.workload == workload))
        for workload in rng.permutation(np.unique(programs.workload))
    ]
    chosen: list[IntArray] = [np.zeros(0, np.int64)]
    while sum(map(len, chosen)) < trials and any(map(len, waiting)):
        chosen += [own[:each] for own in waiting]
        waiting = [own[each:] for own in waiting]
    return np.concatenate(chosen)[:trials]
