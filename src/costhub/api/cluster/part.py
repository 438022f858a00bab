"""Provides measure_part: what a worker of a Dask cluster does for a collection, and what it sends back."""

from __future__ import annotations

import tempfile
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from costhub.api.collect import CollectOptions, collect_workloads
from costhub.api.measuring import local_devices, open_measurer
from costhub.collector.workloads.network_kernels import TextWorkload
from costhub.dataset.folder import DataFolder
from costhub.errors import CosthubError, DeviceError
from costhub.versions import costhub_version, installed_versions


@dataclass(frozen=True)
class WorkerFacts:
    """What a worker is: all workers of a collection must agree in it."""

    device_id: str
    target: dict[str, Any]
    """The TVM target."""
    versions: dict[str, str]
    """Those of `measuring_versions`."""


@dataclass(frozen=True)
class Part:
    """Some workloads of a collection, which one worker measures."""

    workloads: tuple[TextWorkload, ...]
    known: pa.Table
    """Rows of the measurements table that exist already; they count as trials and are not measured again."""
    trials: int
    """Programs per workload, with those that exist."""
    until: float
    """Seconds since the epoch after which no further program is measured."""
    device: str
    """A device of the worker's machine."""
    options: CollectOptions
    seed: int
    agreed: WorkerFacts
    """What the workers were when the collection began; one that has joined since may be another machine."""


@dataclass(frozen=True)
class PartResult:
    """What a worker has measured."""

    devices: tuple[dict[str, Any], ...]
    """Rows of the devices table; none if nothing was measured."""
    rows: pa.Table
    """New rows of the measurements table."""
    problems: Mapping[str, str] = field(default_factory=dict)
    """Why workloads were given up, by name."""


def measuring_versions() -> dict[str, str]:
    """The versions on which a measurement depends."""
    return {"costhub": costhub_version(), "tvm": installed_versions().get("tvm", "none")}


def listed(versions: Mapping[str, str]) -> str:
    """Versions in a sentence.

    Example:
        >>> listed({"costhub": "0.1.0", "tvm": "0.27.0.post1"})
        'costhub 0.1.0 and tvm 0.27.0.post1'
    """
    return " and ".join(f"{name} {version}" for name, version in versions.items())


def worker_facts(device: str) -> WorkerFacts:
    """What the worker is that runs this.

    Args:
        device: A device of its machine.

    Raises:
        DeviceError: Its machine has no such device.
    """
    from costhub.collector.device.local import find_local

    (local,) = find_local(local_devices(device))
    return WorkerFacts(str(local.row["device_id"]), local.target, measuring_versions())


def measure_part(part: Part) -> PartResult:
    """Measures a part of a collection in a folder of its own, which is removed.

    Args:
        part: What to measure.

    Returns:
        The rows that are new. If the device fails, those measured until then, with the reason as a problem.
    """
    problems: dict[str, str] = {}
    with tempfile.TemporaryDirectory(prefix="costhub-part-") as place:
        folder = DataFolder.create(Path(place, "rows"))
        _put(folder, part.known)
        try:
            problems.update(_measured(part, folder.path))
        except CosthubError as error:
            problems.update(dict.fromkeys((each.name for each in part.workloads), str(error)))
        rows = folder.measurements()
        new = pc.invert(pc.is_in(rows["record_id"], value_set=part.known["record_id"].combine_chunks()))
        return PartResult(tuple(folder.devices().to_pylist()), rows.filter(new), problems)


def _put(folder: DataFolder, known: pa.Table) -> None:
    """Writes rows that exist already into an empty folder."""
    for device_id in known["device_id"].unique().to_pylist():
        with folder.writer(device_id) as writer:
            writer.extend(known.filter(pc.equal(known["device_id"], device_id)))


def _measured(part: Part, out: Path) -> Mapping[str, str]:
    """Measures what is missing; returns why workloads were given up."""
    left_s = part.until - time.time()
    if left_s <= 0:
        return {}
    here = worker_facts(part.device)
    if here != part.agreed:
        raise DeviceError(
            f"A worker that joined is {here.device_id} with {listed(here.versions)}, and the others are "
            f"{part.agreed.device_id} with {listed(part.agreed.versions)}; it measured nothing."
        )
    options = replace(part.options, stop="never")
    with open_measurer(part.device, evaluator=options.evaluator()) as measurer:
        limits: dict[str, Any] = {"trials": part.trials, "budget_s": left_s, "seed": part.seed}
        done = collect_workloads(part.workloads, measurer, out, options=options, **limits)
    return done.progress.problems


def split_parts(counts: Sequence[int], programs: int) -> list[range]:
    """Consecutive workloads with about so many programs to measure in each part.

    Args:
        counts: How many programs each workload still needs.
        programs: How many a part should have; a workload is never split.

    Example:
        >>> [list(part) for part in split_parts([16, 16, 40, 16], programs=32)]
        [[0, 1], [2], [3]]
    """
    parts: list[range] = []
    start, held = 0, 0
    for place, count in enumerate(counts):
        held += count
        if held >= programs or place == len(counts) - 1:
            parts.append(range(start, place + 1))
            start, held = place + 1, 0
    return parts
