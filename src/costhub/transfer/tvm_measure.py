"""Provides costhub's builder and runner in the form that MetaSchedule's task scheduler calls."""

from __future__ import annotations

import math
import statistics
from collections.abc import Sequence
from typing import Any

from tvm.ir.utils import derived_object
from tvm.s_tir.meta_schedule.builder import BuilderResult, PyBuilder
from tvm.s_tir.meta_schedule.runner import PyRunner, PyRunnerFuture, RunnerResult

from costhub.collector.arguments import Arguments
from costhub.collector.builder import Builder
from costhub.collector.timer import Timer
from costhub.dataset.workload import module_to_json


@derived_object
class TvmBuilder(PyBuilder):  # type: ignore[misc]  # TVM's base is untyped
    """Builds in processes that stay; see `costhub.collector.builder`."""

    def __init__(self, builder: Builder) -> None:
        super().__init__()
        self.builder = builder

    def build(self, build_inputs: list[Any]) -> list[Any]:
        """One result per input; a failed build carries its error text."""
        built = self.builder.build([module_to_json(i.mod) for i in build_inputs])
        return [BuilderResult(b.artifact, b.error) for b in built]


@derived_object
class _Finished(PyRunnerFuture):  # type: ignore[misc]
    """A result that is there already."""

    def __init__(self, outcome: Any) -> None:
        super().__init__()
        self.outcome = outcome

    def done(self) -> bool:
        return True

    def result(self) -> Any:
        return self.outcome


@derived_object
class TvmRunner(PyRunner):  # type: ignore[misc]
    """Times programs while TVM waits, so that nothing computes beside a measurement."""

    def __init__(self, runner: Timer) -> None:
        super().__init__()
        self.runner = runner

    def run(self, runner_inputs: list[Any]) -> list[Any]:
        """One finished future per input."""
        programs = [(str(each.artifact_path), runner_arguments(each.args_info)) for each in runner_inputs]
        outcomes = sorted(self.runner.run_each(programs), key=lambda outcome: outcome[0])
        return [_Finished(RunnerResult(list(ran.run_s) or None, ran.error)) for _, ran in outcomes]


def runner_arguments(args_info: Sequence[Any]) -> Arguments:
    """What a program takes, as the runner wants it."""
    return tuple((str(info.dtype), tuple(int(extent) for extent in info.shape)) for info in args_info)


def latency_of(result: Any) -> float:
    """Median seconds of a ``ms.runner.RunnerResult``; infinite for a run that failed."""
    if result.error_msg is not None or not result.run_secs:
        return math.inf
    return statistics.median(float(s) for s in result.run_secs)
