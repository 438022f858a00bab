"""Provides compare_outputs: builds and runs the programs of a database here, and compares them with their workloads."""

from __future__ import annotations

import heapq
import json
import platform
from collections.abc import Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from itertools import groupby, islice
from typing import Any, TypeAlias

from costhub.collector.build.builder import Builder, BuildResult
from costhub.collector.build.linker import is_this_machine
from costhub.collector.run.evaluator import Arguments, Evaluator
from costhub.collector.run.output_check import DefaultProgram, default_program
from costhub.collector.run.runner import Runner, RunResult
from costhub.dataset.doctor.clean_copy import good_records
from costhub.dataset.doctor.examine import DatabaseWorkload, Examination, GoodRecord
from costhub.dataset.doctor.verdicts import Verdict, Verdicts
from costhub.dataset.intrinsics import load_intrinsics
from costhub.dataset.metaschedule.lines import RECORDS_FILE
from costhub.dataset.trace import replay
from costhub.dataset.workload import argument_shapes, module_from_json, module_to_json, parse_target
from costhub.errors import MeasureError
from costhub.isolation.pool import LostCall
from costhub.isolation.tvm_children import tvm_pool
from costhub.progress import bar

_ONCE = Evaluator(number=1, repeat=1, min_repeat_ms=0)
"""Only outputs matter here."""
_CHUNK = 16
_TIMEOUT_S = 60.0

ReplayedProgram: TypeAlias = tuple[str, Arguments]
"""The scheduled module as JSON, and its arguments."""


@dataclass
class OutputReport:
    """How many programs were compared with their workloads."""

    right: int = 0
    """Programs that compute the same as their workload."""
    wrong: int = 0
    not_run: int = 0
    """Programs that could not be built, run or compared here."""
    known: int = 0
    """Those of `right` and `wrong` that an earlier run compared."""


def compare_outputs(examination: Examination, *, best: int | None = None, progress: bool = True) -> OutputReport:
    """Builds and runs programs of a database, and compares their outputs with those of their unscheduled workloads.

    Marks the records whose programs compute something else, and adds to the findings. Only programs of a CPU target
    that this machine can run are run; one that crashes costs only itself. Comparisons of an interrupted run are
    reused.

    Args:
        examination: Examination of the database, with its schedules replayed.
        best: Compare only this many programs of each workload, the fastest; all by default.
        progress: Show a bar on a terminal.

    Raises:
        DataError: The database has changed since it was examined.
        MeasureError: A child process cannot be started.
    """
    report, chosen = OutputReport(), _chosen(examination, best)
    with (
        ExitStack() as held,
        Verdicts(f"outputs {examination.identity} {platform.node()}") as verdicts,
        bar(len(chosen), desc="comparing outputs", unit="program", enabled=progress) as shown,
    ):
        comparer = _Comparer(examination, report, held, verdicts)
        for targets in _passes(examination, chosen):
            stream = (
                pair for pair in good_records(examination) if pair[0].line in chosen and pair[0].target in targets
            )
            for (number, target), group in groupby(stream, key=lambda pair: (pair[0].workload, pair[0].target)):
                while chunk := list(islice(group, _CHUNK)):
                    comparer.compare(examination.workloads[number], target, chunk)
                    shown.update(len(chunk))
    return report


def _passes(examination: Examination, chosen: set[int]) -> list[set[str]]:
    """The targets of each pass over the records: one that this machine runs at a time, and the others together.

    Each of them needs processes of its own, and a database may have a thousand.
    """
    found = {
        record.target: is_of_this_machine(record.target) for record in examination.records if record.line in chosen
    }
    here = [{target} for target, is_here in found.items() if is_here]
    elsewhere = {target for target, is_here in found.items() if not is_here}
    return [*here, elsewhere] if elsewhere else here


def _chosen(examination: Examination, best: int | None) -> set[int]:
    """The lines of the programs to run; the best are those with the smallest mean, as TVM ranks them."""
    by_workload: dict[int, list[tuple[float, int]]] = {}
    for record in examination.records:
        if record.mean_s is not None:
            first = examination.workloads[record.workload].first
            by_workload.setdefault(first, []).append((record.mean_s, record.line))
    return {
        line
        for programs in by_workload.values()
        for _, line in (programs if best is None else heapq.nsmallest(best, programs))
    }


def is_of_this_machine(target: str) -> bool:
    """Whether this machine can run code built for a target; its processor may still lack some instructions.

    Example:
        >>> is_of_this_machine('{"kind":"cuda"}'), is_of_this_machine('{"kind":"llvm","num-cores":2}')
        (False, True)
    """
    options = json.loads(target)
    triple = options.get("mtriple")
    return options.get("kind") == "llvm" and (not triple or is_this_machine(str(triple)))


@dataclass(frozen=True)
class _Machine:
    """The builder and runner for one target, and the default programs built so far."""

    target: str
    builder: Builder
    runner: Runner
    defaults: dict[int, tuple[DefaultProgram, BuildResult] | str]


