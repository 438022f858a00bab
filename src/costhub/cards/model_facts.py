"""Provides ModelCard: a model's description as data, with the figures shown on its card."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from statistics import fmean
from typing import Any

from costhub.models import evaluate

CARD_VERSION = 5
"""Version 1 has neither options nor pictures, version 3 has clearer sentences, version 4 names the model's own
address and leaves the figures of each workload to a file beside it, and version 5 names datasets and the base model to
the Hugging Face hub, and cites the owner of the model. Each version can be read, and is rendered as it was."""
ADDRESSED_VERSION = 4
"""The first version that has `ModelCard.address`."""
OWNED_VERSION = 5
"""The first version that cites the owner of the address."""
METRICS = evaluate.METRICS
METRIC_MEANINGS = {
    "top_1": "best latency of the workload / latency of the program ranked first; 1 is perfect",
    "top_5": "best latency of the workload / best latency among the five ranked first; 1 is perfect",
    "pairwise": "share of pairs of programs put in the right order, of those that differ by more than "
    "{floor:.0%}; 0.5 is chance",
    "spearman": "rank correlation of score and speed; 0 is chance, 1 is perfect",
}
DIGITS = 3
"""Digits of the figures of operators and devices: a card shows exactly what its data contain."""


@dataclass(frozen=True, kw_only=True)
class ModelCard:
    """Everything a card shows; the types are those of YAML, so that a card can be read back unchanged."""

    name: str
    """Name of the model folder."""
    device_id: str
    arch: str
    feature_spec: str
    licence: str
    """An SPDX name."""
    training: dict[str, Any]
    """data_rows, data_hash, data_credit, devices, datasets, test_datasets, seed, created, base, method and
    workloads: as far as known."""
    versions: dict[str, str]
    """Package -> version used for training the model."""
    totals: dict[str, float]
    """Metric -> value over the held-out workloads."""
    noise_floor: float
    """Relative latency difference below which `pairwise` ignores a pair."""
    device: dict[str, Any]
    """Known columns of the `devices` table."""
    address: str = ""
    """The address of exactly this model for `costhub tune --model`; empty for one that is in no hub."""
    held_out: dict[str, int] = field(default_factory=dict)
    """Number of `workloads`, `devices` and `programs` it was evaluated on."""
    operators: list[dict[str, Any]] = field(default_factory=list)
    """One row per operator family: operator, workloads, programs and the metrics."""
    devices: list[dict[str, Any]] = field(default_factory=list)
    """The same by device, if there are several."""
    tested: list[dict[str, Any]] = field(default_factory=list)
    """The same by dataset (ORG/NAME@REVISION), if there are several and the evaluation says which devices each has."""
    workloads: list[dict[str, Any]] = field(default_factory=list)
    """Before version 4, one row per held-out workload; now they are only in `evaluation.json`."""
    transfer: dict[str, Any] = field(default_factory=dict)
    """How it was adapted from other devices, see `transfer_facts`; empty for other models."""
    pictures: list[str] = field(default_factory=list)
    """Pictures of its figures, files beside the card."""
    version: int = CARD_VERSION
    """Version of the card; older ones keep their wording."""


def held_out_figures(rows: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
    """Summarises the rows of an evaluation for a card: `held_out`, `operators` and `devices` of `ModelCard`.

    Args:
        rows: One row per held-out workload and device, with the metrics and `programs` or `n`.

    Example:
        >>> rows = [{"workload_id": w, "operator": "conv", "n": 8, "top_1": t} for w, t in (("a", 1.0), ("b", 0.5))]
        >>> found = held_out_figures(rows)
        >>> found["held_out"], found["operators"][0]["top_1"]
        ({'workloads': 2, 'devices': 0, 'programs': 16}, 0.75)
    """
    devices = sorted({str(row["device_id"]) for row in rows if row.get("device_id")})
    return {
        "held_out": {"workloads": _workloads(rows), "devices": len(devices), "programs": _programs(rows)},
        "operators": _groups(rows, "operator"),
        "devices": _groups(rows, "device_id") if len(devices) > 1 else [],
    }


def dataset_figures(evaluation: Mapping[str, Any], tested: Sequence[str]) -> list[dict[str, Any]]:
    """Summarises the rows of an evaluation by dataset: `tested` of `ModelCard`.

    Args:
        evaluation: `workloads`, and `datasets`: ORG/NAME -> ids of its devices.
        tested: The datasets that the workloads were held out of, ORG/NAME@REVISION.

    Returns:
        One row per dataset; none for fewer than two datasets, or if the dataset of a row is not known.

    Example:
        >>> rows = [{"workload_id": "w", "device_id": d, "n": 8, "top_1": t} for d, t in (("a", 1.0), ("b", 0.5))]
        >>> known = {"workloads": rows, "datasets": {"lab/one": ["a"], "lab/two": ["b"]}}
        >>> [(row["dataset"], row["top_1"]) for row in dataset_figures(known, ["lab/one@12", "lab/two@34"])]
        [('lab/one@12', 1.0), ('lab/two@34', 0.5)]
    """
    devices, groups = evaluation.get("datasets") or {}, defaultdict(list)
    for row in evaluation["workloads"]:
        owners = [name for name in tested if row.get("device_id") in devices.get(name.partition("@")[0], ())]
        if len(owners) != 1:
            return []
        groups[owners[0]].append(row)
    if len(tested) < 2 or len(groups) < len(tested):
        return []
    return [
        {"dataset": name, "workloads": _workloads(groups[name]), "programs": _programs(groups[name])}
        | _means(groups[name])
        for name in tested
    ]


def _groups(rows: Sequence[Mapping[str, Any]], key: str) -> list[dict[str, Any]]:
    groups: dict[str, list[Mapping[str, Any]]] = defaultdict(list)
    for row in rows:
        groups[str(row.get(key) or "other")].append(row)
    return [
        {key: name, "workloads": _workloads(group), "programs": _programs(group), **_means(group)}
        for name, group in sorted(groups.items())
    ]


def _workloads(rows: Sequence[Mapping[str, Any]]) -> int:
    """Number of distinct workloads; a row without an id is counted by name."""
    return len({str(row.get("workload_id") or row.get("workload")) for row in rows})


def _programs(rows: Sequence[Mapping[str, Any]]) -> int:
    return sum(row.get("programs", row.get("n")) or 0 for row in rows)


def _means(rows: Sequence[Mapping[str, Any]]) -> dict[str, float | None]:
    """Metric -> mean over the rows that have it; a NaN stands for a missing figure."""
    means: dict[str, float | None] = {}
    for key in METRICS:
        values = [row[key] for row in rows if row.get(key) is not None and row[key] == row[key]]
        means[key] = round(fmean(values), DIGITS) if values else None
    return means
