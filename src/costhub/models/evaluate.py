"""Provides evaluate: how well a model ranks measured programs, per workload, operator family and network.

And over all of them.
"""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from statistics import fmean
from typing import Any

import numpy as np

from costhub.dataset.programs import FloatArray, Programs, WorkloadUse
from costhub.errors import ArgumentError, DataError, ScoreError
from costhub.models import metrics
from costhub.models.inputs import no_programs_error
from costhub.models.metrics import weighted_top_k
from costhub.models.protocol import CostModel, Scores
from costhub.terminal_text import Printed, counted
from costhub.versions import load_pandas

METRICS = ("top_1", "top_5", "pairwise", "spearman")
NOISE_FLOOR = 0.02
"""Relative difference of throughput below which two programs count as equally fast."""


@dataclass(frozen=True)
class WorkloadScore:
    """The metrics of one workload on one device; `metrics` defines them."""

    workload_id: str
    device_id: str
    """Empty if the programs name no device."""
    n: int
    """How many programs were compared."""
    top_1: float
    top_5: float
    pairwise: float
    spearman: float
    best_s: float
    """Latency of the fastest program."""
    best_of_1_s: float
    """Latency of the program with the highest score."""
    best_of_5_s: float
    """Latency of the fastest of the five programs with the highest scores."""


@dataclass(frozen=True, repr=False)
class Evaluation(Printed):
    """The metrics of all workloads; `print` shows their means with standard errors."""

    workloads: tuple[WorkloadScore, ...]
    """In the order of `Programs.group`: one for each workload on each device."""
    noise_floor: float
    """Relative difference below which `pairwise` does not count a pair."""
    skipped: tuple[str, ...]
    """Workloads in which no two programs differ by more than the noise: there is nothing to rank."""
    uses: Mapping[str, WorkloadUse] = field(default_factory=dict)
    """Workload id -> what it is, as far as the programs say."""
    learned: int = 0
    """Workloads of the data that were left out because the model has learned from them."""

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
        """Metric -> standard error of its mean: how much another draw of workloads would change it.

        sqrt(C / (C - 1) sum_c (sum_{i in c} (x_i - mean))^2) / N over the C workloads c, with N rows i in
        all: a workload that was measured on several devices counts as one draw. NaN if there is only one
        workload.
        """
        return {name: self._standard_error(name) for name in METRICS}

    @property
    def variants(self) -> dict[str, float]:
        """`top_1_tenset`, `top_1_tlp` and the same for 5, as defined in the literature; empty without networks."""
        found = {k: network_top_k(self, self.uses, k=k) for k in (1, 5)}
        return {f"top_{k}_{name}": getattr(top, name) for name in ("tenset", "tlp") for k, top in found.items() if top}

    def to_pandas(self) -> Any:
        """A ``pandas.DataFrame`` with a row per workload and device: names, number of programs, metrics, latencies."""
        unknown = WorkloadUse("")
        rows = [
            {
                "workload": self.uses.get(row.workload_id, unknown).name or row.workload_id[:12],
                "operator": self.uses.get(row.workload_id, unknown).operator,
                "device_id": row.device_id,
                "programs": row.n,
                **{name: getattr(row, name) for name in METRICS},
                "best_us": row.best_s * 1e6,
                "best_of_1_us": row.best_of_1_s * 1e6,
                "best_of_5_us": row.best_of_5_s * 1e6,
                "workload_id": row.workload_id,
            }
            for row in self.workloads
        ]
        return load_pandas().DataFrame(rows)

    def __str__(self) -> str:
        devices = ", ".join(sorted({row.device_id for row in self.workloads} - {""}))
        programs, errors = sum(row.n for row in self.workloads), self.standard_errors
        left_out = f", {len(self.skipped)} left out with nothing to rank" if self.skipped else ""
        left_out += f", {self.learned} left out since the model has learned from them" if self.learned else ""
        lines = [
            f"{counted(programs, 'program')} of {counted(len(self.workloads), 'workload')}"
            f"{f' on {devices}' if devices else ''}{left_out}",
            *(f"{name:12} {value:6.3f} ±{errors[name]:.3f}" for name, value in self.totals.items()),
            *(f"{name:12} {value:6.3f}" for name, value in self.variants.items()),
        ]
        return "\n".join(lines).replace(" ±nan", "")

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

    def row(self, about: Mapping[str, Any]) -> dict[str, Any]:
        """A line for a file of results, such as `docs/results/models.jsonl`: what was evaluated, and the figures.

        The means, `variants`, and the figures of each workload with four digits, in the order of `workload_ids`.

        Args:
            about: What was evaluated: `dataset`, `device`, `split`, `fold`, `seed`, `model`, `spec`.
        """
        return {
            **about,
            **self.totals,
            **self.variants,
            "workload_ids": [workload.workload_id[:12] for workload in self.workloads],
            "by_workload": {name: [round(getattr(row, name), 4) for row in self.workloads] for name in METRICS},
        }

    def _mean(self, name: str) -> float:
        return math.fsum(getattr(row, name) for row in self.workloads) / len(self.workloads)

    def _standard_error(self, name: str) -> float:
        return _error_of_mean([(row.workload_id, getattr(row, name)) for row in self.workloads])


