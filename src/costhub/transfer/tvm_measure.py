"""Provides costhub's builder and runner in the form that MetaSchedule's task scheduler calls."""

from __future__ import annotations

import statistics
from collections.abc import Callable
from typing import Any

from tvm.ir.utils import derived_object
from tvm.s_tir.meta_schedule.builder import BuilderResult, PyBuilder
from tvm.s_tir.meta_schedule.runner import PyRunner, PyRunnerFuture, RunnerResult

from costhub.collector.builder import Builder
from costhub.collector.runner import Runner
from costhub.dataset.workload import module_to_json
from costhub.transfer.stages import BUILDING, RUNNING, Stages

OnTrial = Callable[[float | None], None]
"""Told of each trial: its latency in seconds, None for a failure."""


@derived_object
class TvmBuilder(PyBuilder):  # type: ignore[misc]  # TVM's base is untyped
    """Builds in processes that stay; see `costhub.collector.builder`."""

    def __init__(self, builder: Builder, on_trial: OnTrial, stages: Stages | None = None) -> None:
        super().__init__()
        self.builder = builder
        self.on_trial = on_trial
        self.stages = stages or Stages()

    def build(self, build_inputs: list[Any]) -> list[Any]:
        """One result per input; a failed build carries its error text."""
        with self.stages.during(BUILDING):
            built = self.builder.build([module_to_json(i.mod) for i in build_inputs])
        for result in built:
            if result.artifact is None:
                self.on_trial(None)
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
    """Runs one program after the other while TVM waits, so that nothing computes beside a measurement."""

    def __init__(self, runner: Runner, on_trial: OnTrial, stages: Stages | None = None) -> None:
        super().__init__()
        self.runner = runner
        self.on_trial = on_trial
        self.stages = stages or Stages()

    def run(self, runner_inputs: list[Any]) -> list[Any]:
        """One finished future per input."""
        return [_Finished(self._run(i)) for i in runner_inputs]

    def _run(self, runner_input: Any) -> Any:
        arguments = tuple((str(a.dtype), tuple(int(e) for e in a.shape)) for a in runner_input.args_info)
        with self.stages.during(RUNNING):
            ran = self.runner.run(str(runner_input.artifact_path), arguments)
        self.on_trial(statistics.median(ran.run_s) if ran.run_s else None)
        return RunnerResult(list(ran.run_s) or None, ran.error)
