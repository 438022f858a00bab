"""Provides make_queue: the workloads of a collection, counting what a folder already holds of each."""

from __future__ import annotations

import json
import logging
import statistics
from collections.abc import Callable, Sequence, Set
from dataclasses import dataclass, field
from functools import cached_property, partial
from typing import Any, Protocol

from costhub.collector.measurer import BuiltReference, MeasureResult
from costhub.collector.propose.isolated_sampler import ProgramSampler
from costhub.collector.propose.sampler import Program, Scorer, Shares
from costhub.collector.propose.spaces import DEFAULT, is_own
from costhub.dataset.folder import DataFolder, among
from costhub.dataset.intrinsics import load_intrinsics, names_intrinsics
from costhub.dataset.trace import replay
from costhub.dataset.workload import join_networks, module_from_json, module_to_json, workload_row
from costhub.errors import WorkloadError
from costhub.isolation.child import ChildError
from costhub.isolation.tvm_children import tvm_child
from costhub.terminal_text import counted

log = logging.getLogger("costhub")
PARENTS = 8
_REPLAY_S = 60.0


class WorkloadSpec(Protocol):
    """A workload as the collector takes it, from a suite or a network."""

    @property
    def name(self) -> str:
        """Its readable name."""

    @property
    def family(self) -> str:
        """Its operator family."""

    @property
    def networks(self) -> tuple[tuple[str, float], ...]:
        """The networks that it occurs in, and how often in each."""

    def module(self) -> Any:
        """The workload as a ``tvm.IRModule``."""


@dataclass
class QueuedWorkload:
    """One workload under collection."""

    spec: WorkloadSpec
    workload_id: str
    make_sampler: Callable[[], ProgramSampler]
    attempts: int
    """Programs proposed so far, including those already in the folder."""
    good: list[tuple[float, str]]
    """(latency in seconds, trace) of its good measurements on the first device."""
    unchecked: list[tuple[float, str]] = field(default_factory=list)
    """The same of rows that were in the folder, which somebody else may have written; none is replayed here yet."""
    target_kind: str = "llvm"
    exhausted: bool = False
    problem: str | None = None
    """Why TVM, or the user's design space, cannot schedule the workload."""
    reference: BuiltReference | None = None
    """The reference that outputs are compared with; None until it is built, or if they are not compared."""
    has_no_reference: bool = False
    """Whether the workload's default program cannot be built, so that its outputs are not compared."""

    @cached_property
    def sampler(self) -> ProgramSampler:
        """The design space, built on first use: a hundred of them take a minute."""
        return self.make_sampler()

    def propose(self, count: int, *, shares: Shares, scorer: Scorer | None) -> list[Program]:
        """The next programs; none if the design space is exhausted or cannot be built (`problem`)."""
        self._check_parents()
        parents = [trace for _, trace in sorted(self.good)[:PARENTS]]
        try:
            programs = self.sampler.propose(count, parents=parents, shares=shares, scorer=scorer)
        except WorkloadError as error:
            programs, self.problem = [], str(error)
        if not programs and not self.attempts and self.problem is None:
            self.problem = "TVM rejected every program drawn from the design space of this workload."
        self.attempts += len(programs)
        self.exhausted = not programs
        return programs

    def forget_sampler(self) -> None:
        """Frees the design space and what was drawn from it, which takes megabytes: no more programs are wanted.

        A space of one's own stays in the child that holds it.
        """
        self.__dict__.pop("sampler", None)

    def _check_parents(self) -> None:
        """Replays the best rows of the folder in a child first: a trace from elsewhere may crash TVM."""
        best, self.unchecked = sorted(self.unchecked)[:PARENTS], []
        if best:
            module = module_to_json(self.spec.module())
            fits = _replayable(module, [trace for _, trace in best], self.target_kind)
            self.good += [each for each, fine in zip(best, fits, strict=True) if fine]

    def note(self, program: Program, result: MeasureResult) -> None:
        """Records what the next proposals need."""
        if result.run_s:
            self.good.append((statistics.median(result.run_s), program.trace))

    @property
    def best_us(self) -> float | None:
        """Best latency so far, in microseconds."""
        known = [*self.good, *self.unchecked]
        return min(known)[0] * 1e6 if known else None


