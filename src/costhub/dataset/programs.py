"""Provides Programs: programs with their features and latencies, as arrays for models to learn from."""

from __future__ import annotations

import dataclasses
import functools
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, cast

import numpy as np
import numpy.typing as npt

if TYPE_CHECKING:
    import pyarrow as pa

FloatArray = npt.NDArray[np.float32]
IntArray = npt.NDArray[np.int64]
BoolArray = npt.NDArray[np.bool_]


@dataclass(frozen=True)
class WorkloadUse:
    """Describes a workload and where it occurs."""

    operator: str
    """Its operator family."""
    networks: Mapping[str, float] = field(default_factory=dict)
    """Network -> how often it uses the workload."""
    name: str = ""
    """A readable name."""


def workload_uses(workloads: pa.Table) -> dict[str, WorkloadUse]:
    """Maps each workload id to its family, networks and name.

    Args:
        workloads: The workloads table, with `workload_id`, `operator`, `networks` and, if there are names, `name`.

    Example:
        >>> import pyarrow as pa
        >>> networks = [[{"name": "resnet-18", "weight": 2.0}]]
        >>> workload_uses(pa.table({"workload_id": ["w"], "operator": ["conv"], "networks": networks}))["w"]
        WorkloadUse(operator='conv', networks={'resnet-18': 2.0}, name='')
    """
    wanted = ("workload_id", "operator", "networks", "name")
    rows = workloads.select([name for name in wanted if name in workloads.column_names]).to_pylist()
    return {
        row["workload_id"]: WorkloadUse(
            row["operator"], {n["name"]: n["weight"] for n in row["networks"] or ()}, row.get("name") or ""
        )
        for row in rows
    }


