"""Provides ReplayTask, ReplayWorkload and load_replay: the densely measured workloads among which a search is replayed.

The anchor is the benchmark hub of the Auto-Tuning Association (Willemsen et al., "A methodology for comparing
auto-tuning optimization algorithms", 2024): spaces that were measured completely, so that a search is a walk through
a table. A schedule space of TVM cannot be exhausted; the part that was measured stands for it here.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

import numpy as np
import numpy.typing as npt

from costhub.dataset.blocks import ProgramBlock, open_devices
from costhub.dataset.features.program_key import KEY_COLUMNS, ProgramKeys, modules_of
from costhub.dataset.features.specs import DEFAULT_SPEC
from costhub.dataset.folder import DataFolder
from costhub.dataset.programs import FloatArray, Programs, workload_uses
from costhub.errors import DataError
from costhub.search.knobs import Knobs

WORKLOADS = 10
"""How many of each device: those with the most programs."""
Latencies = npt.NDArray[np.float64]


@dataclass(frozen=True)
class ReplayTask:
    """What a strategy knows about a workload: its programs, but not how fast they are."""

    workload_id: str
    name: str
    """For people to read."""
    device_id: str
    programs: Programs
    """Features of all programs, in order; the latencies are not those that were measured (they are all 1)."""
    knobs: tuple[Knobs, ...]
    """What each schedule decided, in the same order."""

    @property
    def n(self) -> int:
        """Number of programs."""
        return self.programs.n

    @cached_property
    def features(self) -> list[FloatArray]:
        """(rows, d) features of each program."""
        return np.split(self.programs.rows, np.cumsum(self.programs.counts)[:-1])


@dataclass(frozen=True)
class ReplayWorkload:
    """A task, and the latencies by which a search of it is judged."""

    task: ReplayTask
    latency_s: Latencies
    """(n,) median latency of each program, in seconds."""

    @property
    def best_s(self) -> float:
        """The lowest measured latency."""
        return float(self.latency_s.min())

    @classmethod
    def of(cls, programs: Programs, knobs: Sequence[Knobs], *, name: str = "") -> ReplayWorkload:
        """Separates the latencies from the programs of one workload on one device.

        Example:
            >>> p = Programs.from_list([np.ones((2, 3))] * 3, np.zeros(3, int), ("w",), np.array([2e-3, 1e-3, 3e-3]))
            >>> own = ReplayWorkload.of(p, [Knobs("s", ((0, n),)) for n in range(3)])
            >>> own.best_s, own.task.programs.latency_s.tolist()
            (0.001, [1.0, 1.0, 1.0])
        """
        workload_id, device_id = programs.workload_ids[programs.workload[0]], programs.device_ids[programs.device[0]]
        hidden = Programs(
            programs.rows,
            programs.counts,
            np.zeros(programs.n, np.int64),
            (workload_id,),
            np.ones(programs.n),
            programs.spec,
            device_ids=(device_id,),
        )
        task = ReplayTask(workload_id, name or workload_id[:12], device_id, hidden, tuple(knobs))
        return cls(task, programs.latency_s)


def load_replay(
    path: Path,
    device: str,
    *,
    workloads: set[str] | None = None,
    spec: str | None = DEFAULT_SPEC,
    count: int = WORKLOADS,
    progress: bool = True,
) -> list[ReplayWorkload]:
    """The most densely measured workloads of a device, those with the most programs first.

    Args:
        path: A data folder.
        device: The device whose measurements to use.
        workloads: Ids of the workloads to choose from; all by default.
        spec: Feature spec of the programs; missing features are computed, which takes minutes the first time. None
            leaves them out: programs then have no rows.
        count: Number of workloads.
        progress: Show a progress bar on a terminal.

    Raises:
        DataError: The data lack the device, or have no workload with two measured programs.
        UnknownNameError: The feature spec does not exist.
    """
    block = _densest(path, device, workloads, spec, count)
    if spec is not None:
        block, _ = block.with_features(progress=progress)
    programs = _without_rows(block) if spec is None else block.load(progress=False)
    knobs = knobs_by_key(path, [device], block.keys.to_pylist())
    uses = workload_uses(DataFolder.open(path).workloads())
    found = []
    for number in np.unique(programs.workload).tolist():
        places = np.flatnonzero(programs.workload == number)
        name = programs.workload_ids[number]
        own = [knobs[place] for place in places.tolist()]
        found.append(ReplayWorkload.of(programs.select(places), own, name=uses[name].name if name in uses else ""))
    return sorted(found, key=lambda each: (-each.task.n, each.task.workload_id))


def densest_workloads(
    path: Path, device: str, *, workloads: set[str] | None = None, count: int = WORKLOADS
) -> set[str]:
    """The ids of the workloads that `load_replay` takes, without their features.

    Args:
        path: As for `load_replay`, like the others.
        device: See there.
        workloads: See there.
        count: See there.

    Raises:
        DataError: As for `load_replay`.
    """
    block = _densest(path, device, workloads, None, count)
    return {block.workload_ids[number] for number in np.unique(block.workload).tolist()}


def _densest(path: Path, device: str, workloads: set[str] | None, spec: str | None, count: int) -> ProgramBlock:
    (block,) = open_devices(path, device, workloads, spec or DEFAULT_SPEC, failures=False)
    sizes = np.bincount(block.workload, minlength=len(block.workload_ids))
    densest = sorted(range(len(sizes)), key=lambda number: (-sizes[number], block.workload_ids[number]))[:count]
    names = {block.workload_ids[number] for number in densest if sizes[number] >= 2}
    if not names:
        raise DataError(f"No workload in {path} has two measured programs on {device}; there is nothing to search.")
    return block.of_workloads(names)


def _without_rows(block: ProgramBlock) -> Programs:
    none, no_rows = np.zeros(len(block.latency_s), np.int64), np.zeros((0, 0), np.float32)
    devices = (block.features.device_id,)
    return Programs(no_rows, none, block.workload, block.workload_ids, block.latency_s, device_ids=devices)


def knobs_by_key(path: Path, devices: Sequence[str], keys: Sequence[bytes]) -> list[Knobs]:
    """The knobs of programs, by their keys (`ProgramKeys`), in order."""
    folder = DataFolder.open(path)
    program_keys, wanted = ProgramKeys(modules_of(folder)), set(keys)
    found: dict[bytes, Knobs] = {}
    for part in folder.iter_measurements(list(devices), KEY_COLUMNS):
        for key, trace in zip(program_keys.of(part).to_pylist(), part["trace"].to_pylist(), strict=True):
            if key in wanted and key not in found:
                found[key] = Knobs.read(trace)
    return [found[key] for key in keys]
