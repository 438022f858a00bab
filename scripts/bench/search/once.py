"""One search in a fresh process, whose course is printed as JSON.

python -m scripts.bench.search.once workload METHOD WORKLOAD TRIALS SEED OUT [SETTINGS]
python -m scripts.bench.search.once network NETWORK TRIALS SEED OUT FAST_MATH [MODEL]
python -m scripts.bench.search.once every-kernel NETWORK TRIALS SEED OUT

What loads torch is imported where it is needed: stock TVM does not pay for it.
"""

from __future__ import annotations

import json
import logging
import os
import sys
import time
import zlib
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from costhub.collector.device.cpu_state import tvm_threads
from costhub.collector.device.identity import identify
from costhub.collector.device.local import find_local, local_target
from costhub.collector.workloads.network_kernels import network_workloads
from costhub.collector.workloads.network_source import BLOCKED, PLAIN, Lowering, read_network
from costhub.collector.workloads.suites import find_workload
from costhub.dataset.intrinsics import load_intrinsics
from costhub.dataset.programs import FloatArray, IntArray, Programs
from costhub.models.protocol import CostModel, Scores
from costhub.search.result import BUILDING, EVOLUTION, FEATURES, LEARNING, PREDICTION, RUNNING, StageTimer, TrialMeter

if TYPE_CHECKING:
    from costhub.search.options import Job

COMMAND = "costhub"
"""The method that is `costhub tune`."""


def seconds_at(rounds: Sequence[tuple[int, float]], trials: int) -> float:
    """Seconds until so many trials were measured; a small design space ends earlier."""
    return next((seconds for count, seconds in rounds if count >= trials), rounds[-1][1])


@dataclass(frozen=True)
class SearchCourse:
    """The course of a search."""

    began: float
    """When it began, by `time.monotonic`, which all processes of a machine share on Linux."""
    rounds: list[tuple[int, float]]
    """(trials, seconds) along the way."""
    stages: dict[str, float]
    """Stage -> seconds, see `costhub.search.result`."""
    failures: int
    """Programs that could not be built or run."""


class RandomScores(CostModel):
    """Scores that say nothing about a program, the same ones each time."""

    arch = "random"
    feature_spec = default_spec = "trace_decisions@1"

    def predict(self, rows: FloatArray, counts: IntArray) -> Scores:
        """Pseudorandom numbers in [0, 1)."""
        programs = np.split(rows, np.cumsum(counts)[:-1])
        return np.array([zlib.crc32(program.tobytes()) / 2**32 for program in programs][: len(counts)])

    def fit(self, train: Programs, valid: Programs | None, *, seed: int, progress: bool = True) -> None:
        """Learns nothing."""

    def update(self, programs: Programs, *, seed: int) -> None:
        """Learns nothing."""

    def config(self) -> dict[str, Any]:
        """Nothing."""
        return {}

    def save_weights(self, folder: Path) -> None:
        """Writes nothing."""

    def load_weights(self, folder: Path, config: Mapping[str, Any]) -> None:
        """Reads nothing."""


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
        began = time.monotonic()
        if light:
            load_intrinsics("llvm")
            settings["builder"] = ms.builder.LocalBuilder(initializer=partial(load_intrinsics, "llvm"))
        watch, stamps = watched(), Stamps(began)
        ms.tune_tir(
            mod,
            target,
            str(self.out),
            max_trials_global=self.trials,
            seed=self.seed,
            measure_callbacks=stamps.callbacks(),
            **settings,
        )
        return SearchCourse(began, stamps.rounds, watch.seconds(), stamps.failures)

    def costhub(self, settings: Mapping[str, Any]) -> SearchCourse:
        """What `costhub tune` does, reports included, without its progress bar; all trials are spent.

        Args:
            settings: Options of `TuneOptions`, and `model`, a folder; without one, scores are random.
        """
        import tvm  # noqa: F401 - before the search begins, as for TVM's own

        from costhub.api.tune import TuneOptions, tune

        options: dict[str, Any] = {"stop": "never"}
        options |= {name: tuple(value) if isinstance(value, list) else value for name, value in settings.items()}
        model: Any = options.pop("model", None)
        if model is None:
            model, options["method"] = RandomScores(), "frozen"
        began = time.monotonic()
        rounds = timed_trials(began)
        tuning = tune(
            self.workload,
            self.out,
            trials=self.trials,
            model=model,
            options=TuneOptions(**options),
            seed=self.seed,
            progress=False,
        )
        (result,) = tuning.workloads
        return SearchCourse(began, rounds, result.stages, result.failures)