def make_queue(
    workloads: Sequence[WorkloadSpec],
    folder: DataFolder,
    *,
    device_id: str,
    target: dict[str, Any],
    open_sampler: Callable[..., ProgramSampler],
    space: str,
    seed: int,
) -> list[QueuedWorkload]:
    """Queues each workload once, counting what `folder` already holds of it.

    Args:
        workloads: The workloads to measure.
        folder: The folder with the existing measurements.
        device_id: The first device.
        target: The TVM target.
        open_sampler: The factory that `open_samplers` yields for `space`.
        space: Name of the design space.
        seed: Seeds all draws.

    Raises:
        DataError: The folder holds something unreadable.
    """
    queue: dict[str, QueuedWorkload] = {}
    put = put_workloads(workloads, folder)
    held = _measured(folder, device_id, {key for key, _ in put})
    strange = sum((row["space"] or DEFAULT) != space for rows in held.values() for row in rows)
    if strange:
        log.warning(
            "%s already holds %s of these workloads from design spaces other than %s. They count as trials, so fewer "
            "new programs are measured, or none. To collect from %s only, choose another folder.",
            *(folder.path, counted(strange, "program"), space, space),
        )
    for position, (workload, (key, mod)) in enumerate(zip(workloads, put, strict=True)):
        if key in queue:
            continue
        before = held.get(key, [])
        # The seed advances with the existing programs, or a resumed run would draw the same programs again.
        make_sampler = partial(
            open_sampler,
            mod,
            json.dumps(target),
            seed=seed + 1000 * position + len(before),
            seen=frozenset(r["program_id"] for r in before),
        )
        # Programs of another design space cannot be parents: their mutations would belong to that space as well.
        good = [
            (statistics.median(r["run_s"]), r["trace"])
            for r in before
            if r["status"] == "ok" and r["run_s"] and (r["space"] or DEFAULT) == space
        ]
        queued = QueuedWorkload(workload, key, make_sampler, len(before), [], good, str(target["kind"]))
        if is_own(space):  # Such a space's sampler runs in a child itself, which has what its traces may need.
            queued.good, queued.unchecked = good, []
        queue[key] = queued
    return list(queue.values())


def put_workloads(workloads: Sequence[WorkloadSpec], folder: DataFolder) -> list[tuple[str, Any]]:
    """Writes the rows of workloads into a folder, each with the networks of its row there as well.

    Args:
        workloads: A kernel that two networks contain, or a network and a suite, occurs twice.
        folder: Where the rows go.

    Returns:
        The id of each workload, and its module, which takes time to make.
    """
    rows: dict[str, dict[str, Any]] = {}
    found = []
    for each in workloads:
        mod = each.module()
        try:
            row = workload_row(mod, name=each.name, operator=each.family, networks=each.networks)
        except WorkloadError as error:
            raise WorkloadError(f"{each.name} cannot be measured. {error}") from error
        key = row["workload_id"]
        found.append((key, mod))
        if key in rows:
            rows[key]["networks"] = join_networks(row["networks"], rows[key]["networks"])
        else:
            rows[key] = row
    # Only now: the modules take minutes to make, and another collection may write its networks meanwhile.
    stored_rows = folder.workloads(["workload_id", "networks"]).to_pylist()
    stored = {row["workload_id"]: row["networks"] for row in stored_rows}
    for key, row in rows.items():
        row["networks"] = join_networks(stored.get(key), row["networks"])
    folder.put_workloads(list(rows.values()))
    return found


def _replayable(module_json: str, traces: Sequence[str], target_kind: str) -> list[bool]:
    """Which traces TVM replays on a module; none if it crashes on them."""
    with tvm_child() as child:
        try:
            return child.call(which_replay, module_json, tuple(traces), target_kind, timeout_s=_REPLAY_S)
        except ChildError:
            return [False] * len(traces)


def which_replay(module_json: str, traces: Sequence[str], target_kind: str) -> list[bool]:
    """Which traces TVM replays on a module; called in a child."""
    mod, found = module_from_json(module_json), []
    for trace in traces:
        try:
            if names_intrinsics(trace):
                load_intrinsics(target_kind)
            replay(mod, trace)
        except Exception:  # whatever TVM raises for a stranger's trace
            found.append(False)
        else:
            found.append(True)
    return found


def next_workload(queue: Sequence[QueuedWorkload], trials: int) -> QueuedWorkload | None:
    """The workload with the fewest programs; None if all have reached their trials or are exhausted."""
    unfinished = [each for each in queue if each.attempts < trials and not each.exhausted]
    return min(unfinished, key=lambda each: each.attempts, default=None)


def _measured(folder: DataFolder, device_id: str, workload_ids: Set[str]) -> dict[str, list[dict[str, Any]]]:
    """Workload -> its rows; those of others, which may be a million with long traces, are not read."""
    columns = ["workload_id", "program_id", "status", "run_s", "trace", "space"]
    by_workload: dict[str, list[dict[str, Any]]] = {}
    where = among("workload_id", sorted(workload_ids))
    for row in folder.select_measurements([device_id], columns, where).to_pylist():
        by_workload.setdefault(row["workload_id"], []).append(row)
    return by_workload
