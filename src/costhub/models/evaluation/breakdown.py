"""Provides by_operator, by_network and network_top_k: an evaluation by operator family and by network."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, replace
from statistics import fmean

import numpy as np
import pyarrow as pa

from costhub.models.evaluation.evaluate import Evaluation, WorkloadScore
from costhub.models.evaluation.metrics import weighted_top_k


@dataclass(frozen=True)
class WorkloadUse:
    """What a workload is, and where it occurs."""

    operator: str
    """Its family."""
    networks: Mapping[str, float]
    """Network -> how often it uses the workload."""


@dataclass(frozen=True)
class NetworkTopK:
    """`top_k` of whole networks, as the literature has it; see docs/metrics.md."""

    networks: Mapping[str, float]
    """Network -> weighted best latency / weighted chosen latency, over its workloads that were evaluated."""
    tenset: float
    """Mean over networks: `top_k_tenset`."""
    tlp: float
    """The ratio of the sums over all networks: `top_k_tlp`."""


def workload_uses(workloads: pa.Table) -> dict[str, WorkloadUse]:
    """Workload id -> family and networks.

    Args:
        workloads: The workloads table, with `workload_id`, `operator` and `networks`.

    Example:
        >>> networks = [[{"name": "resnet-18", "weight": 2.0}]]
        >>> workload_uses(pa.table({"workload_id": ["w"], "operator": ["conv"], "networks": networks}))["w"]
        WorkloadUse(operator='conv', networks={'resnet-18': 2.0})
    """
    rows = workloads.select(["workload_id", "operator", "networks"]).to_pylist()
    return {
        row["workload_id"]: WorkloadUse(
            row["operator"], {n["name"]: n["weight"] for n in row["networks"] or ()}
        )
        for row in rows
    }


def by_operator(evaluation: Evaluation, uses: Mapping[str, WorkloadUse]) -> dict[str, Evaluation]:
    """Family -> the evaluation of its workloads, by name; a workload that is not in `uses` is of `other`."""
    return _parts(
        evaluation, lambda row: [uses[row.workload_id].operator if row.workload_id in uses else "other"]
    )


def by_network(evaluation: Evaluation, uses: Mapping[str, WorkloadUse]) -> dict[str, Evaluation]:
    """Network -> the evaluation of its workloads, by name: plain means, each workload once.

    A workload is in every network that uses it.
    """
    return _parts(evaluation, lambda row: uses[row.workload_id].networks if row.workload_id in uses else ())


def network_top_k(evaluation: Evaluation, uses: Mapping[str, WorkloadUse], *, k: int) -> NetworkTopK | None:
    """The two variants of `top_k` that weigh a workload by how often a network uses it.

    Latencies of different devices are never added: with several, figures are means over devices.

    Args:
        evaluation: Of all workloads.
        uses: As `workload_uses` gives them.
        k: 1 or 5.

    Returns:
        None where no workload that was evaluated is of a network.
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
    return {
        name: replace(evaluation, workloads=tuple(rows), skipped=()) for name, rows in sorted(parts.items())
    }
