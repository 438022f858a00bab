"""One search over the kernels of a network in a fresh process; prints its course as JSON."""

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

from costhub.collector.build.builder import Builder
from costhub.collector.device.cpu_state import tvm_threads
from costhub.collector.device.identify import identify
from costhub.collector.device.local import local_target
from costhub.collector.run.runner import Runner
from costhub.collector.workloads.network_kernels import NetworkWorkload, network_workloads
from costhub.dataset.intrinsics import load_intrinsics
from costhub.hub.catalogue.devices import complete_device_row
from scripts.bench.search.search_once import SearchCourse, stamped, watched


@dataclass(frozen=True)
class NetworkSearch:
    """What to search for, and where the database goes."""

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
        from costhub.models.compound.conditioned import bound_to
        from costhub.models.folder import load_model
        from costhub.search.tune import Job, tune_all

        rounds: list[tuple[int, float]] = []
        start = time.perf_counter()
        target = local_target()
        pretrained = bound_to(load_model(model)[0], complete_device_row(identify()))
        jobs = [Job(e.name, e.module(), w) for e, w in zip(self.kernels, self.weights, strict=True)]
        with Builder(json.dumps(target)) as builder, Runner(json.dumps(target)) as runner:
            results = tune_all(
                jobs,
                model=pretrained,
                target=target,
                out=self.out,
                trials=self.trials,
                builder=builder,
                runner=runner,
                seed=self.seed,
                on_trial=lambda *_: rounds.append((len(rounds) + 1, time.perf_counter() - start)),
            )
        stages: dict[str, float] = {}
        for stage, seconds in (pair for each in results for pair in each.stages.items()):
            stages[stage] = stages.get(stage, 0.0) + seconds
        return SearchCourse(rounds, stages)


if __name__ == "__main__":
    network, trials, seed, out, fast_math, *models = sys.argv[1:]
    kernels = network_workloads([network], target=json.dumps(local_target()), fast_math=fast_math == "1")
    Path(out).mkdir(exist_ok=True)  # TVM's database does not make it
    search = NetworkSearch(kernels, int(trials) * len(kernels), int(seed), Path(out))
    course = search.costhub(models[0]) if models else search.stock()
    sys.stdout.write("\n" + json.dumps({"tasks": len(kernels), **asdict(course)}) + "\n")
