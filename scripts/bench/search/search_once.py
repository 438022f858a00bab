"""One search for a workload in a fresh process; prints its course as JSON."""

from __future__ import annotations

import json
import os
import sys
import time
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from functools import partial
from pathlib import Path
from typing import Any

from costhub.collector.build.builder import Builder
from costhub.collector.device.cpu_state import tvm_threads
from costhub.collector.device.local import local_target
from costhub.collector.run.runner import Runner
from costhub.collector.workloads.suites import find_workload
from costhub.dataset.intrinsics import load_intrinsics
from costhub.search.result import BUILDING, EVOLUTION, FEATURES, LEARNING, PREDICTION, RUNNING, StageTimer


def seconds_at(rounds: Sequence[tuple[int, float]], trials: int) -> float:
    """Seconds until so many trials were measured; a small design space ends earlier."""
    return next((seconds for count, seconds in rounds if count >= trials), rounds[-1][1])


@dataclass(frozen=True)
class SearchCourse:
    """The course of a search."""

    rounds: list[tuple[int, float]]
    """(trials, seconds) along the way."""
    stages: dict[str, float]
    """Stage -> seconds, see `costhub.search.result`."""


@dataclass(frozen=True)
class WorkloadSearch:
    """What to search for, and where the database goes."""

    workload: str
    trials: int
    seed: int
    out: Path

    def tvm(self, *, light: bool, **settings: Any) -> SearchCourse:
        """`ms.tune_tir` with its defaults except `settings`.

        Args:
            light: This process and those that build import the CPU's intrinsics only, a second instead of
                fourteen.
            settings: Other arguments.
        """
        import tvm
        from tvm.s_tir import meta_schedule as ms

        os.environ.update(tvm_threads())  # the number that costhub measures with
        mod, target = find_workload(self.workload).module(), tvm.target.Target(local_target())
        start = time.perf_counter()
        if light:
            load_intrinsics("llvm")
            settings["builder"] = ms.builder.LocalBuilder(initializer=partial(load_intrinsics, "llvm"))
        rounds: list[tuple[int, float]] = []
        watch = watched()
        ms.tune_tir(
            mod,
            target,
            str(self.out),
            max_trials_global=self.trials,
            seed=self.seed,
            measure_callbacks=stamped(rounds, start),
            **settings,
        )
        return SearchCourse(rounds, watch.seconds())

    def costhub(self, model: str, method: str, draft: str | None = None) -> SearchCourse:
        """`tune`; the seconds include loading the model and starting processes."""
        from costhub.collector.device.identify import identify
        from costhub.hub.catalogue.devices import complete_device_row
        from costhub.models.compound.conditioned import bound_to
        from costhub.models.folder import load_model
        from costhub.search.tune import tune
        from costhub.transfer.methods.by_name import find_method

        mod, target, device = find_workload(self.workload).module(), local_target(), complete_device_row(identify())
        rounds: list[tuple[int, float]] = []
        start = time.perf_counter()
        pretrained, drafting = (
            None if folder is None else bound_to(load_model(folder)[0], device) for folder in (model, draft)
        )
        with Builder(json.dumps(target)) as builder, Runner(json.dumps(target)) as runner:
            result = tune(
                mod,
                self.workload,
                model=pretrained,
                draft=drafting,
                method=find_method(method),
                target=target,
                out=self.out,
                trials=self.trials,
                builder=builder,
                runner=runner,
                seed=self.seed,
                on_trial=lambda n, _: rounds.append((n, time.perf_counter() - start)),
            )
        return SearchCourse(rounds, result.stages)


def stamped(rounds: list[tuple[int, float]], start: float) -> list[Any]:
    """TVM's measure callbacks, and one that notes (trials, seconds since `start`) after each batch."""
    from tvm.ir.utils import derived_object
    from tvm.s_tir import meta_schedule as ms

    @derived_object
    class Stamp(ms.measure_callback.PyMeasureCallback):  # type: ignore[misc]
        def apply(self, scheduler: Any, task: int, candidates: Any, built: Any, ran: Any) -> None:
            before = rounds[-1][0] if rounds else 0
            rounds.append((before + len(candidates), time.perf_counter() - start))

    return [*ms.measure_callback.MeasureCallback.create("default"), Stamp()]


def watched() -> StageTimer:
    """A stopwatch that from now on times the stages of TVM's own search in this process."""
    from tvm.s_tir import meta_schedule as ms

    watch = StageTimer(EVOLUTION)
    for owner, name, stage in (
        (ms.feature_extractor.FeatureExtractor, "extract_from", FEATURES),
        (ms.cost_model.XGBModel._cls, "predict", PREDICTION),
        (ms.cost_model.XGBModel._cls, "update", LEARNING),
        (ms.builder.LocalBuilder._cls, "build", BUILDING),
        (ms.runner.LocalRunner._cls, "run", RUNNING),
    ):
        clock(watch, owner, name, stage)
    return watch


def clock(watch: StageTimer, owner: Any, name: str, stage: str) -> None:
    """From now on the seconds of a function of a class or object count towards the stage."""
    function = getattr(owner, name)

    def call(*arguments: Any) -> Any:
        with watch.during(stage):
            return function(*arguments)

    setattr(owner, name, call)


if __name__ == "__main__":
    method, workload, trials, seed, folder, *models = sys.argv[1:]
    search = WorkloadSearch(workload, int(trials), int(seed), Path(folder))
    if method == "stock":
        course = search.tvm(light=False)
    elif method == "stock, light imports":
        course = search.tvm(light=True)
    elif method == "random":
        course = search.tvm(light=True, strategy="replay-trace", cost_model="random")
    else:
        course = search.costhub(models[0], method, *models[1:])
    sys.stdout.write("\n" + json.dumps(asdict(course)) + "\n")