@dataclass(frozen=True)
class NetworkSearch:
    """A search for the kernels of a network, and where its database goes."""

    jobs: Sequence[Job]
    """The kernels, weighted by how often the network calls them."""
    trials: int
    """Of all kernels together."""
    seed: int
    out: Path

    def stock(self) -> SearchCourse:
        """`ms.tune_tasks` with its defaults except the light import."""
        import tvm
        from tvm.s_tir import meta_schedule as ms

        target, logger = tvm.target.Target(local_target()), logging.getLogger("stock")
        os.environ.update(tvm_threads())
        began = time.monotonic()
        load_intrinsics("llvm")
        watch, stamps = watched(), Stamps(began)
        seeds = ms.utils.fork_seed(self.seed, n=len(self.jobs))
        tasks = [
            ms.TuneContext(
                mod=each.mod,
                target=target,
                space_generator="post-order-apply",
                search_strategy="evolutionary",
                task_name=each.name,
                rand_state=seed,
                logger=logger,
                num_threads="physical",
            ).clone()
            for each, seed in zip(self.jobs, seeds, strict=True)
        ]
        ms.tune_tasks(
            tasks=tasks,
            task_weights=[each.weight for each in self.jobs],
            work_dir=str(self.out),
            max_trials_global=self.trials,
            builder=ms.builder.LocalBuilder(initializer=partial(load_intrinsics, "llvm")),
            measure_callbacks=stamps.callbacks(),
        )
        return SearchCourse(began, stamps.rounds, watch.seconds(), stamps.failures)

    def costhub(self, model: str) -> SearchCourse:
        """`tune_all`; the seconds include loading the model and starting processes."""
        from costhub.collector.measurer import local_measurer
        from costhub.hub.catalogue.devices import complete_device_row
        from costhub.models.folder import load_model
        from costhub.search.options import Search
        from costhub.search.tune import tune_all

        rounds: list[tuple[int, float]] = []
        began = time.monotonic()
        pretrained = load_model(model)[0].bind(complete_device_row(identify()))
        with local_measurer(find_local(["auto"])) as measurer:
            results = tune_all(
                self.jobs,
                Search(pretrained, seed=self.seed),
                measurer,
                out=self.out,
                trials=self.trials,
                on_trial=lambda *_: rounds.append((len(rounds) + 1, time.monotonic() - began)),
            )
        stages: dict[str, float] = {}
        for stage, seconds in (pair for each in results for pair in each.stages.items()):
            stages[stage] = stages.get(stage, 0.0) + seconds
        return SearchCourse(began, rounds, stages, sum(each.failures for each in results))


class Stamps:
    """Notes the trials, seconds and failures of a search by TVM after each batch.

    Args:
        began: When the search began, by `time.monotonic`.
    """

    def __init__(self, began: float) -> None:
        self.began = began
        self.rounds: list[tuple[int, float]] = []
        self.failures = 0

    def batch(self, errors: Sequence[str | None]) -> None:
        """Counts a batch; an error for each of its programs, None for one that ran."""
        before = self.rounds[-1][0] if self.rounds else 0
        self.rounds.append((before + len(errors), time.monotonic() - self.began))
        self.failures += sum(error is not None for error in errors)

    def callbacks(self) -> list[Any]:
        """TVM's measure callbacks, and one that tells this object of each batch, before TVM learns from it.

        Trials of costhub are timed before it learns from them, too.
        """
        from tvm.ir.utils import derived_object
        from tvm.s_tir import meta_schedule as ms

        told = self.batch

        @derived_object
        class Stamp(ms.measure_callback.PyMeasureCallback):  # type: ignore[misc]
            def apply(self, scheduler: Any, task: int, candidates: Any, built: Any, ran: Any) -> None:
                told([each.error_msg for each in ran])

        to_database, *others = ms.measure_callback.MeasureCallback.create("default")
        return [to_database, Stamp(), *others]


