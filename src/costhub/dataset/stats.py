"""Provides folder_stats: what a data folder holds, in counts and latencies."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from costhub.dataset.folder import DataFolder
from costhub.dataset.latency import median_latency_s

QUANTILES = (0, 5, 25, 50, 75, 95, 100)
UNKNOWN = "(not in workloads)"
_ERROR_CHARACTERS = 120


@dataclass(frozen=True)
class WorkloadStats:
    """What was measured of one workload on one device."""

    device_id: str
    workload_id: str
    name: str
    operator: str
    measured: int
    ok: int
    best_us: float | None
    median_us: float | None
    worst_us: float | None


@dataclass(frozen=True)
class FolderStats:
    """What a data folder holds."""

    measurements: int
    programs: int
    """Distinct programs; one may be measured more than once, or on several devices."""
    devices: dict[str, int]
    operators: dict[str, int]
    statuses: dict[str, int]
    proposed_by: dict[str, float]
    """Share of the measurements, by who proposed the program."""
    failures: dict[str, int]
    """First line of the error text -> how often it occurred, most frequent first."""
    latency_us: dict[str, dict[int, float]]
    """Device -> percentile -> latency in microseconds."""
    workloads: tuple[WorkloadStats, ...]


def folder_stats(path: str | Path) -> FolderStats:
    """Counts what a data folder holds.

    Raises:
        DataError: The folder cannot be read.
    """
    folder = DataFolder.open(path)
    columns = ["program_id", "workload_id", "device_id", "status", "error", "proposed_by", "run_s"]
    table = folder.measurements(columns=columns)
    latency_us = median_latency_s(table["run_s"]) * 1e6
    rows = table.drop_columns(["run_s"]).to_pylist()
    known = {row["workload_id"]: row for row in folder.workloads().drop_columns(["module_json"]).to_pylist()}
    proposers = _count(row["proposed_by"] for row in rows)
    return FolderStats(
        measurements=len(rows),
        programs=len({row["program_id"] for row in rows}),
        devices=_count(row["device_id"] for row in rows),
        operators=_count(known.get(row["workload_id"], {}).get("operator", UNKNOWN) for row in rows),
        statuses=_count(row["status"] for row in rows),
        proposed_by={name: count / len(rows) for name, count in proposers.items()},
        failures=_count(_first_line(row["error"]) for row in rows if row["status"] != "ok"),
        latency_us=_quantiles(rows, latency_us),
        workloads=_by_workload(rows, latency_us, known),
    )


def latencies_by_operator(path: str | Path) -> dict[str, npt.NDArray[np.float64]]:
    """Reads the latencies in microseconds by operator, or by device and operator if devices are several.

    Raises:
        DataError: The folder cannot be read.
    """
    folder = DataFolder.open(path)
    table = folder.measurements(columns=["workload_id", "device_id", "run_s"], status="ok")
    latency_us = median_latency_s(table["run_s"]) * 1e6
    workloads = folder.workloads()
    operators = dict(
        zip(workloads["workload_id"].to_pylist(), workloads["operator"].to_pylist(), strict=True)
    )
    several = len(folder.device_ids()) > 1
    labels = [
        f"{device_id} {operators.get(workload_id, UNKNOWN)}"
        if several
        else operators.get(workload_id, UNKNOWN)
        for workload_id, device_id in zip(*table.drop_columns(["run_s"]).to_pydict().values(), strict=True)
    ]
    names = np.array(labels, dtype=object)
    return {name: latency_us[names == name] for name in sorted(set(labels))}


def _count(values: Iterable[str]) -> dict[str, int]:
    return dict(sorted(Counter(values).items(), key=lambda item: (-item[1], item[0])))


def _first_line(error: str | None) -> str:
    lines = (error or "").strip().splitlines()
    return lines[0][:_ERROR_CHARACTERS] if lines else "(no error text)"


def _quantiles(
    rows: list[dict[str, Any]], latency_us: npt.NDArray[np.float64]
) -> dict[str, dict[int, float]]:
    devices = np.array([row["device_id"] for row in rows], dtype=object)
    found = {}
    for device_id in sorted(set(devices)):
        values = latency_us[(devices == device_id) & np.isfinite(latency_us)]
        if len(values):
            found[device_id] = dict(zip(QUANTILES, np.percentile(values, QUANTILES).tolist(), strict=True))
    return found


def _by_workload(
    rows: list[dict[str, Any]], latency_us: npt.NDArray[np.float64], known: Mapping[str, Mapping[str, Any]]
) -> tuple[WorkloadStats, ...]:
    groups: dict[tuple[str, str], list[int]] = {}
    for position, row in enumerate(rows):
        groups.setdefault((row["device_id"], row["workload_id"]), []).append(position)
    found = []
    for (device_id, workload_id), positions in groups.items():
        values = latency_us[positions]
        values = values[np.isfinite(values)]
        best, median, worst = np.percentile(values, [0, 50, 100]).tolist() if len(values) else [None] * 3
        about = known.get(workload_id, {})
        found.append(
            WorkloadStats(
                device_id=device_id,
                workload_id=workload_id,
                name=about.get("name", workload_id[:12]),
                operator=about.get("operator", UNKNOWN),
                measured=len(positions),
                ok=sum(rows[position]["status"] == "ok" for position in positions),
                best_us=best,
                median_us=median,
                worst_us=worst,
            )
        )
    return tuple(sorted(found, key=lambda w: (w.device_id, w.operator, w.name)))
