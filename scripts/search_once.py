"""One search in a fresh process, for bench_search.py; prints (trials, seconds) along the way as JSON."""

from __future__ import annotations

import json
import os
import sys
import time
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

from costhub.collector.builder import Builder
from costhub.collector.cpu_state import tvm_threads
from costhub.collector.runner import Runner
from costhub.collector.suite import find_workload
from costhub.collector.target import local_target
from costhub.dataset.intrinsics import load_intrinsics

Rounds = list[tuple[int, float]]


@dataclass(frozen=True)
class Search:
    """What to search for, and where the database goes."""

    workload: str
    trials: int
    seed: int
    out: Path

    def tvm(self, *, light: bool, **settings: Any) -> Rounds:
        """`ms.tune_tir` with every default but `settings`.

        Args:
            light: This process and those that build import the CPU's intrinsics only, a second instead of
                fourteen.
            settings: Other arguments.
        """
        import tvm
        from tvm.ir.utils import derived_object
        from tvm.s_tir import meta_schedule as ms

        rounds: Rounds = []

        @derived_object
        class Stamp(ms.measure_callback.PyMeasureCallback):  # type: ignore[misc]
            def apply(self, scheduler: Any, task: int, candidates: Any, built: Any, ran: Any) -> None:
                before = rounds[-1][0] if rounds else 0
                rounds.append((before + len(candidates), time.perf_counter() - start))

        os.environ.update(tvm_threads())  # as many as costhub measures with
        mod, target = find_workload(self.workload).module(), tvm.target.Target(local_target())
        start = time.perf_counter()
        if light:
            load_intrinsics("llvm")
            settings["builder"] = ms.builder.LocalBuilder(initializer=partial(load_intrinsics, "llvm"))
        ms.tune_tir(
            mod, target, str(self.out), max_trials_global=self.trials, seed=self.seed,
            measure_callbacks=[*ms.measure_callback.MeasureCallback.create("default"), Stamp()], **settings,
        )  # fmt: skip
        return rounds

    def costhub(self, model: str, method: str, draft: str | None = None) -> Rounds:
        """`costhub.transfer.tune`; loading the model and starting processes is in the seconds."""
        from costhub.models.folder import load_model
        from costhub.transfer.methods.registry import find_method
        from costhub.transfer.tune import tune

        mod, target = find_workload(self.workload).module(), local_target()
        rounds: Rounds = []
        start = time.perf_counter()
        pretrained, drafting = load_model(model)[0], load_model(draft)[0] if draft else None
        with Builder(json.dumps(target)) as builder, Runner(json.dumps(target)) as runner:
            tune(
                mod, self.workload, model=pretrained, draft=drafting, method=find_method(method),
                target=target, out=self.out, trials=self.trials, builder=builder, runner=runner,
                seed=self.seed, on_trial=lambda n, _: rounds.append((n, time.perf_counter() - start)),
            )  # fmt: skip
        return rounds


if __name__ == "__main__":
    method, workload, trials, seed, folder, *models = sys.argv[1:]
    search = Search(workload, int(trials), int(seed), Path(folder))
    if method == "stock":
        rounds = search.tvm(light=False)
    elif method == "stock, light imports":
        rounds = search.tvm(light=True)
    elif method == "random":
        rounds = search.tvm(light=True, strategy="replay-trace", cost_model="random")
    else:
        rounds = search.costhub(models[0], method, *models[1:])
    sys.stdout.write("\n" + json.dumps(rounds) + "\n")