@dataclass(frozen=True, repr=False)
class Programs:
    """Programs of one or more devices with their features and latencies.

    Latencies are only comparable within a group, i.e. the programs of one workload on one device.

    Example:
        >>> features, latency_s = [np.ones((2, 3)), np.zeros((1, 3))], np.array([1e-3, 2e-3])
        >>> p = Programs.from_list(features, np.array([0, 0]), ("w",), latency_s)
        >>> p.n, p.rows.shape, p.throughput().tolist()
        (2, (3, 3), [1.0, 0.5])
        >>> p
        Programs(2 of 1 workloads, with 3 rows)
    """

    rows: FloatArray
    """(r, d) feature rows of all programs, in the order of the programs; the spec defines the meaning of a row."""
    counts: IntArray
    """(n,) number of rows of each program; may be 0."""
    workload: IntArray
    """(n,) index into `workload_ids`."""
    workload_ids: tuple[str, ...]
    latency_s: npt.NDArray[np.float64]
    """(n,) median latency in seconds, positive; infinite for a program that failed."""
    spec: str = ""
    """Name of the feature spec of the rows; empty if they follow none of costhub's."""
    # Never None once the object is built, so readers need not check.
    device: IntArray = None  # type: ignore[assignment]
    """(n,) index into `device_ids`; all 0 by default."""
    device_ids: tuple[str, ...] = ("",)
    uses: Mapping[str, WorkloadUse] = field(default_factory=dict)
    """Workload id -> its description; empty if unknown."""

    def __repr__(self) -> str:
        """A one-line summary: numbers of programs, workloads, devices and rows, without the arrays."""
        workloads = len(np.unique(self.workload))
        devices = ", ".join(self.measured_on)
        where, layout = f" on {devices}" if devices else "", f" of {self.spec}" if self.spec else ""
        return f"Programs({self.n:,} of {workloads} workloads{where}, with {len(self.rows):,} rows{layout})"

    def __post_init__(self) -> None:
        if cast("IntArray | None", self.device) is None:
            object.__setattr__(self, "device", np.zeros(len(self.counts), np.int64))
        if self.rows.ndim != 2 or int(self.counts.sum()) != len(self.rows):
            raise ValueError(
                f"rows must be (r, d) with r = counts.sum() = {int(self.counts.sum())}, got shape {self.rows.shape}."
            )
        if len({len(self.counts), len(self.workload), len(self.latency_s), len(self.device)}) > 1:
            raise ValueError("counts, workload, latency_s and device must have one entry per program.")

    @classmethod
    def from_list(
        cls,
        features: list[npt.NDArray[np.floating]],
        workload: IntArray,
        workload_ids: tuple[str, ...],
        latency_s: npt.NDArray[np.float64],
    ) -> Programs:
        """Builds the set from one (rows, d) array per program."""
        counts = np.array([len(f) for f in features], dtype=np.int64)
        rows = np.concatenate(features).astype(np.float32) if features else np.zeros((0, 0), np.float32)
        return cls(rows, counts, np.asarray(workload, np.int64), workload_ids, np.asarray(latency_s, np.float64))

    @classmethod
    def join(cls, parts: Sequence[Programs]) -> Programs:
        """Joins the programs of several parts, in order; equal ids are the same workload or device.

        Raises:
            ValueError: `parts` is empty, or the parts differ in feature spec or in the width of the rows.

        Example:
            >>> a = Programs.from_list([np.ones((1, 2))], np.array([0]), ("w",), np.array([1e-3]))
            >>> b = dataclasses.replace(a, latency_s=np.array([2e-3]), device_ids=("cpu1",))
            >>> both = Programs.join([a, b])
            >>> both.workload_ids, both.device.tolist(), both.throughput().tolist()
            (('w',), [0, 1], [1.0, 1.0])
        """
        layouts = sorted({(part.spec, part.rows.shape[1]) for part in parts})
        if len(layouts) != 1:
            raise ValueError(f"Only programs of one spec and width can be joined, got {layouts}.")
        if len(parts) == 1:
            return parts[0]
        workload_ids, workload = _union([(part.workload_ids, part.workload) for part in parts])
        device_ids, device = _union([(part.device_ids, part.device) for part in parts])
        return cls(
            np.concatenate([part.rows for part in parts]),
            np.concatenate([part.counts for part in parts]),
            workload,
            workload_ids,
            np.concatenate([part.latency_s for part in parts]),
            parts[0].spec,
            device,
            device_ids,
            {name: use for part in parts for name, use in part.uses.items()},
        )

    @property
    def n(self) -> int:
        """Number of programs."""
        return len(self.counts)

    @property
    def measured_on(self) -> tuple[str, ...]:
        """Sorted ids of the devices that at least one of the programs ran on; `device_ids` may name more."""
        return tuple(sorted({self.device_ids[number] for number in np.unique(self.device)} - {""}))

    @property
    def is_ok(self) -> BoolArray:
        """(n,) whether each program ran and was measured; the others failed."""
        return np.isfinite(self.latency_s)

    @functools.cached_property
    def group(self) -> IntArray:
        """(n,) index of each program's pair of workload and device.

        Only pairs that have programs are numbered, from 0, by workload and then by device.
        """
        pair = self.workload * len(self.device_ids) + self.device
        # Not np.unique, which would sort a million programs to find a hundred pairs.
        used = np.zeros(len(self.workload_ids) * len(self.device_ids), dtype=bool)
        used[pair] = True
        group: IntArray = (np.cumsum(used, dtype=np.int64) - 1)[pair]
        return group

    def throughput(self) -> npt.NDArray[np.float64]:
        """(n,) best latency of the program's group / its own: 1 for the best program, 0 for a failed one."""
        best, _ = self._extremes_s()
        relative = np.zeros(self.n)
        np.divide(best[self.group], self.latency_s, out=relative, where=self.is_ok)
        return relative

    def informative(self) -> BoolArray:
        """(number of `workload_ids`,) whether the latencies in some group of the workload differ."""
        best, worst = self._extremes_s()
        informative = np.zeros(len(self.workload_ids), dtype=bool)
        informative[self.workload[(best < worst)[self.group]]] = True
        return informative

    def _extremes_s(self) -> tuple[npt.NDArray[np.float64], npt.NDArray[np.float64]]:
        """(groups,) lowest and highest measured latency; inf and -inf if all failed."""
        groups = int(self.group.max(initial=-1)) + 1
        best, worst = np.full(groups, np.inf), np.full(groups, -np.inf)
        group, latency_s = self.group[self.is_ok], self.latency_s[self.is_ok]
        np.minimum.at(best, group, latency_s)
        np.maximum.at(worst, group, latency_s)
        return best, worst

    def select(self, index: npt.NDArray[np.integer] | BoolArray) -> Programs:
        """Selects the programs at `index` (positions or a mask), in that order.

        Indices of workloads and devices stay the same.
        """
        positions = np.flatnonzero(index) if np.asarray(index).dtype == bool else np.asarray(index, np.int64)
        starts = np.concatenate([[0], np.cumsum(self.counts)])
        counts = self.counts[positions]
        return dataclasses.replace(
            self,
            rows=self.rows[row_numbers(starts[positions], counts)],
            counts=counts,
            workload=self.workload[positions],
            latency_s=self.latency_s[positions],
            device=self.device[positions],
        )

    def measured(self) -> Programs:
        """Selects the programs that did not fail."""
        return self if self.is_ok.all() else self.select(self.is_ok)

    def of_workloads(self, ids: Collection[str]) -> Programs:
        """Selects the programs whose workload is in `ids`, or is the single one named."""
        return self.select(is_among(ids, self.workload_ids)[self.workload])

    def of_devices(self, ids: Collection[str]) -> Programs:
        """Selects the programs whose device is in `ids`, or is the single one named."""
        return self.select(is_among(ids, self.device_ids)[self.device])

    def at_most(self, count: int, *, seed: int) -> Programs:
        """Draws at most `count` programs of each workload on each device at random, keeping their order.

        With the same seed, a larger count includes the programs of a smaller one.

        Raises:
            ValueError: `count` is less than 1.

        Example:
            >>> p = Programs.from_list([np.ones((1, 2))] * 5, np.array([0, 0, 0, 0, 1]), ("a", "b"), np.ones(5))
            >>> p.at_most(2, seed=0).workload.tolist()
            [0, 0, 1]
        """
        if count < 1:
            raise ValueError(f"count must be at least 1, got {count}.")
        return self.select(drawn_places(self, np.random.default_rng(seed)) < count)

    def split_off(self, share: float, *, seed: int) -> tuple[Programs, Programs | None]:
        """Holds out whole workloads, on all devices, to decide when to stop training.

        Only informative workloads are held out. At least two are held out and at least two remain; with fewer than
        four informative workloads nothing is held out.

        Args:
            share: Share of the informative workloads to hold out, in [0, 1); 0 holds out nothing.
            seed: Chooses them; the same seed chooses the same workloads whatever the order of the ids.

        Returns:
            The remaining programs, and those held out, or None.

        Example:
            >>> rows, ids = [np.ones((1, 2))] * 8, ("a", "b", "c", "d")
            >>> p = Programs.from_list(rows, np.arange(8) // 2, ids, np.arange(1.0, 9.0))
            >>> rest, valid = p.split_off(0.2, seed=0)
            >>> rest.n, valid.n
            (4, 4)
        """
        if not 0 <= share < 1:
            raise ValueError(f"share must be in [0, 1), got {share}.")
        names = sorted(np.array(self.workload_ids, dtype=object)[self.informative()])
        held_out = min(max(round(share * len(names)), 2), len(names) - 2)
        if share == 0 or held_out < 2:
            return self, None
        chosen = np.random.default_rng(seed).permutation(len(names))[:held_out]
        is_held_out = is_among({names[i] for i in chosen}, self.workload_ids)[self.workload]
        return self.select(~is_held_out), self.select(is_held_out)


