"""Provides KnownSchedules: the fastest measured schedules of the workloads in data folders."""

from __future__ import annotations

import heapq
import itertools
import json
import math
from collections.abc import Iterator, Sequence, Set
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow.compute as pc

from costhub.dataset.folder import DataFolder
from costhub.dataset.latency import median_latency_s
from costhub.dataset.operator_class import classify
from costhub.dataset.workload import argument_shapes, workload_id
from costhub.search.zero_trials.carry import SketchTraces, TraceDecisions

PER_WORKLOAD = 4
"""How many of the fastest schedules of a workload on a device are kept."""
NEAR_WORKLOADS = 8
"""Workloads whose schedules are carried over."""


@dataclass(frozen=True)
class DeviceRows:
    """Where the measurements of a device are."""

    data: Path
    """A data folder."""
    device_id: str
    is_target: bool = False
    """Whether it is the device to find schedules for."""
    is_like_target: bool = False
    """Whether its vectors are as wide and it has instructions in common, so that its fastest schedules are worth trying
    unchanged."""
    is_own: bool = False
    """Whether the user named the folder; otherwise it is the hub's."""


@dataclass(frozen=True)
class KnownSchedule:
    """A measured schedule."""

    workload_id: str
    workload: str
    """Its name."""
    device_id: str
    latency_us: float
    cores: int
    """Cores of the device."""
    is_target: bool
    """Whether the device is the one to find schedules for."""
    is_own: bool
    """Whether it is from a folder that the user named."""
    decisions: TraceDecisions = field(repr=False)


@dataclass(frozen=True)
class _Workload:
    name: str
    operator: str
    dtypes: tuple[str, ...]
    shapes: str


class KnownSchedules:
    """The fastest schedules in data folders; each device is read once, when it is first asked for.

    Args:
        rows: Devices of one kind, the most similar to the target first.
        without: Ids of workloads to treat as unknown, and with them all that have the same operator, shapes and types.

    Example:
        >>> KnownSchedules([]).rows
        ()
    """

    def __init__(self, rows: Sequence[DeviceRows], *, without: Set[str] = frozenset()) -> None:
        self.rows = tuple(rows)
        self.without = frozenset(without)
        self._kept: dict[DeviceRows, dict[str, list[tuple[float, str, str]]]] = {}
        self._schedules: dict[tuple[DeviceRows, str], list[KnownSchedule]] = {}

    def measured(self, mod: Any, sketches: SketchTraces) -> list[KnownSchedule]:
        """The fastest schedules of this very workload, those of the most similar device first.

        Args:
            mod: The workload, a ``tvm.IRModule``.
            sketches: Its sketches; schedules of other design spaces are left out.
        """
        identity = workload_id(mod)
        if identity in self._unknown:
            return []
        rows = (rows for rows in self.rows if rows.is_target or rows.is_like_target)
        return [
            each
            for each_rows in rows
            for each in self._of(each_rows, {identity}).get(identity, ())
            if sketches.knows(each.decisions)
        ]

    def near(self, mod: Any, sketches: SketchTraces) -> list[KnownSchedule]:
        """The fastest schedules of the nearest other workloads of the same operator and types, the nearest first.

        Each workload is represented by the most similar device that has it.

        Args:
            mod: The workload.
            sketches: Its sketches, which say how near a schedule is.
        """
        identity, operator = workload_id(mod), classify(mod)
        dtypes, shapes = zip(*argument_shapes(mod), strict=True)
        wanted = {
            key
            for key, each in self._workloads.items()
            if each.operator == operator
            and set(each.dtypes) == set(dtypes)
            and key not in self._unknown
            and not (identity in self.without and json.loads(each.shapes) == [list(shape) for shape in shapes])
        }
        best: dict[str, tuple[float, list[KnownSchedule]]] = {}
        for key, schedules in self._first_of(wanted):
            if key == identity and schedules[0].device_id in self._applying:
                continue  # these are measured ones
            fitting = [each for each in schedules if math.isfinite(sketches.distance(each.decisions))]
            if fitting:
                best[key] = min(sketches.distance(each.decisions) for each in fitting), fitting
        nearest = sorted(best.values(), key=lambda pair: pair[0])[:NEAR_WORKLOADS]
        return [schedule for _, schedules in nearest for schedule in schedules]

    def _first_of(self, wanted: Set[str]) -> Iterator[tuple[str, list[KnownSchedule]]]:
        """The schedules of each workload on the first device that has it; no device is read unnecessarily."""
        left = set(wanted)
        for rows in self.rows:
            if not left:
                return
            known = self._of(rows, left)
            for key in sorted(known):
                yield key, known[key]
            left -= known.keys()

    @cached_property
    def _applying(self) -> frozenset[str]:
        return frozenset(rows.device_id for rows in self.rows if rows.is_target or rows.is_like_target)

    @cached_property
    def _workloads(self) -> dict[str, _Workload]:
        columns = ["workload_id", "name", "operator", "dtypes", "shapes"]
        found: dict[str, _Workload] = {}
        for data in dict.fromkeys(rows.data for rows in self.rows):
            for row in DataFolder.open(data).workloads(columns).to_pylist():
                own = _Workload(row["name"], row["operator"], tuple(row["dtypes"]), row["shapes"])
                found.setdefault(row["workload_id"], own)
        return found

    @cached_property
    def _unknown(self) -> frozenset[str]:
        """The ids in `without`, and those of workloads that differ from one of them only in names."""
        held = [self._workloads[key] for key in self.without if key in self._workloads]
        alike = {(each.operator, each.dtypes, each.shapes) for each in held}
        return self.without | {
            key for key, each in self._workloads.items() if (each.operator, each.dtypes, each.shapes) in alike
        }

    def _of(self, rows: DeviceRows, wanted: Set[str]) -> dict[str, list[KnownSchedule]]:
        """Wanted workload -> its fastest schedules on a device, the fastest first.

        A device has thousands of workloads, of which few are ever wanted: only the traces of those are parsed.
        """
        kept = self._kept.get(rows)
        if kept is None:
            kept = {key: fastest for key, fastest in _fastest(rows).items() if key in self._workloads}
            self._kept[rows] = kept
        for key in wanted & kept.keys():
            self._schedules[rows, key] = self._read(key, kept[key], rows)
            del kept[key]
        return {key: found for key in wanted if (found := self._schedules.get((rows, key)))}

    def _read(self, key: str, kept: Sequence[tuple[float, str, str]], rows: DeviceRows) -> list[KnownSchedule]:
        """The schedules whose traces can be read."""
        name, device = self._workloads[key].name, rows.device_id
        return [
            KnownSchedule(key, name, device, seconds * 1e6, _cores(target), rows.is_target, rows.is_own, decisions)
            for seconds, trace, target in kept
            if (decisions := TraceDecisions.read(trace)) is not None
        ]


