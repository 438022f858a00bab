"""One search in a fresh process, stock TVM's or costhub's; prints its rounds as JSON, for bench_search.py."""

from __future__ import annotations

import json
import os
import sys
import time
from pathlib import Path
from typing import Any

from costhub.collector.builder import Builder
from costhub.collector.cpu_state import tvm_threads
from costhub.collector.runner import Runner
from costhub.collector.suite import find_workload
from costhub.collector.target import local_target


def stock(workload: str, trials: int, seed: int, out: Path) -> list[tuple[int, float]]:
    """(trials, seconds) after each round of ms.tune_tir with every default."""
    import tvm
    from tvm.ir.utils import derived_object
    from tvm.s_tir import meta_schedule as ms

    rounds: list[tuple[int, float]] = []

    @derived_object
    class Stamp(ms.measure_callback.PyMeasureCallback):  # type: ignore[misc]
        def apply(self, scheduler: Any, task: int, candidates: Any, built: Any, ran: Any) -> None:
            before = rounds[-1][0] if rounds else 0
            rounds.append((before + len(candidates), time.perf_counter() - start))

    os.environ.update(tvm_threads())  # as many as costhub measures with
    mod, target = find_workload(workload).module(), tvm.target.Target(local_target())
    start = time.perf_counter()
    callbacks = [*ms.measure_callback.MeasureCallback.create("default"), Stamp()]
    ms.tune_tir(mod, target, str(out), max_trials_global=trials, measure_callbacks=callbacks, seed=seed)
    return rounds


def costhub(workload: str, trials: int, seed: int, out: Path, model: str) -> list[tuple[int, float]]:
    """(trials, seconds) of a whole search led by a pulled model, fetching and loading it included."""
    from costhub.hub.pull import pull
    from costhub.models.folder import load_model
    from costhub.transfer.tune import tune

    mod, target = find_workload(workload).module(), local_target()
    start = time.perf_counter()
    pretrained, _ = load_model(pull(model))
    loaded_s = time.perf_counter() - start
    with Builder(json.dumps(target)) as builder, Runner(json.dumps(target)) as runner:
        result = tune(
            mod,
            workload,
            model=pretrained,
            target=target,
            out=out,
            trials=trials,
            builder=builder,
            runner=runner,
            seed=seed,
        )
    # Not the seconds until here: tune has measured the untuned workload meanwhile, which stock does not do.
    return [(result.trials, loaded_s + result.seconds)]


if __name__ == "__main__":
    method, workload, trials, seed, folder, *model = sys.argv[1:]
    arguments = (workload, int(trials), int(seed), Path(folder))
    rounds = stock(*arguments) if method == "stock" else costhub(*arguments, *model)
    sys.stdout.write("\n" + json.dumps(rounds) + "\n")
