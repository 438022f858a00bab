"""Provides evaluate: how well a model ranks measured programs, per workload and in all."""

from __future__ import annotations

import math
from collections import defaultdict
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np

from costhub.dataset.programs import Programs
from costhub.errors import DataError, ScoreError
from costhub.models.compound.conditioned import scores_of
from costhub.models.evaluation import metrics
from costhub.models.protocol import CostModel, Scores

METRICS = ("top_1", "top_5", "pairwise", "spearman")
NOISE_FLOOR = 0.02
"""Relative difference of throughput below which two programs are taken as equally fast."""


@dataclass(frozen=True)
class WorkloadScore:
    """The metrics of one workload on one device; `metrics` defines them."""

    workload_id: str
    device_id: str
    """Empty where the programs name no device."""
    n: int
    """Programs compared."""
    top_1: float
    top_5: float
    pairwise: float
    spearman: float
    best_s: float
    """Latency of the fastest program."""
    best_of_1_s: float
    """Latency of the program with the highest score."""
    best_of_5_s: float
    """Latency of the fastest of the five with the highest scores."""


@dataclass(frozen=True)
class Evaluation:
    """The metrics of all workloads."""

    workloads: tuple[WorkloadScore, ...]
    """In the order of `Programs.group`: one for each workload on each device."""
    noise_floor: float
    """Relative difference below which `pairwise` does not count a pair."""
    skipped: tuple[str, ...]
    """Workloads in which no two programs differ by more than the noise: there is nothing to rank."""

    @property
    def top_1(self) -> float:
        """Mean over workloads."""
        return self._mean("top_1")

    @property
    def top_5(self) -> float:
        """Mean over workloads."""
        return self._mean("top_5")

    @property
    def pairwise(self) -> float:
        """Mean over workloads."""
        return self._mean("pairwise")

    @property
    def spearman(self) -> float:
        """Mean over workloads."""
        return self._mean("spearman")

    @property
    def totals(self) -> dict[str, float]:
        """Metric -> mean over workloads."""
        return {name: self._mean(name) for name in METRICS}

    @property
    def standard_errors(self) -> dict[str, float]:
        """Metric -> standard error of its mean: how far another draw of workloads would move it.

        sqrt(C / (C - 1) sum_c (sum_{i in c} (x_i - mean))^2) / N over the C workloads c, with N rows i in
        all: a workload that was measured on several devices counts as one draw. NaN if there is only one
        workload.
        """
        return {name: self._standard_error(name) for name in METRICS}

    def to_json(self) -> dict[str, Any]:
        """The same as JSON values.

        `totals`, `standard_errors`, `workloads` (rows), `noise_floor` and `skipped`; null for NaN.
        """
        errors = self.standard_errors
        return {
            "totals": self.totals,
            "standard_errors": {name: None if math.isnan(v) else v for name, v in errors.items()},
            "workloads": [asdict(workload) for workload in self.workloads],
            "noise_floor": self.noise_floor,
            "skipped": list(self.skipped),
        }

    def _mean(self, name: str) -> float:
        return math.fsum(getattr(row, name) for row in self.workloads) / len(self.workloads)

    def _standard_error(self, name: str) -> float:
        mean = self._mean(name)
        off: dict[str, float] = defaultdict(float)
        for row in self.workloads:
            off[row.workload_id] += getattr(row, name) - mean
        number = len(off)
        if number < 2:
            return math.nan
        total = math.fsum(value**2 for value in off.values())
        return math.sqrt(number / (number - 1) * total) / len(self.workloads)


def evaluate(model: CostModel, programs: Programs, *, noise_floor: float = NOISE_FLOOR) -> Evaluation:
    """Scores programs with a model and compares the scores with the measured latencies.

    Args:
        model: A fitted model.
        programs: Programs of workloads the model has not seen; failed ones are left out.
        noise_floor: Relative difference of throughput below which two programs are taken as equally fast.

    Raises:
        ModelError: The model cannot read these programs.
        ScoreError: A score is NaN or infinite.
        DataError: No workload has two programs that differ by more than the noise.
    """
    programs = programs.measured()
    return evaluate_scores(scores_of(model, programs), programs, noise_floor=noise_floor)


def evaluate_scores(scores: Scores, programs: Programs, *, noise_floor: float = NOISE_FLOOR) -> Evaluation:
    """Compares scores, wherever they are from, with what was measured.

    Args:
        scores: (n,) scores of the programs, higher is faster. Constant scores give the expectation of random
            choice.
        programs: The programs. Failed ones have no latency and are left out; each of the others is compared
            with those of the same workload on the same device.
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
    ran = np.flatnonzero(programs.is_ok)
    group = programs.group[ran]
    order = ran[np.argsort(group, kind="stable")]
    measured: list[WorkloadScore] = []
    skipped: list[str] = []
    for own in np.split(order, np.flatnonzero(np.diff(programs.group[order])) + 1) if len(order) else ():
        latency_s = programs.latency_s[own]
        workload_id = programs.workload_ids[programs.workload[own[0]]]
        if latency_s.min() < latency_s.max() * (1.0 - noise_floor):
            device_id = programs.device_ids[programs.device[own[0]]]
            measured.append(_score_group(workload_id, device_id, scores[own], latency_s, noise_floor))
        else:
            skipped.append(workload_id)
    if not measured:
        raise DataError(
            f"None of the {len(skipped)} workloads has two programs that differ by more than "
            f"{noise_floor:.0%}, so there is nothing to rank; measure more programs."
        )
    return Evaluation(tuple(measured), noise_floor, tuple(skipped))


def _score_group(
    workload_id: str, device_id: str, scores: Scores, latency_s: Scores, noise_floor: float
) -> WorkloadScore:
    return WorkloadScore(
        workload_id=workload_id,
        device_id=device_id,
        n=len(scores),
        top_1=metrics.top_k(scores, latency_s, k=1),
        top_5=metrics.top_k(scores, latency_s, k=5),
        pairwise=metrics.pairwise(scores, latency_s, noise_floor=noise_floor),
        spearman=metrics.spearman(scores, latency_s),
        best_s=float(latency_s.min()),
        best_of_1_s=metrics.best_of_k_s(scores, latency_s, k=1),
        best_of_5_s=metrics.best_of_k_s(scores, latency_s, k=5),
    )