def drawn_places(programs: Programs, rng: np.random.Generator) -> IntArray:
    """(n,) position of each program among those of its workload and device, counted from 0 in a random order."""
    draw = rng.permutation(programs.n)
    order = draw[np.argsort(programs.group[draw], kind="stable")]
    sizes = np.bincount(programs.group)
    place = np.empty(programs.n, np.int64)
    place[order] = np.arange(programs.n) - np.repeat(np.cumsum(sizes) - sizes, sizes)
    return place


def row_numbers(starts: IntArray, counts: IntArray) -> IntArray:
    """Returns the row numbers of programs that have `counts` rows each, from row `starts` on.

    Example:
        >>> row_numbers(np.array([5, 0]), np.array([2, 3])).tolist()
        [5, 6, 0, 1, 2]
    """
    # No loop over programs: each program's start, repeated, plus 0..count-1.
    within = np.arange(int(counts.sum())) - np.repeat(np.cumsum(counts) - counts, counts)
    return np.repeat(starts, counts) + within


def is_among(chosen: Collection[str], ids: Sequence[str]) -> BoolArray:
    """Which of some ids are chosen; a text is a single one, not its letters."""
    chosen = {chosen} if isinstance(chosen, str) else set(chosen)
    return np.array([name in chosen for name in ids], dtype=bool)


def _union(parts: Sequence[tuple[tuple[str, ...], IntArray]]) -> tuple[tuple[str, ...], IntArray]:
    """Returns the union of the ids, and the indices of all parts into it."""
    united = tuple(dict.fromkeys(name for ids, _ in parts for name in ids))
    place = {name: number for number, name in enumerate(united)}
    codes = [np.array([place[name] for name in ids], np.int64)[index] for ids, index in parts]
    return united, np.concatenate(codes)
