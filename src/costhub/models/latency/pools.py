"""Provides Pool, the measured programs of a workload on a device, and TrialCurve, how the best latency falls."""

from __future__ import annotations

import itertools
import math
import zlib
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from costhub.dataset.folder import DataFolder
from costhub.dataset.latency import median_latency_s

Vector = npt.NDArray[np.float64]

CPU, GPU = "cpu", "gpu"
TRIALS = 64
"""Trials of the search that predictions are made for; other numbers follow from the curve."""
_KNOTS = tuple(2**power for power in range(11))
_LEAST_POOLS = 8
"""With fewer pools, a knot of the curve would be noise."""


def family(kind: str) -> str:
    """Whether a TVM device kind stands for CPUs or for GPUs, which differ in how programs are scheduled.

    Example:
        >>> family("cpu"), family("rocm")
        ('cpu', 'gpu')
    """
    return CPU if kind == "cpu" else GPU


@dataclass(frozen=True)
class Pool:
    """The programs of a workload that ran on a device.

    Example:
        >>> pool = Pool("w", "board", "cpu", np.array([1e-3, 2e-3, 4e-3]))
        >>> pool.best_s, round(math.exp(pool.expected_log_best(1)), 6)
        (0.001, 0.002)
    """

    workload_id: str
    device_id: str
    family: str
    """`CPU` or `GPU`."""
    latency_s: Vector
    """(n,) median latency of each program, ascending, in seconds; at least one."""

    @property
    def best_s(self) -> float:
        """The latency of the fastest program."""
        return float(self.latency_s[0])

    def expected_log_best(self, trials: int) -> float:
        """The expected logarithm of the best of some programs, drawn without replacement; at most all are drawn."""
        logs, left, total = np.log(self.latency_s), 1.0, 0.0
        if trials >= len(logs):
            return float(logs[0])
        for place, value in enumerate(logs):
            share = trials / (len(logs) - place)  # that this one is drawn, if no faster one was
            total += left * min(share, 1.0) * float(value)
            left *= max(0.0, 1.0 - share)
        return total

    def log_best_variance(self, trials: int) -> float:
        """The variance of the logarithm of the best of some programs, drawn with replacement: the luck of a search."""
        count, logs = len(self.latency_s), np.log(self.latency_s)
        none_of_the_first = (np.arange(count, -1, -1) / count) ** trials
        share = none_of_the_first[:-1] - none_of_the_first[1:]
        return float(share @ (logs - share @ logs) ** 2)

    def drawn_log_best(self, trials: int, *, seed: int) -> float:
        """The logarithm of the best of some programs of the pool, drawn at random: what one search would have found."""
        drawn = self._shuffled(seed)[:trials]
        return math.log(drawn.min())

    def two_log_bests(self, trials: int, *, seed: int) -> tuple[float, float] | None:
        """What two searches without a common program would have found: halves of the pool, at most `trials` each."""
        half, drawn = min(len(self.latency_s) // 2, trials), self._shuffled(seed)
        if not half:
            return None
        return math.log(drawn[:half].min()), math.log(drawn[half : 2 * half].min())

    def _shuffled(self, seed: int) -> Vector:
        """The latencies in a random order, different in each pool: sorted, they would all begin with the best."""
        own = zlib.crc32(f"{self.workload_id} {self.device_id}".encode())
        return np.random.default_rng([seed, own]).permutation(self.latency_s)


def read_pools(
    folder: DataFolder,
    device_id: str,
    kind: str,
    *,
    workloads: Collection[str] | None = None,
    condition: pc.Expression | None = None,
    slowness: Mapping[str, float] | None = None,
) -> list[Pool]:
    """The pools of a device; workloads without a program that ran have none.

    Args:
        folder: The folder of the measurements.
        device_id: The device.
        kind: TVM's kind of the device.
        workloads: Ids of the workloads to read; all by default.
        condition: What else a measurement must meet.
        slowness: Session -> by what its latencies are divided; by default they stay as measured.

    Raises:
        DataError: The folder is damaged.
    """
    where = pc.field("status") == "ok"
    if workloads is not None:
        where &= pc.field("workload_id").isin(sorted(workloads))
    if condition is not None:
        where &= condition
    columns = ["workload_id", "run_s", *(["session"] if slowness else [])]

    def read(batches: Iterable[pa.RecordBatch]) -> dict[str, list[Vector]]:
        found: dict[str, list[Vector]] = {}
        for batch in batches:
            seconds, names = median_latency_s(batch["run_s"]), np.array(batch["workload_id"].to_pylist())
            if slowness:
                seconds = seconds / np.array([slowness.get(each, 1.0) for each in batch["session"].to_pylist()])
            for name in np.unique(names):
                own = seconds[names == name]
                found.setdefault(str(name), []).append(own[np.isfinite(own) & (own > 0)])
        return found

    found = folder.read_batches(read, [device_id], columns, where)  # again if a writer moves shards meanwhile
    joined = {name: np.sort(np.concatenate(parts)) for name, parts in found.items()}
    return [Pool(name, device_id, family(kind), own) for name, own in sorted(joined.items()) if len(own)]


@dataclass(frozen=True)
class TrialCurve:
    """How the best latency of a search, and the luck in it, fall as its trials grow.

    Between two points both are linear in log2 of the trials. Beyond the last one it stays level: nothing is known about
    longer searches, and each doubling brings less.

    Example:
        >>> curve = TrialCurve({"cpu": ((16, 0.2), (64, 0.0))})
        >>> curve("cpu", 16), curve("cpu", 32), curve("cpu", 1000)
        (0.2, 0.1, 0.0)
    """

    points: Mapping[str, tuple[tuple[int, float], ...]]
    """Family -> (trials, log of the best of that many over the best of `TRIALS`), falling."""
    luck: Mapping[str, tuple[tuple[int, float], ...]] = field(default_factory=dict)
    """Family -> (trials, variance of the logarithm of the best of that many), from 1 trial on."""

    @classmethod
    def fit(cls, pools: Iterable[Pool]) -> TrialCurve:
        """The mean over pools, doubling by doubling, so that a small pool counts only as far as it reaches."""
        by_family: dict[str, list[Pool]] = {}
        for pool in pools:
            by_family.setdefault(pool.family, []).append(pool)
        families = sorted(by_family.items())
        return cls({name: _mean_curve(own) for name, own in families}, {name: _luck(own) for name, own in families})

    def __call__(self, family: str, trials: int) -> float:
        """The log ratio at a number of trials; 0 for a family without a curve."""
        return _at(self.points.get(family, _LEVEL), trials)

    def extra_variance(self, family: str, trials: int) -> float:
        """By how much the variance exceeds that of a search of `TRIALS`; 0 for longer ones.

        Example:
            >>> curve = TrialCurve({}, {"cpu": ((1, 0.9), (4, 0.5), (64, 0.1))})
            >>> round(curve.extra_variance("cpu", 2), 1), curve.extra_variance("cpu", 500)
            (0.6, 0.0)
        """
        luck = self.luck.get(family, _LEVEL)
        return max(0.0, _at(luck, trials) - _at(luck, TRIALS))


_LEVEL = ((1, 0.0),)


def _at(points: Sequence[tuple[int, float]], trials: int) -> float:
    places = [math.log2(trials) for trials, _ in points]
    return float(np.interp(math.log2(trials), places, [value for _, value in points]))


def _luck(pools: Sequence[Pool]) -> tuple[tuple[int, float], ...]:
    """The mean over pools, of at least twice as many programs: of smaller ones, each search would find the best."""
    found = []
    for trials in (knot for knot in _KNOTS if knot <= TRIALS):
        reaching = [pool for pool in pools if len(pool.latency_s) >= 2 * trials]
        if len(reaching) < _LEAST_POOLS:
            break
        found.append((trials, float(np.mean([pool.log_best_variance(trials) for pool in reaching]))))
    return tuple(found) or _LEVEL


def _mean_curve(pools: Sequence[Pool]) -> tuple[tuple[int, float], ...]:
    values = {1: 0.0}
    for fewer, more in itertools.pairwise(_KNOTS):
        reaching = [pool for pool in pools if len(pool.latency_s) >= more]
        if len(reaching) < _LEAST_POOLS:
            break
        falls = [pool.expected_log_best(more) - pool.expected_log_best(fewer) for pool in reaching]
        values[more] = values[fewer] + float(np.mean(falls))
    at = float(np.interp(math.log2(TRIALS), [math.log2(n) for n in values], list(values.values())))
    return tuple((trials, value - at) for trials, value in values.items())
