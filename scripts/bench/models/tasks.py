"""What the benchmarks of models learn from and test on: data folders, devices, splits and folds."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow.compute as pc

from costhub.dataset.folder import DataFolder
from costhub.dataset.load import load_programs
from costhub.dataset.programs import BoolArray, Programs, WorkloadUse, drawn_places, workload_uses
from costhub.dataset.splits.split import list_splits, load_split
from costhub.dataset.splits.split_rules import split_by_workload
from scripts.bench.common.data import SplitPart, folds
from scripts.bench.common.machine import RESULTS
from scripts.bench.models.grid import GridEntry
from scripts.bench.models.noise_ceiling import MeasuredRepeats
from scripts.release.train import MANY

NOISE = RESULTS / "noise.json"
"""The results of the noise benchmark."""
FIRST_SIX = tuple(f"resnet18.c{number}" for number in range(1, 7))
"""The convolutions that AutoTVM's figure 9 learns from."""
FIGURE_9 = {
    "c1-c6-to-c7": {"resnet18.c7"},
    "c1-c6-to-c7-c12": {f"resnet18.c{number}" for number in range(7, 13)},
    "c1-c6-to-matmul": set[str](),
}
"""Split -> the convolutions to test on; the last one tests on all matrix products."""
VALIDATION = re.compile(r"validation-(?P<count>\d+)(?:-seed(?P<seed>\d+))?")
"""Splits that hold out some of the workloads that MANY learns from, to choose settings on."""


@dataclass
class DeviceData:
    """One device of a data folder; holds the programs of one kind of entry at a time."""

    data: Path
    device: str
    also: Path | None = None
    """Another data folder with one device, whose programs are learned from as well."""
    each: int | None = None
    """At most so many programs of each workload to learn from, the same for every seed; all by default."""
    _loaded: dict[tuple[str, bool, bool], tuple[Programs, Programs | None]] = field(default_factory=dict)

    def __post_init__(self) -> None:
        folder = DataFolder.open(self.data)
        self.uses: dict[str, WorkloadUse] = workload_uses(folder.workloads())
        columns = ["workload_id", "name", "operator", "networks"]
        measured_ids = set(
            pc.unique(folder.measurements(self.device, ["workload_id"], "ok")["workload_id"]).to_pylist()
        )
        self.about: list[dict[str, Any]] = [
            row for row in folder.workloads(columns).to_pylist() if row["workload_id"] in measured_ids
        ]

    def programs(self, entry: GridEntry) -> tuple[Programs, Programs | None]:
        """The programs of the device that the entry can use, and those of the other folder."""
        if entry.rows not in self._loaded:
            self._loaded.clear()
            own = load_programs(self.data, device=self.device, spec=entry.spec, failures=entry.failures)
            self._loaded[entry.rows] = own, self._others(entry)
        return self._loaded[entry.rows]

    def _others(self, entry: GridEntry) -> Programs | None:
        if self.also:
            return load_programs(self.also, spec=entry.spec, failures=entry.failures)
        if not entry.joint:
            return None
        rest = [name for name in DataFolder.open(self.data).device_ids() if name != self.device]
        return load_programs(self.data, device=rest, spec=entry.spec, failures=entry.failures)

    def sides(self, part: SplitPart, entry: GridEntry, seed: int) -> tuple[Programs, Programs]:
        """The programs to learn from and to test on; no tested workload is learned from, on any device.

        What a joint entry learns from other devices is of the split's workloads to learn from: the folder may have
        more, which another split holds out.
        """
        own, other = self._some(entry, part) if self.each else self.programs(entry)
        if other is not None and not self.also:
            train = Programs.join([side.of_workloads(set(part.train)) for side in (own, other)])
            train = thinned_evenly(train, entry, seed)
        else:
            train = thinned(own.of_workloads(set(part.train)), entry, seed)
            if other is not None:
                train = Programs.join([train, other.of_workloads(set(other.workload_ids) - part.test - part.untouched)])
        return train, own.of_workloads(set(part.test)).measured()

    def _some(self, entry: GridEntry, part: SplitPart) -> tuple[Programs, None]:
        """Some programs of each workload to learn from, all of those to test on; no others are read."""
        sides = ((part.train, self.each), (part.test, None))
        loaded = [
            load_programs(
                self.data,
                device=self.device,
                workloads=set(side),
                spec=entry.spec,
                failures=entry.failures,
                per_workload=most,
            )
            for side, most in sides
        ]
        return Programs.join(loaded), None

    def measured(self, part: SplitPart) -> MeasuredRepeats:
        """The measurements of the test side, without features."""
        where = pc.field("workload_id").isin(sorted(part.test)) & (pc.field("status") == "ok")
        folder = DataFolder.open(self.data)
        table = folder.select_measurements([self.device], ["workload_id", "run_s"], where)
        return MeasuredRepeats.of(table, device_id=self.device)

    def median_gap(self) -> float | None:
        """Median difference between two passes over the device's programs; None if not measured."""
        rows = json.loads(NOISE.read_text())["rows"] if NOISE.exists() else []
        return next((row["median_gap"] for row in rows if row["device"] == self.device), None)

    def parts(self, names: Sequence[str], seed: int) -> Iterator[SplitPart]:
        """The splits of these names; `fold-N` for N folds drawn with `seed`, and those of FIGURE_9 and VALIDATION.

        `validation-N` holds out N workloads, drawn with `seed`; `validation-N-seedS` is the draw of S for every seed.
        """
        for name in names:
            if re.fullmatch(r"fold-\d+", name):
                yield from folds(self.about, int(name.removeprefix("fold-")), seed)
            elif name in FIGURE_9:
                yield self._figure_9(name)
            elif found := VALIDATION.fullmatch(name):
                yield self._validation(name, int(found["count"]), int(found["seed"] or seed))
            else:
                split = load_split(self.data, name)
                yield SplitPart(name, 0, frozenset(split.train), frozenset(split.test))

    def default_splits(self) -> list[str]:
        """The splits by workload and by all TenSet networks that the folder has, or else five folds."""
        kept = [name for name in list_splits(self.data) if name in ("held-out-14", "network-tenset")]
        return kept or ["fold-5"]

    def _validation(self, name: str, count: int, seed: int) -> SplitPart:
        """A split of the training side of MANY, by the rule that made MANY; what MANY tests on is on neither side."""
        whole = load_split(self.data, MANY)
        about = [row for row in self.about if row["workload_id"] in whole.train]
        test = frozenset(split_by_workload(about, held_out=count, seed=seed).test)
        return SplitPart(name, 0, frozenset(whole.train) - test, test, untouched=frozenset(whole.test))

    def _figure_9(self, name: str) -> SplitPart:
        by_name = {row["name"]: row for row in self.about}
        train = {by_name[n]["workload_id"] for n in FIRST_SIX if n in by_name}
        test = {
            row["workload_id"]
            for row in self.about
            if row["name"] in FIGURE_9[name] or (name.endswith("matmul") and row["operator"] == "matmul")
        }
        return SplitPart(name, 0, frozenset(train), frozenset(test))


