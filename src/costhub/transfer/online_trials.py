"""Provides OnlineTrials: trials that are measured on a device while a model learns from them."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import islice
from typing import Any

import numpy as np
import pyarrow.compute as pc

from costhub.collector.collect import CollectionProgress, Proposals, collect
from costhub.collector.measurer import Measurer
from costhub.collector.propose.sampler import Shares
from costhub.collector.session import Rights
from costhub.collector.workload_queue import QueuedWorkload, WorkloadSpec
from costhub.dataset.folder import DataFolder
from costhub.dataset.load import load_programs
from costhub.dataset.programs import Programs
from costhub.dataset.workload import workload_id
from costhub.transfer.trial_order import BATCH_SIZE, PER_WORKLOAD, times_seen_before

NO_LIMIT_S = math.inf
HELD_OUT_SHARE = 8
"""One in this many trials is held out to evaluate the model, if there are enough of them."""


@dataclass
class OnlineTrials:
    """Random programs of some workloads, measured batch by batch; what a folder holds is not measured again.

    Workloads come in random order, some programs of each before the next one (see `round_robin`), and every row
    is safe in the folder before the next program runs. Asking for the batches again, after an interruption or
    for other features, therefore yields the same programs first, and new ones from where the last run stopped.

    Args:
        workloads: The workloads to draw programs from.
        folder: Where the rows go.
        measurer: Builds and measures programs; if it has several devices, the first one counts.
        trials: How many programs to measure, including failures; fewer if the workloads have no more.
        seed: Seed of the order and the programs.
        rights: Contributor and licence of the rows.
        on_row: Called with each new row.
    """

    workloads: Sequence[WorkloadSpec]
    folder: DataFolder
    measurer: Measurer
    trials: int
    seed: int = 0
    rights: Rights = field(default_factory=Rights)
    on_row: Callable[[QueuedWorkload, dict[str, Any], CollectionProgress], None] = lambda *_: None
    problems: dict[str, str] = field(default_factory=dict)
    """Why a workload was given up, by its name."""
    held: int = 0
    """Programs of the batches so far, including those that failed or were there already."""
    failed: int = 0
    """How many of them failed."""
    _measured: int = 0
    _measured_s: float = 0.0

    def split(self) -> tuple[OnlineTrials, OnlineTrials | None]:
        """Trials to learn from, and trials of other workloads to evaluate with: an eighth, in whole batches.

        The second is None if there are fewer than eight batches or too few workloads: a smaller test would
        say little.
        """
        held_out = BATCH_SIZE * (self.trials // (HELD_OUT_SHARE * BATCH_SIZE))
        count = held_out // PER_WORKLOAD
        if not held_out or len(self.workloads) < 2 * count:
            return self, None
        order = np.random.default_rng(self.seed + 1).permutation(len(self.workloads))
        test, learn = ([self.workloads[i] for i in sorted(part)] for part in (order[:count], order[count:]))
        return (
            replace(self, workloads=learn, trials=self.trials - held_out),
            replace(self, workloads=test, trials=held_out),
        )

    @property
    def device_id(self) -> str:
        """The device that is measured."""
        return self.measurer.devices[0].device_id

    @property
    def seconds_each(self) -> float:
        """Seconds that building and measuring a program took; 0 if all were there already."""
        return self._measured_s / self._measured if self._measured else 0.0

    def first(self, spec: str) -> Programs:
        """The first batch, to choose a source by.

        Raises:
            CosthubError: As for `batches`.
        """
        return next(self.batches(spec))

    def batches(self, spec: str) -> Iterator[Programs]:
        """Measures batch after batch.

        Args:
            spec: Name of the feature spec.

        Yields:
            The programs of a batch that ran, with features; there may be none.

        Raises:
            DataError: The folder holds something unreadable, or a collection is writing to it.
            MeasureError: The device no longer runs the reference kernel.
            UnknownNameError: No feature spec has this name.
        """
        self.held = self.failed = 0
        left, each = self.trials, max(PER_WORKLOAD, math.ceil(self.trials / len(self.workloads)))
        order = iter(np.random.default_rng(self.seed).permutation(len(self.workloads)))
        size = max(1, BATCH_SIZE // each)
        while left > 0 and (places := list(islice(order, min(size, math.ceil(left / each))))):
            group = [self.workloads[place] for place in places]
            asked: dict[str, int] = {}
            for count, part in _workload_shares(group, each, left):
                self._measure(part, count)
                asked |= {workload_id(workload.module()): count for workload in part}
            ran, held = self._counts(asked)
            self.held, self.failed, left = self.held + held, self.failed + held - sum(ran.values()), left - held
            found = load_programs(
                self.folder.path, device=self.device_id, workloads=set(asked), spec=spec, progress=False
            )
            most = np.array([ran[key] for key in found.workload_ids])
            yield found.select(np.flatnonzero(times_seen_before(found.workload) < most[found.workload]))

    def _measure(self, group: Sequence[WorkloadSpec], each: int) -> None:
        """Measures until the folder holds this many programs of each workload, or all that the workload has."""
        progress = collect(
            group,
            self.folder,
            measurer=self.measurer,
            rights=self.rights,
            budget_s=NO_LIMIT_S,
            on_row=self.on_row,
            proposals=Proposals(each, Shares(random=1, mutation=0), seed=self.seed),
        )
        self.problems.update(progress.problems)
        if progress.done:
            self._measured_s += progress.profile.wall_s
            self._measured += progress.done

    def _counts(self, asked: Mapping[str, int]) -> tuple[dict[str, int], int]:
        """Of the first programs of each workload: how many ran, and how many there are of all workloads together.

        Args:
            asked: Workload id -> how many programs count; a folder that was there before may hold thousands.
        """
        where = pc.field("workload_id").isin(sorted(asked))
        rows = self.folder.select_measurements([self.device_id], ["workload_id", "status"], where)
        statuses: dict[str, list[str]] = {key: [] for key in asked}
        for key, status in zip(rows["workload_id"].to_pylist(), rows["status"].to_pylist(), strict=True):
            if len(statuses[key]) < asked[key]:
                statuses[key].append(status)
        return {key: own.count("ok") for key, own in statuses.items()}, sum(map(len, statuses.values()))


def distinct_workloads(workloads: Sequence[WorkloadSpec]) -> list[WorkloadSpec]:
    """Each workload once, under its last name: a kernel of a network may be part of a suite, too.

    Example:
        >>> from costhub.collector.workloads.suites import SuiteWorkload
        >>> twice = [SuiteWorkload(name, "matmul", (8, 8, 8)) for name in ("one", "again")]
        >>> [workload.name for workload in distinct_workloads(twice)]
        ['again']
    """
    return list({workload_id(workload.module()): workload for workload in workloads}.values())


def _workload_shares(
    group: Sequence[WorkloadSpec], each: int, left: int
) -> Iterator[tuple[int, Sequence[WorkloadSpec]]]:
    """(number of programs, workloads): `each` of all, except that the last one gets what is left."""
    full = min(len(group), left // each)
    if full:
        yield each, group[:full]
    if full < len(group):
        yield left - full * each, group[full:]