def _fastest(rows: DeviceRows) -> dict[str, list[tuple[float, str, str]]]:
    """Workload -> (median seconds, trace, target) of its fastest programs; transplanted rows are left out."""
    columns = ["workload_id", "run_s", "trace", "target"]
    where = (pc.field("status") == "ok") & pc.field("transplanted_from").is_null()
    heaps: dict[str, list[tuple[float, int, str, str]]] = {}
    # Of two equally fast programs, the one measured first is kept.
    number = itertools.count(0, -1)
    for batch in DataFolder.open(rows.data).iter_measurements([rows.device_id], columns, where):
        seconds = median_latency_s(batch["run_s"])
        workloads = batch["workload_id"].to_pylist()
        for place in np.flatnonzero(np.isfinite(seconds) & (seconds > 0)).tolist():
            heap, latency_s = heaps.setdefault(workloads[place], []), float(seconds[place])
            if len(heap) == PER_WORKLOAD and -latency_s <= heap[0][0]:
                continue
            trace = batch["trace"][place].as_py()
            if any(trace == kept for _, _, kept, _ in heap):
                continue
            entry = (-latency_s, next(number), trace, batch["target"][place].as_py())
            (heapq.heappush if len(heap) < PER_WORKLOAD else heapq.heappushpop)(heap, entry)
    return {
        key: [(-latency_s, trace, target) for latency_s, _, trace, target in sorted(heap, reverse=True)]
        for key, heap in heaps.items()
    }


def _cores(target: str) -> int:
    """The number of cores in a target; 1 if it does not say."""
    try:
        found = json.loads(target)["num-cores"]
    except (ValueError, KeyError, TypeError, RecursionError):
        return 1
    return found if isinstance(found, int) and found > 0 else 1
