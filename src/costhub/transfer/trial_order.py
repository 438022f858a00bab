"""Provides the orders in which programs are measured: round robin over workloads, and query by committee."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from costhub.dataset.programs import IntArray, Programs
from costhub.models.compound.blend import ScoreScale
from costhub.models.protocol import Scores

PER_WORKLOAD = 8
"""Programs measured of a workload before the next one: a model learns from pairs, and two programs of many
workloads make fewer of them than some programs of a few workloads."""
BATCH_SIZE = 4 * PER_WORKLOAD
"""Programs between two checks of how a transfer is going."""


def round_robin(programs: Programs, trials: int, *, seed: int, each: int = PER_WORKLOAD) -> IntArray:
    """The positions of programs to measure first.

    Args:
        programs: What could be measured, of one device.
        trials: How many to choose; all if there are fewer.
        seed: The only source of randomness. A larger number of trials chooses the smaller one's programs first.
        each: Programs of a workload; when all workloads have had their turn, a second one follows.

    Returns:
        (trials,) positions, in the order of measuring.

    Example:
        >>> rows, latency_s = [np.ones((1, 2))] * 6, np.arange(1.0, 7.0)
        >>> pool = Programs.from_list(rows, np.arange(6) // 3, ("a", "b"), latency_s)
        >>> pool.workload[round_robin(pool, 4, seed=0, each=2)].tolist() in ([0, 0, 1, 1], [1, 1, 0, 0])
        True
    """
    rng = np.random.default_rng(seed)
    waiting = [
        rng.permutation(np.flatnonzero(programs.workload == workload))
        for workload in rng.permutation(np.unique(programs.workload))
    ]
    chosen: list[IntArray] = [np.zeros(0, np.int64)]
    count = 0
    while count < trials and any(map(len, waiting)):
        turn = [own[:each] for own in waiting]
        chosen += turn
        count += sum(map(len, turn))
        waiting = [own[each:] for own in waiting]
    return np.concatenate(chosen)[:trials]


def most_disagreed(
    programs: Programs, score: Callable[[Programs], Scores], trials: int, *, seed: int, each: int = PER_WORKLOAD
) -> IntArray:
    """The positions of programs to measure first, so that a few of them show which source knows the device.

    The programs of a workload are those of `round_robin`, chosen at random; the workloads come in another order:
    first the one on whose programs the sources disagree most. Nothing needs to be measured.

    Args:
        programs: What could be measured, of one device.
        score: Returns the (s, k) scores of k of these programs by s sources; called once, for `each` programs of
            every workload.
        trials: How many to choose; all if there are fewer.
        seed: The only source of randomness. A larger number of trials chooses the smaller one's programs first.
        each: Programs of a workload; when all workloads have had their turn, a second one follows.

    Returns:
        (trials,) positions, in the order of measuring.

    Example:
        >>> rows, ones = np.arange(12.0, dtype=np.float32)[:, None], np.ones(12)
        >>> pool = Programs.from_list(list(rows[:, None]), np.arange(12) // 4, ("a", "b", "c"), ones)
        >>> def two(some):  # They agree about a and c.
        ...     own = some.rows[:, 0].astype(float)
        ...     return np.stack([own, np.where(some.workload == 1, -own, own)])
        >>> pool.workload[most_disagreed(pool, two, 4, seed=0)].tolist()
        [1, 1, 1, 1]
    """
    order = round_robin(programs, programs.n, seed=seed, each=each)
    turn = times_seen_before(programs.workload[order]) // each
    first = programs.select(order[turn == 0])
    scores = score(first)
    scores = ScoreScale.of(scores, first.group)(scores)
    disagreed = np.zeros(len(programs.workload_ids))
    for workload in np.unique(first.workload):
        disagreed[workload] = disagreement(scores[:, first.workload == workload])
    # If the sources disagree equally, the random order is kept.
    places = np.lexsort((-disagreed[programs.workload[order]], turn))
    return order[places][:trials]


def disagreement(scores: Scores) -> float:
    """How much sources disagree about the order of programs (query by committee).

    For each pair of programs, the sources' score differences are taken as votes. Of the mean vote for one
    program and the mean vote for the other, the smaller one counts. The disagreement is 0 if all
    sources agree, and small if those that disagree are unsure.

    Args:
        scores: (s, k) scores of k programs of one workload by s sources, on one scale.

    Returns:
        The mean over all ordered pairs.

    Example:
        >>> disagreement(np.array([[0.0, 1.0], [0.0, 2.0]]))
        0.0
        >>> disagreement(np.array([[0.0, 1.0], [2.0, 0.0]]))  # Half of the pairs are a program and itself.
        0.25
    """
    gap = scores[:, :, None] - scores[:, None, :]
    smaller = np.minimum(np.maximum(gap, 0.0).mean(axis=0), np.maximum(-gap, 0.0).mean(axis=0))
    return float(smaller.mean())


def times_seen_before(workload: IntArray) -> IntArray:
    """(n,) how often each value has occurred before."""
    order = np.argsort(workload, kind="stable")
    _, starts, sizes = np.unique(workload[order], return_index=True, return_counts=True)
    seen = np.empty(len(workload), np.int64)
    seen[order] = np.arange(len(workload)) - np.repeat(starts, sizes)
    return seen
