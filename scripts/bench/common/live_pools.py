"""Pools of programs on this machine: drawn at random, built once, and measured as often as a search asks."""

from __future__ import annotations

import json
import statistics
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from typing import NamedTuple

import click
import numpy as np

from costhub.collector.collect import BATCH as TIMED_TOGETHER
from costhub.collector.measurer import BuiltProgram, Measurer
from costhub.collector.propose.sampler import Program, Sampler
from costhub.dataset.features.spec import Features
from costhub.dataset.features.specs import find_spec
from costhub.dataset.programs import FloatArray, Programs
from costhub.dataset.workload import module_from_json
from costhub.search.knobs import Knobs
from costhub.search.replay.workloads import Latencies, ReplayTask, ReplayWorkload

DRAWS = 3
"""Times that the programs still missing from a pool are drawn, since some fail."""
NO_ROWS = np.zeros((0, 0), np.float32)


@dataclass(frozen=True)
class Subject:
    """A workload to search."""

    workload_id: str
    name: str
    module_json: str
    flop: float


class PoolProgram(NamedTuple):
    """A program that has run."""

    program: Program
    built: BuiltProgram
    rows: FloatArray
    """Its features."""
    first_s: float
    """Its latency when the pool was made."""


@dataclass(frozen=True)
class LivePool:
    """Programs of a workload that are built."""

    task: ReplayTask
    """What strategies know about them."""
    each: tuple[PoolProgram, ...]
    measurer: Measurer

    @property
    def first_s(self) -> Latencies:
        """(n,) latencies when the pool was made."""
        return np.array([each.first_s for each in self.each])

    def measure(self, places: Sequence[int]) -> Latencies:
        """Latencies of the programs at these positions, measured now; infinite where one failed."""
        return timed(self.measurer, [self.each[place].built for place in places])


@contextmanager
def open_pool(
    measurer: Measurer, subject: Subject, *, count: int, spec: str | None = None, seed: int = 0
) -> Iterator[LivePool]:
    """Draws programs from TVM's default design space, builds each once and keeps those that run until the block ends.

    Args:
        measurer: Builds and measures; the design space is that of its target.
        subject: The workload.
        count: How many programs; fewer if the design space has no more, or too many fail.
        spec: Feature spec of the programs; None leaves them without rows.
        seed: Of the draws.
    """
    kept: list[PoolProgram] = []
    sampler = Sampler(module_from_json(subject.module_json), json.dumps(measurer.target), seed=seed)
    try:
        for _ in range(DRAWS):
            drawn = sampler.random(count - len(kept))
            if not drawn:
                break
            kept += _running(measurer, sampler.mod, drawn, spec)
        if len(kept) < 2:
            raise click.ClickException(f"Of the programs of {subject.name}, {len(kept)} ran; a search needs two.")
        task = task_of(subject, kept, spec=spec or "", device=measurer.devices[0].device_id)
        yield LivePool(task, tuple(kept), measurer)
    finally:
        for each in kept:
            each.built.build.remove()


def _running(measurer: Measurer, mod: object, drawn: Sequence[Program], spec: str | None) -> list[PoolProgram]:
    """Those of the drawn programs that have features and run."""
    traces, target = [program.trace for program in drawn], json.dumps(measurer.target)
    rows: Features = [NO_ROWS for _ in drawn] if spec is None else find_spec(spec).extract(mod, traces, target)
    builds = measurer.builder.build([program.module_json for program in drawn])
    built = [BuiltProgram(build, program.arguments) for program, build in zip(drawn, builds, strict=True)]
    kept = []
    for program, each, own, first_s in zip(drawn, built, rows, timed(measurer, built).tolist(), strict=True):
        if own is None or not np.isfinite(first_s):
            each.build.remove()
        else:
            kept.append(PoolProgram(program, each, own, first_s))
    return kept


def timed(measurer: Measurer, programs: Sequence[BuiltProgram]) -> Latencies:
    """(n,) median latency of each program in seconds; infinite where it failed."""
    latency_s = np.full(len(programs), np.inf)
    for start in range(0, len(programs), TIMED_TOGETHER):
        for place, result in measurer.measure(programs[start : start + TIMED_TOGETHER]):
            if result.run_s:
                latency_s[start + place] = statistics.median(result.run_s)
    return latency_s


def task_of(subject: Subject, kept: Sequence[PoolProgram], *, spec: str, device: str) -> ReplayTask:
    """What strategies know about programs: everything but their latencies."""
    none, unknown_s = np.zeros(len(kept), np.int64), np.ones(len(kept))
    programs = Programs.from_list([each.rows for each in kept], none, (subject.workload_id,), unknown_s)
    programs = replace(programs, spec=spec, device_ids=(device,))
    return ReplayWorkload.of(programs, [Knobs.read(each.program.trace) for each in kept], name=subject.name).task