def lead(first: Evaluation, other: Evaluation, name: str) -> tuple[float, float]:
    """How far a metric of one model is above that of another, and the standard error of that difference.

    Both are over the differences on each workload, so what makes a workload hard for every model cancels out. The
    error is NaN if there is only one workload.

    Args:
        first: The evaluation of one model.
        other: That of the other, on the same programs: its workloads have the same order.
        name: The metric.
    """
    pairs = zip(first.workloads, other.workloads, strict=True)
    differences = [(row.workload_id, getattr(row, name) - getattr(theirs, name)) for row, theirs in pairs]
    return math.fsum(value for _, value in differences) / len(differences), _error_of_mean(differences)


def _error_of_mean(values: Sequence[tuple[str, float]]) -> float:
    """The formula of `Evaluation.standard_errors`, of a value for each workload (its id) on each device."""
    mean = math.fsum(value for _, value in values) / len(values)
    off: dict[str, float] = defaultdict(float)
    for workload_id, value in values:
        off[workload_id] += value - mean
    number = len(off)
    if number < 2:
        return math.nan
    total = math.fsum(value**2 for value in off.values())
    return math.sqrt(number / (number - 1) * total) / len(values)


def evaluate(model: CostModel, programs: Programs, *, noise_floor: float = NOISE_FLOOR) -> Evaluation:
    """Scores programs with a model and compares the scores with the measured latencies.

    Args:
        model: A fitted model.
        programs: Programs of workloads that the model has not seen; failed ones are left out.
        noise_floor: Relative difference of throughput below which two programs count as equally fast.

    Raises:
        ModelError: The model cannot read these programs.
        ScoreError: A score is NaN or infinite, or there is not one for each program.
        DataError: No workload has two programs that differ by more than the noise.
    """
    programs = programs.measured()
    return evaluate_scores(model.predict_programs(programs), programs, noise_floor=noise_floor)


