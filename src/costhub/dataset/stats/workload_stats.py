"""Provides workload_stats: how fast the programs of each workload are, from the best to the worst."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from costhub.dataset.stats.observations import UNKNOWN


@dataclass(frozen=True)
class WorkloadStats:
    """What was measured of one workload on one device."""

    device_id: str
    workload_id: str
    name: str
    operator: str
    flop: float | None
    """Floating-point operations of one run; None where `workloads` does not describe it."""
    bytes: float | None
    """Bytes of its arguments."""
    measured: int
    ok: int
    best_us: float | None
    quarter_us: float | None
    """A quarter of the programs are faster."""
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
        observations: As `read_observations` gives them.
        workloads: The columns workload_id, name, operator, flop and bytes of the workloads.
    """
    known = {row["workload_id"]: row for row in workloads.to_pylist()}
    found = []
    for device_id, workload_id, latency_us in _groups(observations):
        about = known.get(workload_id, {})
        good = latency_us[np.isfinite(latency_us)]
        at = np.percentile(good, [0, 25, 50, 75, 100]).tolist() if len(good) else [None] * 5
        flop = about.get("flop")
        found.append(
            WorkloadStats(
                device_id=device_id,
                workload_id=workload_id,
                name=about.get("name", workload_id[:12]),
                operator=about.get("operator", UNKNOWN),
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
    return tuple(sorted(found, key=lambda w: (w.device_id, w.operator, w.name, w.workload_id)))


def _groups(observations: pa.Table) -> Iterator[tuple[str, str, npt.NDArray[np.float64]]]:
    """Device, workload and latencies of each pair; one sort by numbers instead of a dictionary of rows."""
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
