"""Simulated searches: programs of a workload that were all measured before are chosen batch by batch."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import numpy as np
import numpy.typing as npt

from costhub.dataset.blocks import open_devices
from costhub.dataset.programs import IntArray
from costhub.search.knobs import Knobs
from costhub.search.replay.strategies import ReplayStrategy
from costhub.search.replay.workloads import knobs_by_key

Throughput = npt.NDArray[np.float64]
Propose = Callable[[IntArray, IntArray], IntArray]
"""Called with the positions that were measured, in order, and with the others; returns the others, best first."""


def keep_order(chosen: IntArray, rest: IntArray) -> IntArray:
    """A `Propose` that measures what comes, which is random.

    Example:
        >>> keep_order(np.array([3]), np.array([2, 0, 1])).tolist()
        [2, 0, 1]
    """
    return rest


def asked_of(strategy: ReplayStrategy, latency_s: Throughput, *, batch: int) -> Propose:
    """A `Propose` that asks a strategy of the replay benchmark, and tells it what was measured since.

    Args:
        strategy: Made for the programs of the pool.
        latency_s: (n,) of all programs of the pool.
        batch: Programs measured between two proposals.

    Example:
        >>> from costhub.search.replay.strategies import RandomOrder
        >>> from costhub.testing import made_replay
        >>> workload = made_replay(side=2)
        >>> search = asked_of(RandomOrder(workload.task, model=None, seed=0), workload.latency_s, batch=2)
        >>> sorted(search(np.array([1]), np.array([0, 2, 3])).tolist())
        [0, 2, 3]
    """
    told = 0

    def propose(chosen: IntArray, rest: IntArray) -> IntArray:
        nonlocal told
        if len(chosen) > told:
            strategy.tell(chosen[told:], latency_s[chosen[told:]])
            told = len(chosen)
        first = np.asarray(strategy.ask(min(batch, len(rest))), np.int64)
        return np.concatenate([first, rest[~np.isin(rest, first)]])

    return propose


def search_pool(throughput: Throughput, propose: Propose, *, batch: int, trials: int, seed: int) -> IntArray:
    """Measures the programs of a pool batch by batch.

    Args:
        throughput: (n,) of all programs of the pool.
        propose: Orders what was not measured yet; it first sees it in a random order, which depends on the seed
            alone, and nothing measured.
        batch: Programs measured between two proposals.
        trials: Programs measured in all.
        seed: Of the random order.

    Returns:
        Positions in the order of measuring.

    Example:
        >>> best_first = lambda chosen, rest: np.sort(rest)[::-1]
        >>> search_pool(np.arange(6.0), best_first, batch=2, trials=3, seed=0).tolist()
        [5, 4, 3]
    """
    order = np.random.default_rng(seed).permutation(len(throughput))
    chosen = np.zeros(0, np.int64)
    while len(chosen) < min(trials, len(order)):
        rest = np.setdiff1d(order, chosen, assume_unique=True)  # in the order of `order`: ties stay random
        chosen = np.concatenate([chosen, propose(chosen, rest)[: min(batch, trials - len(chosen))]])
    return chosen


def best_so_far(throughput: Throughput, chosen: IntArray) -> Throughput:
    """(trials,) the best of the first 1, 2, ... measured programs.

    Example:
        >>> best_so_far(np.array([0.5, 1.0, 0.2]), np.array([2, 0, 1])).tolist()
        [0.2, 0.5, 1.0]
    """
    best: Throughput = np.maximum.accumulate(throughput[chosen])
    return best


def knobs_of_workloads(data: Path, device: str, spec: str, workloads: set[str]) -> dict[str, list[Knobs]]:
    """The knobs of the programs of some workloads, in the order in which `load_programs` gives the programs."""
    (opened,) = open_devices(data, device, workloads, spec, failures=False)
    block, _ = opened.with_features(progress=False)
    knobs = knobs_by_key(data, [device], block.keys.to_pylist())
    return {
        name: [knobs[place] for place in np.flatnonzero(block.workload == number)]
        for number, name in enumerate(block.workload_ids)
    }