def timed_trials(began: float) -> list[tuple[int, float]]:
    """(Trials, seconds since `began`) of each trial of this process from now on, also of those that fail."""
    rounds: list[tuple[int, float]] = []
    counted = TrialMeter.measured

    def measured(self: TrialMeter, latency_s: float | None, status: str) -> None:
        counted(self, latency_s, status)
        rounds.append((self.trials, time.monotonic() - began))

    TrialMeter.measured = measured  # type: ignore[method-assign]  # the search makes its meters itself
    return rounds


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


def of_workload(method: str, workload: str, trials: str, seed: str, out: str, settings: str = "{}") -> dict[str, Any]:
    """The course of a search for a workload by TVM's own methods, or by costhub's with settings in JSON."""
    search = WorkloadSearch(workload, int(trials), int(seed), Path(out))
    if method == COMMAND:
        return asdict(search.costhub(json.loads(settings)))
    if method == "random":
        return asdict(search.tvm(light=True, strategy="replay-trace", cost_model="random"))
    return asdict(search.tvm(light={"stock": False, "stock, light imports": True}[method]))


def of_network(network: str, trials: str, seed: str, out: str, fast_math: str, *models: str) -> dict[str, Any]:
    """The course of a search for the kernels of a network, by costhub with a model, otherwise by stock."""
    lowering = Lowering(fast_math == "1", BLOCKED if models else PLAIN)
    kernels = network_workloads([network], target=json.dumps(local_target()), lowering=lowering)
    jobs = [(each.name, each.module(), sum(count for _, count in each.networks)) for each in kernels]
    search = network_search(jobs, trials, seed, out)
    return {"tasks": len(jobs), **asdict(search.costhub(models[0]) if models else search.stock())}


def of_every_kernel(network: str, trials: str, seed: str, out: str) -> dict[str, Any]:
    """The course of a search by stock for every kernel, also those that costhub makes fast without a search.

    TVM's `tune_relax` leaves none out, either.
    """
    import tvm
    from tvm.s_tir.meta_schedule import relax_integration

    from costhub.collector.workloads.relax_import import fuse

    target = tvm.target.Target(local_target())
    fused = fuse(read_network(network, device="meta").mod, target)
    tasks = relax_integration.extract_tasks(fused, target)
    jobs = [(str(each.task_name), each.dispatched[0], float(each.weight)) for each in tasks]
    return {"tasks": len(jobs), **asdict(network_search(jobs, trials, seed, out).stock())}


def network_search(jobs: Sequence[tuple[str, Any, float]], trials: str, seed: str, out: str) -> NetworkSearch:
    """A search of kernels (name, module, calls) with so many trials for each."""
    from costhub.search.options import Job

    Path(out).mkdir(exist_ok=True)  # TVM's database does not make it
    return NetworkSearch([Job(*each) for each in jobs], int(trials) * len(jobs), int(seed), Path(out))


COURSES: dict[str, Callable[..., dict[str, Any]]] = {
    "workload": of_workload,
    "network": of_network,
    "every-kernel": of_every_kernel,
}
"""What is searched for -> the function of the further words."""


if __name__ == "__main__":
    kind, *words = sys.argv[1:]
    figures = COURSES[kind](*words)
    sys.stdout.write("\n" + json.dumps(figures) + "\n")