def evaluate_scores(scores: Scores, programs: Programs, *, noise_floor: float = NOISE_FLOOR) -> Evaluation:
    """Compares scores, wherever they come from, with the measured latencies.

    Args:
        scores: (n,) scores of the programs; higher is faster. Constant scores give the expectation of random
            choice.
        programs: The programs. Failed ones have no latency and are left out; each of the others is compared
            with those of the same workload on the same device.
        noise_floor: As in `evaluate`.

    Raises:
        ArgumentError: `noise_floor` is not from 0 up to, but excluding, 1.
        ScoreError: A score is NaN or infinite.
        DataError: No workload has two programs that differ by more than the noise.

    Example:
        >>> pair = Programs.from_list([np.ones((1, 2))] * 2, np.array([0, 0]), ("w",), np.array([1e-3, 2e-3]))
        >>> print(evaluate_scores(np.zeros(2), pair))
        2 programs of 1 workload
        top_1         0.750
        top_5         1.000
        pairwise      0.500
        spearman      0.000
    """
    if not 0.0 <= noise_floor < 1.0:
        raise ArgumentError(f"noise_floor must be at least 0 and below 1, got {noise_floor!s:.40}.")
    scores = np.asarray(scores, dtype=np.float64)
    if scores.shape != (programs.n,):
        raise ScoreError(
            f"evaluate_scores got scores of shape {scores.shape} for {counted(programs.n, 'program')}; it needs one "
            "per program, in their order."
        )
    if not np.isfinite(scores).all():
        count = int((~np.isfinite(scores)).sum())
        raise ScoreError(
            f"{count} of {len(scores)} scores {'is' if count == 1 else 'are'} NaN or infinite. Every program needs a "
            "finite score: look at the features and at the training of the model."
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
    if not measured and not skipped:
        raise no_programs_error("evaluate on")
    if not measured:
        which = "The only workload lacks" if len(skipped) == 1 else f"None of the {len(skipped)} workloads has"
        raise DataError(
            f"{which} two programs that differ by more than {noise_floor:.0%}, so there is nothing to rank; measure "
            "more programs."
        )
    return Evaluation(tuple(measured), noise_floor, tuple(skipped), programs.uses)


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


def evaluate_blocks(
    blocks: Iterable[Programs], score: Callable[[Programs], Scores], *, noise_floor: float = NOISE_FLOOR
) -> Evaluation:
    """What `evaluate_scores` returns for the programs of all blocks, with one block in memory at a time.

    Args:
        blocks: The programs; failed ones are left out.
        score: Returns the (n,) scores of the n programs of a block; higher is faster.
        noise_floor: As in `evaluate`.

    Raises:
        ScoreError: A score is NaN or infinite.
        DataError: As for `evaluate`, or there are no blocks.
    """
    scores, without_rows = [], []
    for block in (block.measured() for block in blocks):
        scores.append(score(block))
        without_rows.append(replace(block, rows=_NO_ROWS, counts=np.zeros_like(block.counts)))
    programs = Programs.join(without_rows) if without_rows else _NONE
    return evaluate_scores(np.concatenate([np.zeros(0), *scores]), programs, noise_floor=noise_floor)


_NO_ROWS: FloatArray = np.zeros((0, 0), np.float32)
_NONE = Programs.from_list([], np.zeros(0, np.int64), (), np.zeros(0))


@dataclass(frozen=True)
class NetworkTopK:
    """`top_k` of whole networks, as defined in the literature; see docs/metrics.md."""

    networks: Mapping[str, float]
    """Network -> weighted best latency / weighted chosen latency, over those of its workloads that were evaluated."""
    tenset: float
    """Mean over networks: `top_k_tenset`."""
    tlp: float
    """The ratio of the sums over all networks: `top_k_tlp`."""


def by_operator(evaluation: Evaluation, uses: Mapping[str, WorkloadUse]) -> dict[str, Evaluation]:
    """Family -> the evaluation of its workloads, by name; a workload that is not in `uses` belongs to `other`."""
    return _parts(evaluation, lambda row: [uses[row.workload_id].operator if row.workload_id in uses else "other"])


def by_network(evaluation: Evaluation, uses: Mapping[str, WorkloadUse]) -> dict[str, Evaluation]:
    """Network -> the evaluation of its workloads, by name: plain means, each workload once.

    A workload is in every network that uses it.
    """
    return _parts(evaluation, lambda row: uses[row.workload_id].networks if row.workload_id in uses else ())


def network_top_k(evaluation: Evaluation, uses: Mapping[str, WorkloadUse], *, k: int) -> NetworkTopK | None:
    """The two variants of `top_k` that weigh a workload by how often a network uses it.

    Latencies of different devices are never added: with several, figures are means over devices.

    Args:
        evaluation: The evaluation of all workloads.
        uses: What `workload_uses` returns.
        k: 1 or 5.

    Returns:
        The figures; None if no evaluated workload belongs to a network.
    """
    networks: dict[str, list[float]] = {}
    pooled: list[float] = []
    for device in sorted({row.device_id for row in evaluation.workloads}):
        terms = [
            (network, row.best_s, row.best_of_1_s if k == 1 else row.best_of_5_s, weight)
            for row in evaluation.workloads
            if row.device_id == device and row.workload_id in uses
            for network, weight in uses[row.workload_id].networks.items()
        ]
        for name in sorted({term[0] for term in terms}):
            networks.setdefault(name, []).append(_ratio(term for term in terms if term[0] == name))
        if terms:
            pooled.append(_ratio(terms))
    if not networks:
        return None
    means = {name: fmean(values) for name, values in sorted(networks.items())}
    return NetworkTopK(means, fmean(means.values()), fmean(pooled))


def _ratio(terms: Iterable[tuple[str, float, float, float]]) -> float:
    best_s, chosen_s, weight = np.array([term[1:] for term in terms], dtype=np.float64).T
    return weighted_top_k(best_s, chosen_s, weight)


def _parts(evaluation: Evaluation, names: Callable[[WorkloadScore], Iterable[str]]) -> dict[str, Evaluation]:
    parts: dict[str, list[WorkloadScore]] = {}
    for row in evaluation.workloads:
        for name in names(row):
            parts.setdefault(name, []).append(row)
    return {name: replace(evaluation, workloads=tuple(rows), skipped=()) for name, rows in sorted(parts.items())}
