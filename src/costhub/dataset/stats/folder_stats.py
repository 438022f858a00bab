"""Provides folder_stats: statistics of a data folder: counts, coverage, latencies and noise."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from costhub.dataset.load import Folder, open_folder
from costhub.dataset.remote import FileSystem
from costhub.dataset.shards.layout import PROGRAM_KEY
from costhub.dataset.stats.noise import DeviceNoise, device_noise
from costhub.dataset.stats.observations import UNKNOWN_OPERATOR, VERSIONS, read_observations

QUANTILES = (0, 5, 25, 50, 75, 95, 100)
MOST_FAILURES = 100
"""Maximum number of failure kinds listed; each error text with an address in it is a separate kind."""
ROOFS = ("peak_gflops", "l1_gbs", "l2_gbs", "l3_gbs", "dram_gbs")


@dataclass(frozen=True)
class CoverageCell:
    """One operator family on one device."""

    operator: str
    device_id: str
    workloads: int
    """Distinct workloads that were tried."""
    programs: int
    """Distinct programs that ran."""
    measured: int
    """Attempts, including failures."""


def coverage(observations: pa.Table) -> tuple[CoverageCell, ...]:
    """Counts workloads and programs of every operator family on every device, largest first.

    Args:
        observations: The table from `read_observations`.
    """
    keys = ["operator", "device_id"]
    tried = observations.group_by(keys).aggregate([("workload_id", "count_distinct"), ([], "count_all")])
    ran = observations.filter(pc.field("status") == "ok").group_by(keys)
    programs = {
        (row["operator"], row["device_id"]): row[f"{PROGRAM_KEY}_count_distinct"]
        for row in ran.aggregate([(PROGRAM_KEY, "count_distinct")]).to_pylist()
    }
    cells = [
        CoverageCell(
            row["operator"],
            row["device_id"],
            row["workload_id_count_distinct"],
            programs.get((row["operator"], row["device_id"]), 0),
            row["count_all"],
        )
        for row in tried.to_pylist()
    ]
    return tuple(sorted(cells, key=lambda cell: (-cell.measured, cell.operator, cell.device_id)))


@dataclass(frozen=True)
class WorkloadStats:
    """Statistics of one workload on one device."""

    device_id: str
    workload_id: str
    name: str
    operator: str
    flop: float | None
    """Floating-point operations of one run; None if `workloads` does not describe it."""
    bytes: float | None
    """Bytes of its arguments."""
    measured: int
    ok: int
    best_us: float | None
    quarter_us: float | None
    """First quartile: a quarter of the programs are faster."""
    median_us: float | None
    three_quarters_us: float | None
    worst_us: float | None
    spread: float | None
    """Worst / best."""
    best_gflops: float | None
    """Throughput of the best program."""


def workload_stats(observations: pa.Table, workloads: pa.Table) -> tuple[WorkloadStats, ...]:
    """Describes every workload on every device, by device, operator and name.

    Args:
        observations: The table from `read_observations`.
        workloads: The columns workload_id, name, operator, flop and bytes of the workloads.
    """
    described = {row["workload_id"]: row for row in workloads.to_pylist()}
    stats = []
    for device_id, workload_id, latency_us in _latencies_by_workload(observations):
        about = described.get(workload_id, {})
        good = latency_us[np.isfinite(latency_us)]
        at = np.percentile(good, [0, 25, 50, 75, 100]).tolist() if len(good) else [None] * 5
        flop = about.get("flop")
        stats.append(
            WorkloadStats(
                device_id=device_id,
                workload_id=workload_id,
                name=about.get("name", workload_id[:12]),
                operator=about.get("operator", UNKNOWN_OPERATOR),
                flop=flop,
                bytes=about.get("bytes"),
                measured=len(latency_us),
                ok=len(good),
                best_us=at[0],
                quarter_us=at[1],
                median_us=at[2],
                three_quarters_us=at[3],
                worst_us=at[4],
                spread=at[4] / at[0] if at[0] else None,
                best_gflops=flop / at[0] * 1e-3 if flop and at[0] else None,
            )
        )
    return tuple(sorted(stats, key=lambda w: (w.device_id, w.operator, w.name, w.workload_id)))


def _latencies_by_workload(observations: pa.Table) -> Iterator[tuple[str, str, npt.NDArray[np.float64]]]:
    """Yields device, workload and latencies of each pair, using one sort instead of a dictionary of rows."""
    if not observations.num_rows:
        return
    devices, workloads = (observations[key].combine_chunks() for key in ("device_id", "workload_id"))
    width = len(workloads.dictionary)
    pairs = devices.indices.to_numpy().astype(np.int64) * width + workloads.indices.to_numpy()
    order = np.argsort(pairs, kind="stable")
    latency_us = observations["latency_us"].to_numpy()[order]
    values, starts = np.unique(pairs[order], return_index=True)
    for pair, part in zip(values.tolist(), np.split(latency_us, starts[1:]), strict=True):
        yield devices.dictionary[pair // width].as_py(), workloads.dictionary[pair % width].as_py(), part


@dataclass(frozen=True)
class Failure:
    """One kind of failure."""

    status: str
    error: str
    """First line of the error text."""
    count: int


@dataclass(frozen=True)
class Versions:
    """One combination of versions used for measurements."""

    device_id: str
    tvm: str | None
    compiler: str | None
    driver: str | None
    costhub: str | None
    count: int


@dataclass(frozen=True)
class Licence:
    """Rows of one contributor under one licence."""

    licence: str | None
    contributor: str | None
    count: int


@dataclass(frozen=True)
class FolderStats:
    """Counts, coverage, failures, latencies and noise of a data folder."""

    measurements: int
    programs: int
    """Distinct programs; one may be measured more than once, or on several devices."""
    devices: dict[str, int]
    operators: dict[str, int]
    statuses: dict[str, int]
    proposed_by: dict[str, float]
    """Share of the measurements by proposer of the program."""
    networks: dict[str, int]
    """Network -> measured workloads that it uses."""
    coverage: tuple[CoverageCell, ...]
    failures: tuple[Failure, ...]
    """The most frequent first, at most MOST_FAILURES."""
    versions: tuple[Versions, ...]
    licences: tuple[Licence, ...]
    latency_us: dict[str, dict[int, float]]
    """Device -> percentile -> latency in microseconds."""
    noise: tuple[DeviceNoise, ...]
    roofs: dict[str, dict[str, float]]
    """Device -> probed column of `devices` -> value, for probed devices."""
    workloads: tuple[WorkloadStats, ...]


def folder_stats(
    path: str | Path, *, filesystem: FileSystem | None = None, device_ids: Sequence[str] | None = None
) -> FolderStats:
    """Summarises a data folder.

    Args:
        path: The data folder.
        filesystem: The fsspec file system of `path`; the local one by default.
        device_ids: The devices to count; all by default.

    Raises:
        DataError: The folder cannot be read, or has no such device.
    """
    folder = open_folder(path, filesystem)
    observations = read_observations(folder, device_ids)
    failed = observations.filter(pc.field("status") != "ok")
    kinds = _counts(failed, ["status", "failure"])[:MOST_FAILURES]
    proposers = _named(observations, "proposed_by")
    return FolderStats(
        measurements=observations.num_rows,
        programs=pc.count_distinct(observations[PROGRAM_KEY]).as_py(),
        devices=_named(observations, "device_id"),
        operators=_named(observations, "operator"),
        statuses=_named(observations, "status"),
        proposed_by={name: count / observations.num_rows for name, count in proposers.items()},
        networks=_networks(folder, pc.unique(observations["workload_id"])),
        coverage=coverage(observations),
        failures=tuple(Failure(*row) for row in kinds),
        versions=tuple(Versions(*row) for row in _counts(observations, ["device_id", *VERSIONS])),
        licences=tuple(Licence(*row) for row in _counts(observations, ["licence", "contributor"])),
        latency_us=_quantiles(observations),
        noise=device_noise(observations),
        roofs={
            row["device_id"]: {name: row[name] for name in ROOFS if row[name] is not None}
            for row in folder.devices(["device_id", *ROOFS]).to_pylist()
            if device_ids is None or row["device_id"] in device_ids
        },
        workloads=workload_stats(observations, folder.workloads(["workload_id", "name", "operator", "flop", "bytes"])),
    )


def latencies_by_operator(
    path: str | Path, *, filesystem: FileSystem | None = None, device_ids: Sequence[str] | None = None
) -> dict[str, npt.NDArray[np.float64]]:
    """Reads latencies in microseconds by operator; by device and operator if the folder has several devices.

    Raises:
        DataError: The folder cannot be read.
    """
    observations = read_observations(open_folder(path, filesystem), device_ids)
    observations = observations.filter(pc.is_finite(observations["latency_us"]))
    labels = observations["operator"].cast(pa.string())
    if len(pc.unique(observations["device_id"])) > 1:
        labels = pc.binary_join_element_wise(observations["device_id"].cast(pa.string()), labels, " ")
    grouped = pa.table({"label": labels, "us": observations["latency_us"]}).group_by("label")
    lists = grouped.aggregate([("us", "list")]).sort_by("label")
    return {
        label.as_py(): values.values.to_numpy() for label, values in zip(lists["label"], lists["us_list"], strict=True)
    }


def _networks(folder: Folder, measured: pa.Array) -> dict[str, int]:
    """Number of measured workloads of each network, ordered by name."""
    rows = folder.workloads(["workload_id", "networks"])
    used = rows.filter(pc.is_in(rows["workload_id"], value_set=measured.cast(pa.string())))
    names = [network["name"] for networks in used["networks"].to_pylist() for network in networks or ()]
    return dict(sorted(Counter(names).items()))


def _counts(observations: pa.Table, keys: Sequence[str]) -> list[tuple[Any, ...]]:
    """Returns (value of each key, ..., count), the most frequent first."""
    counted = observations.group_by(list(keys)).aggregate([([], "count_all")]).select([*keys, "count_all"])
    rows = [tuple(row.values()) for row in counted.to_pylist()]
    return sorted(rows, key=lambda row: (-row[-1], *map(str, row)))


def _named(observations: pa.Table, key: str) -> dict[str, int]:
    return {name: count for name, count in _counts(observations, [key])}


def _quantiles(observations: pa.Table) -> dict[str, dict[int, float]]:
    finite = observations.filter(pc.is_finite(observations["latency_us"]))
    quantiles = {}
    for device_id in sorted(pc.unique(finite["device_id"]).to_pylist()):
        values = finite.filter(pc.field("device_id") == device_id)["latency_us"].to_numpy()
        quantiles[device_id] = dict(zip(QUANTILES, np.percentile(values, QUANTILES).tolist(), strict=True))
    return quantiles