class _Comparer:
    """Compares programs of one workload and target at a time."""

    def __init__(self, examination: Examination, report: OutputReport, held: ExitStack, verdicts: Verdicts) -> None:
        self._log, self._report, self._verdicts = examination.log, report, verdicts
        self._pool = held.enter_context(tvm_pool(1))
        self._opened = held.enter_context(ExitStack())
        self._machine: _Machine | None = None

    def compare(self, workload: DatabaseWorkload, target: str, programs: Sequence[tuple[GoodRecord, str]]) -> None:
        """Compares programs of one workload and target."""
        module_json = workload.examined.row["module_json"]
        new = []
        for record, text in programs:
            key = self._verdicts.key(module_json, target + text)
            known = self._verdicts.get(key)
            if known is None:
                new.append((record, text, key))
            else:
                self._report.known += 1
                self._note(record, known.why)
        if not new:
            return
        machine = self._prepared(workload, target)
        if isinstance(machine, str):
            for record, _, _ in new:
                self._not_run(record, machine)
            return
        replayed = [self._pool.call(replayed_program, module_json, target, text) for _, text, _ in new]
        good = [each for each in replayed if isinstance(each, tuple)]
        built = iter(machine.builder.build([module for module, _ in good])) if good else iter(())
        for (record, _, key), program in zip(new, replayed, strict=True):
            if not isinstance(program, tuple):
                self._not_run(record, f"its schedule {program.why}" if isinstance(program, LostCall) else program)
                continue
            self._judge(record, key, _ran(machine, program, next(built)))

    def _prepared(self, workload: DatabaseWorkload, target: str) -> _Machine | str:
        """The machine, on which the workload has run without a schedule; or why that cannot be done here."""
        if not is_of_this_machine(target):
            return "its target is not one that this machine can run"
        machine = self._machine
        if machine is None or machine.target != target:
            self._opened.close()
            builder = self._opened.enter_context(Builder(target, timeout_s=_TIMEOUT_S))
            runner = self._opened.enter_context(Runner(target, evaluator=_ONCE, timeout_s=_TIMEOUT_S))
            machine = self._machine = _Machine(target, builder, runner, {})
        if workload.first not in machine.defaults:
            machine.defaults[workload.first] = self._built_default(machine, workload, target)
        default = machine.defaults[workload.first]
        if isinstance(default, str):
            return default
        program, built = default
        ran = machine.runner.expected(built.artifact or "", program.arguments, reduction=program.reduction)
        return machine if ran.status == "ok" else f"its workload does not run without a schedule here ({ran.error})"

    def _built_default(
        self, machine: _Machine, workload: DatabaseWorkload, target: str
    ) -> tuple[DefaultProgram, BuildResult] | str:
        program = self._pool.call(described_default, workload.examined.row["module_json"], target)
        if isinstance(program, LostCall):
            return f"its workload {program.why}"
        if isinstance(program, str):
            return program
        try:
            [built] = machine.builder.build([program.module_json])
        except MeasureError as error:
            return str(error)
        return (program, built) if built.artifact else f"its workload cannot be built here ({built.error})"

    def _judge(self, record: GoodRecord, key: str, ran: RunResult) -> None:
        if ran.status == "wrong_output" or (ran.status == "ok" and ran.output_checked):
            why = ran.error if ran.status == "wrong_output" else None
            self._verdicts.put([(key, Verdict(why))])
            self._note(record, why)
        else:
            self._not_run(record, f"{ran.status}: {ran.error or 'its outputs cannot be compared'}")

    def _note(self, record: GoodRecord, why: str | None) -> None:
        if why is None:
            self._report.right += 1
            return
        record.is_wrong = True
        self._report.wrong += 1
        self._log.add("DB07", f"{RECORDS_FILE} line {record.line}", why)

    def _not_run(self, record: GoodRecord, why: str) -> None:
        self._report.not_run += 1
        self._log.add("DB19", f"{RECORDS_FILE} line {record.line}", why)


def _ran(machine: _Machine, program: ReplayedProgram, built: BuildResult) -> RunResult:
    if built.artifact is None:
        return RunResult(built.status, (), 0.0, built.error)
    module_json, arguments = program
    try:
        return machine.runner.run(built.artifact, arguments, check=True, module_json=module_json)
    finally:
        built.remove()


# The code below runs in a child.


def described_default(module_json: str, target: str) -> DefaultProgram | str:
    """The program of a workload without a schedule; or a string saying why there is none."""
    try:
        return default_program(module_from_json(module_json), target)
    except Exception as error:  # any kind, from TVM, on an untrusted module
        return str(error)


def replayed_program(module_json: str, target: str, record: str) -> ReplayedProgram | str:
    """The program of a record, which is JSON that begins with the trace; or a string saying why there is none."""
    try:
        load_intrinsics(str(parse_target(target).kind.name))
        schedule: Any = replay(module_from_json(module_json), json.dumps(json.loads(record)[0]))
        return module_to_json(schedule.mod), argument_shapes(schedule.mod)
    except Exception as error:
        return str(error)