def thinned(train: Programs, entry: GridEntry, seed: int) -> Programs:
    """A share of the programs of every workload, or some workloads: a larger share holds the smaller."""
    rng = np.random.default_rng(seed)
    if entry.workloads is not None:
        present = sorted(train.workload_ids[i] for i in np.unique(train.workload))
        train = train.of_workloads(set(rng.permutation(present)[: entry.workloads].tolist()))
    if entry.share < 1.0:
        most = np.maximum(2, entry.share * np.bincount(train.group))[train.group]
        train = train.select(np.flatnonzero(drawn_places(train, rng) < most))
    return train


def thinned_evenly(train: Programs, entry: GridEntry, seed: int) -> Programs:
    """The entry's share of every device's programs, or of the workloads: a larger share holds the smaller.

    A share of programs is one of each workload on each device. Where that would be fewer than two programs, of which
    a model learns nothing, the share is one of the workloads of the device, with two programs each.
    """
    rng = np.random.default_rng(seed)
    if entry.workload_share < 1.0:
        train = train.of_workloads(_some_workloads(train, entry.workload_share, rng))
    if entry.share < 1.0:
        train = train.select(_is_in_share(train, entry.share, rng))
    return train


def _is_in_share(programs: Programs, share: float, rng: np.random.Generator) -> BoolArray:
    """(n,) whether each program is in the share of its device."""
    place = drawn_places(programs, rng)
    group = programs.group
    first = np.unique(group, return_index=True)[1]
    rank = _ranks(programs.device[first], rng)
    wanted = share * np.bincount(group)
    # A fraction of a program is one whole program in that fraction of the groups.
    most = np.where(wanted < 2, 2 * (rank < wanted / 2), np.floor(wanted) + (rank < wanted % 1))
    is_in: BoolArray = place < most[group]
    return is_in


def _some_workloads(programs: Programs, share: float, rng: np.random.Generator) -> set[str]:
    """A share of the workloads, and about the same share of those of every device; at least one.

    Which ones depends on ids, not on the order of workloads or devices.
    """
    ran = np.zeros((len(programs.workload_ids), len(programs.device_ids)), dtype=bool)
    ran[programs.workload, programs.device] = True
    present = sorted(np.flatnonzero(ran.any(axis=1)).tolist(), key=lambda number: programs.workload_ids[number])
    devices = sorted(range(len(programs.device_ids)), key=lambda number: programs.device_ids[number])
    # Workloads of one kind were measured on the same devices.
    kind = np.unique(ran[np.ix_(present, devices)], axis=0, return_inverse=True)[1].reshape(-1)
    rank = _ranks(kind, rng)
    order = rng.permutation(len(present))
    order = order[np.argsort(rank[order], kind="stable")]
    count = max(1, round(share * len(present)))
    return {programs.workload_ids[present[place]] for place in order[:count]}


def _ranks(kind: npt.NDArray[np.integer], rng: np.random.Generator) -> npt.NDArray[np.float64]:
    """(n,) numbers between 0 and 1: equally spaced among the members of each kind, in a random order."""
    rank = np.empty(len(kind))
    for number in np.unique(kind):
        own = np.flatnonzero(kind == number)
        rank[own] = (rng.permutation(len(own)) + 0.5) / len(own)
    return rank
