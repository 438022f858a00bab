"""Provides tune: TVM's evolutionary search over one workload, led by a pretrained cost model."""

from __future__ import annotations

import json
import statistics
from pathlib import Path
from typing import Any

from costhub.collector.builder import Builder
from costhub.collector.runner import Runner
from costhub.dataset.intrinsics import load_intrinsics
from costhub.dataset.workload import argument_shapes, check_schedulable, module_to_json
from costhub.models.protocol import CostModel
from costhub.transfer.draft import Draft
from costhub.transfer.methods.method import TransferMethod
from costhub.transfer.search.database import Records
from costhub.transfer.search.result import Meter, OnTrial, SearchOptions, TuneResult
from costhub.transfer.search_model import SearchModel
from costhub.transfer.stages import OTHER

UNTUNED_TIMEOUT_S = 60.0


def tune(
    mod: Any,
    name: str,
    *,
    model: CostModel,
    target: dict[str, Any],
    out: Path,
    trials: int,
    builder: Builder,
    runner: Runner,
    draft: CostModel | None = None,
    method: TransferMethod | None = None,
    options: SearchOptions | None = None,
    seed: int = 0,
    on_trial: OnTrial | None = None,
) -> TuneResult:
    """Searches for a fast schedule of `mod` until `trials` programs are measured.

    The records go to a MetaSchedule database in `out` (``database_workload.json`` and
    ``database_tuning_record.json``), which stock TVM compiles from with ``ms.tir_integration.compile_tir``;
    what is there already counts: a search that was interrupted goes on.

    Args:
        mod: the workload, a ``tvm.IRModule`` with one function.
        name: its name in the report.
        model: the pretrained model; it is not changed.
        target: the TVM target as its dictionary.
        out: folder for the database.
        trials: how many programs to measure, those that the database holds included.
        builder: compiles candidates for `target`.
        runner: measures them.
        draft: a cheap model that ranks all candidates, so that `model` need see only the best of them.
        method: how the models learn from what is measured; by default `Brief`.
        options: sizes of the search.
        seed: of the search.
        on_trial: told after each trial of the number so far and the best latency in us.

    Raises:
        WorkloadError: TVM cannot schedule the workload.
        ScoreError: the model gives no usable scores.
        MeasureError: a process that builds or runs cannot be started.
    """
    check_schedulable(mod)
    load_intrinsics(target["kind"])
    import tvm

    from costhub.transfer.search.task import SearchTask
    from costhub.transfer.tvm_cost_model import TvmCostModel

    meter = Meter(on_trial)
    with meter.stages.during(OTHER):
        builder.launch()
        runner.launch()
    full = SearchModel(model, method=method, seed=seed)
    drafting = Draft(full, SearchModel(draft, method=method, seed=seed)) if draft else None
    task = SearchTask(
        mod, tvm.target.Target(target), model=TvmCostModel(full, draft=drafting, stages=meter.stages),
        records=Records(out), meter=meter, builder=builder, runner=runner, most=trials,
        options=options or SearchOptions(), seed=seed,
    )  # fmt: skip
    while meter.trials < trials and task.round(trials - meter.trials):
        pass
    return meter.result(name, full.health, untuned_us(mod, builder, runner))


def untuned_us(mod: Any, builder: Builder, runner: Runner) -> float | None:
    """Latency in us of the workload as it stands, unscheduled; None where it fails or takes over a minute."""
    built = builder.build([module_to_json(mod)])[0]
    if built.artifact is None:
        return None
    ran = runner.run(built.artifact, argument_shapes(mod), timeout_s=UNTUNED_TIMEOUT_S)
    return statistics.median(ran.run_s) * 1e6 if ran.run_s else None


def summary(result: TuneResult) -> dict[str, Any]:
    """The result as plain JSON values."""
    plain: dict[str, Any] = json.loads(json.dumps({**result.__dict__, "health": result.health.__dict__}))
    return {**plain, "speedup": result.speedup}
