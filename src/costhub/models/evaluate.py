"""Provides evaluate: how well a model ranks measured programs, per workload and in all."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np

from costhub.dataset.programs import Programs
from costhub.errors import DataError, ScoreError
from costhub.models import metrics
from costhub.models.protocol import CostModel, Scores

METRICS = ("top_1", "top_5", "pairwise", "spearman")
NOISE_FLOOR = 0.02
"""Relative difference of throughput below which two programs are taken as equally fast."""


@dataclass(frozen=True)
class WorkloadScore:
    """The metrics of one workload; `metrics` defines them."""

    workload_id: str
    n: int
    """Programs compared."""
    top_1: float
    top_5: float
    pairwise: float
    spearman: float


@dataclass(frozen=True)
class Evaluation:
    """The metrics of all workloads."""

    workloads: tuple[WorkloadScore, ...]
    """In the order of `Programs.workload_ids`."""
    noise_floor: float
    """Relative difference below which `pairwise` does not count a pair."""
    skipped: tuple[str, ...]
    """Workloads in which no two programs differ by more than the noise: there is nothing to rank."""

    @property
    def top_1(self) -> float:
        """Mean over workloads."""
        return self._mean(lambda w: w.top_1)

    @property
    def top_5(self) -> float:
        """Mean over workloads."""
        return self._mean(lambda w: w.top_5)

    @property
    def pairwise(self) -> float:
        """Mean over workloads."""
        return self._mean(lambda w: w.pairwise)

    @property
    def spearman(self) -> float:
        """Mean over workloads."""
        return self._mean(lambda w: w.spearman)

    @property
    def totals(self) -> dict[str, float]:
        """Metric -> mean over workloads."""
        return {
            "top_1": self.top_1,
            "top_5": self.top_5,
            "pairwise": self.pairwise,
            "spearman": self.spearman,
        }

    def to_json(self) -> dict[str, Any]:
        """The same as JSON values: `totals`, `workloads` (rows), `noise_floor` and `skipped`."""
        return {
            "totals": self.totals,
            "workloads": [asdict(workload) for workload in self.workloads],
            "noise_floor": self.noise_floor,
            "skipped": list(self.skipped),
        }

    def _mean(self, value: Callable[[WorkloadScore], float]) -> float:
        return math.fsum(map(value, self.workloads)) / len(self.workloads)


def evaluate(model: CostModel, programs: Programs, *, noise_floor: float = NOISE_FLOOR) -> Evaluation:
    """Scores programs with a model and compares with what was measured.

    Args:
        model: A fitted model.
        programs: Programs of one device, of workloads the model has not seen.
        noise_floor: Relative difference of throughput below which two programs are taken as equally fast.

    Raises:
        ModelError: The model cannot read these programs.
        ScoreError: A score is NaN or infinite.
        DataError: No workload has two programs that differ by more than the noise.
    """
    return evaluate_scores(model.predict(programs.rows, programs.counts), programs, noise_floor=noise_floor)


def evaluate_scores(scores: Scores, programs: Programs, *, noise_floor: float = NOISE_FLOOR) -> Evaluation:
    """Compares scores, wherever they are from, with what was measured.

    Args:
        scores: (n,) scores of the programs, higher is faster. Constant scores give the expectation of random
            choice.
        programs: The programs.
        noise_floor: As in `evaluate`.

    Raises:
        ScoreError: A score is NaN or infinite.
        DataError: No workload has two programs that differ by more than the noise.

    Example:
        >>> pair = Programs.from_list([np.ones((1, 2))] * 2, np.array([0, 0]), ("w",), np.array([1e-3, 2e-3]))
        >>> evaluate_scores(np.zeros(2), pair).top_1
        0.75
    """
    if not np.isfinite(scores).all():
        raise ScoreError(
            f"{int((~np.isfinite(scores)).sum())} of {len(scores)} scores are NaN or infinite, so the model "
            "cannot be evaluated; train it again."
        )
    measured: list[WorkloadScore] = []
    skipped: list[str] = []
    for index in np.unique(programs.workload):
        own = programs.workload == index
        latency_s, name = programs.latency_s[own], programs.workload_ids[index]
        if latency_s.min() < latency_s.max() * (1.0 - noise_floor):
            measured.append(_score_workload(name, scores[own], latency_s, noise_floor))
        else:
            skipped.append(name)
    if not measured:
        raise DataError(
            f"None of the {len(skipped)} workloads has two programs that differ by more than "
            f"{noise_floor:.0%}, so there is nothing to rank; measure more programs."
        )
    return Evaluation(tuple(measured), noise_floor, tuple(skipped))


def _score_workload(workload_id: str, scores: Scores, latency_s: Scores, noise_floor: float) -> WorkloadScore:
    return WorkloadScore(
        workload_id=workload_id,
        n=len(scores),
        top_1=metrics.top_k(scores, latency_s, k=1),
        top_5=metrics.top_k(scores, latency_s, k=5),
        pairwise=metrics.pairwise(scores, latency_s, noise_floor=noise_floor),
        spearman=metrics.spearman(scores, latency_s),
    )
