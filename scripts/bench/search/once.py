"""One search in a fresh process, whose course is printed as JSON.

python -m scripts.bench.search.once workload METHOD WORKLOAD TRIALS SEED OUT [MODEL [DRAFT]]
python -m scripts.bench.search.once network NETWORK TRIALS SEED OUT FAST_MATH [MODEL]
"""

from __future__ import annotations

import json
import logging
import os
import sys
import time
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from functools import partial
from pathlib import Path
from typing import Any

from costhub.collector.device.cpu_state import tvm_threads
from costhub.collector.device.identity import identify
from costhub.collector.device.local import find_local, local_target
from costhub.collector.measurer import local_measurer
from costhub.collector.workloads.network_kernels import NetworkWorkload, network_workloads
from costhub.collector.workloads.network_source import BLOCKED, PLAIN, Lowering
from costhub.collector.workloads.suites import find_workload
from costhub.dataset.intrinsics import load_intrinsics
from costhub.hub.catalogue.devices import complete_device_row
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
    """A search for a workload, and where its database goes."""

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
        from costhub.models.folder import load_model
        from costhub.search.options import Search
        from costhub.search.tune import tune
        from costhub.transfer.methods.by_name import find_method

        mod, device = find_workload(self.workload).module(), complete_device_row(identify())
        rounds: list[tuple[int, float]] = []
        start = time.perf_counter()
        pretrained = load_model(model)[0].bind(device)
        drafting = load_model(draft)[0].bind(device) if draft else None
        with local_measurer(find_local(["auto"])) as measurer:
            result = tune(
                mod,
                self.workload,
                Search(pretrained, draft=drafting, method=find_method(method), seed=self.seed),
                measurer,
                out=self.out,
                trials=self.trials,
                on_trial=lambda n, _: rounds.append((n, time.perf_counter() - start)),
            )
        return SearchCourse(rounds, result.stages)


@dataclass(frozen=True)
class NetworkSearch:
    """A search for the kernels of a network, and where its database goes."""

    kernels: Sequence[NetworkWorkload]
    trials: int
    """Of all kernels together."""
    seed: int
    out: Path

    @property
    def weights(self) -> list[float]:
        """How often the network calls each kernel."""
        return [sum(count for _, count in each.networks) for each in self.kernels]

    def stock(self) -> SearchCourse:
        """`ms.tune_tasks` with its defaults except the light import, on costhub's tasks."""
        import tvm
        from tvm.s_tir import meta_schedule as ms

        target, logger = tvm.target.Target(local_target()), logging.getLogger("stock")
        os.environ.update(tvm_threads())
        start = time.perf_counter()
        load_intrinsics("llvm")
        rounds: list[tuple[int, float]] = []
        watch = watched()
        seeds = ms.utils.fork_seed(self.seed, n=len(self.kernels))
        tasks = [
            ms.TuneContext(
                mod=each.module(),
                target=target,
                space_generator="post-order-apply",
                search_strategy="evolutionary",
                task_name=each.name,
                rand_state=seed,
                logger=logger,
                num_threads="physical",
            ).clone()
            for each, seed in zip(self.kernels, seeds, strict=True)
        ]
        ms.tune_tasks(
            tasks=tasks,
            task_weights=self.weights,
            work_dir=str(self.out),
            max_trials_global=self.trials,
            builder=ms.builder.LocalBuilder(initializer=partial(load_intrinsics, "llvm")),
            measure_callbacks=stamped(rounds, start),
        )
        return SearchCourse(rounds, watch.seconds())

    def costhub(self, model: str) -> SearchCourse:
        """`tune_all`; the seconds include loading the model and starting processes."""
        from costhub.models.folder import load_model
        from costhub.search.options import Job, Search
        from costhub.search.tune import tune_all

        rounds: list[tuple[int, float]] = []
        start = time.perf_counter()
        pretrained = load_model(model)[0].bind(complete_device_row(identify()))
        jobs = [Job(e.name, e.module(), w) for e, w in zip(self.kernels, self.weights, strict=True)]
        with local_measurer(find_local(["auto"])) as measurer:
            results = tune_all(
                jobs,
                Search(pretrained, seed=self.seed),
                measurer,
                out=self.out,
                trials=self.trials,
                on_trial=lambda *_: rounds.append((len(rounds) + 1, time.perf_counter() - start)),
            )
        stages: dict[str, float] = {}
        for stage, seconds in (pair for each in results for pair in each.stages.items()):
            stages[stage] = stages.get(stage, 0.0) + seconds
        return SearchCourse(rounds, stages)


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


def of_workload(method: str, workload: str, trials: str, seed: str, out: str, *models: str) -> dict[str, Any]:
    """The course of a search for a workload by TVM's own methods, or by costhub's with a model and perhaps a draft."""
    search = WorkloadSearch(workload, int(trials), int(seed), Path(out))
    if method == "stock":
        return asdict(search.tvm(light=False))
    if method == "stock, light imports":
        return asdict(search.tvm(light=True))
    if method == "random":
        return asdict(search.tvm(light=True, strategy="replay-trace", cost_model="random"))
    return asdict(search.costhub(models[0], method, *models[1:]))


def of_network(network: str, trials: str, seed: str, out: str, fast_math: str, *models: str) -> dict[str, Any]:
    """The course of a search for the kernels of a network, by costhub with a model, otherwise by stock."""
    lowering = Lowering(fast_math == "1", BLOCKED if models else PLAIN)
    kernels = network_workloads([network], target=json.dumps(local_target()), lowering=lowering)
    Path(out).mkdir(exist_ok=True)  # TVM's database does not make it
    search = NetworkSearch(kernels, int(trials) * len(kernels), int(seed), Path(out))
    course = search.costhub(models[0]) if models else search.stock()
    return {"tasks": len(kernels), **asdict(course)}


if __name__ == "__main__":
    kind, *words = sys.argv[1:]
    figures = of_workload(*words) if kind == "workload" else of_network(*words)
    sys.stdout.write("\n" + json.dumps(figures) + "\n")
