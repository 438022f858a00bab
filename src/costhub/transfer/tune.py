"""Provides tune: TVM's evolutionary search over one workload, led by a pretrained cost model."""

from __future__ import annotations

import json
import os
import statistics
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from costhub.collector.builder import Builder
from costhub.collector.runner import Runner
from costhub.dataset.intrinsics import load_intrinsics
from costhub.dataset.workload import argument_shapes, check_schedulable, module_to_json
from costhub.errors import CosthubError, WorkloadError, last_line
from costhub.models.protocol import CostModel
from costhub.transfer.draft import Draft
from costhub.transfer.methods.method import TransferMethod
from costhub.transfer.search_model import Health, SearchModel
from costhub.transfer.stages import EVOLUTION, Stages
from costhub.transfer.tvm_errors import register_errors
from costhub.transfer.tvm_logs import tvm_logs_in_files

TRIALS_PER_ROUND = 16
UNTUNED_TIMEOUT_S = 60.0


@dataclass(frozen=True)
class SearchOptions:
    """Sizes of TVM's evolutionary search."""

    population: int = 256
    generations: int = 2
    trials_per_round: int = TRIALS_PER_ROUND


@dataclass
class TuneResult:
    """What a search found for one workload."""

    workload: str
    trials: int
    failures: int
    seconds: float
    """Wall time of the search, start of the processes included."""
    untuned_us: float | None
    """Latency of the unscheduled workload; None where it ran out of time."""
    best_us: float | None
    """Best latency measured; None when every trial failed."""
    curve: list[tuple[int, float, float]] = field(default_factory=list)
    """(trials so far, seconds so far, best latency so far in us) after each trial that succeeded."""
    health: Health = field(default_factory=Health)
    stages: dict[str, float] = field(default_factory=dict)
    """Stage -> seconds of the search; see `costhub.transfer.stages`."""

    @property
    def speedup(self) -> float | None:
        """Untuned over best latency."""
        return self.untuned_us / self.best_us if self.untuned_us and self.best_us else None


class _Meter:
    """Counts trials and keeps the curve of the best latency."""

    def __init__(self, on_trial: Callable[[int, float | None], None] | None) -> None:
        self.start = time.perf_counter()
        self.stages = Stages()
        self.trials = self.failures = 0
        self.best_us: float | None = None
        self.curve: list[tuple[int, float, float]] = []
        self._on_trial = on_trial

    def __call__(self, latency_s: float | None) -> None:
        self.trials += 1
        if latency_s is None:
            self.failures += 1
        else:
            self.best_us = min(latency_s * 1e6, self.best_us or float("inf"))
            self.curve.append((self.trials, time.perf_counter() - self.start, self.best_us))
        if self._on_trial:
            self._on_trial(self.trials, self.best_us)

    def result(
        self, workload: str, health: Health, stages: dict[str, float], untuned_us: float | None
    ) -> TuneResult:
        """What came out, of a search that took these stages."""
        return TuneResult(
            workload,
            self.trials,
            self.failures,
            sum(stages.values()),
            untuned_us,
            self.best_us,
            self.curve,
            health,
            stages,
        )


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
    on_trial: Callable[[int, float | None], None] | None = None,
) -> TuneResult:
    """Searches for a fast schedule of `mod` with at most `trials` measured programs.

    The records go to a MetaSchedule database in `out` (``database_workload.json`` and
    ``database_tuning_record.json``), which stock TVM compiles from with ``ms.tir_integration.compile_tir``;
    it is extended when it is there already.

    Args:
        mod: the workload, a ``tvm.IRModule`` with one function.
        name: its name in the report.
        model: the pretrained model; it is not changed.
        target: the TVM target as its dictionary.
        out: folder for the database.
        trials: how many programs to measure at most.
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
    meter = _Meter(on_trial)
    builder.launch()
    runner.launch()
    full = SearchModel(model, method=method, seed=seed)
    drafting = Draft(full, SearchModel(draft, method=method, seed=seed)) if draft else None
    search = _Search(mod, target, out, trials, options or SearchOptions(), seed)
    search.run(full, drafting, builder, runner, meter)
    stages = meter.stages.seconds()
    return meter.result(name, full.health, stages, untuned_us(mod, builder, runner))


@dataclass(frozen=True)
class _Search:
    """One run of TVM's evolutionary search over one workload."""

    mod: Any
    target: dict[str, Any]
    out: Path
    trials: int
    options: SearchOptions
    seed: int

    def run(
        self, model: SearchModel, draft: Draft | None, builder: Builder, runner: Runner, meter: _Meter
    ) -> None:
        import tvm
        from tvm.s_tir import meta_schedule as ms

        from costhub.transfer.tvm_cost_model import TvmCostModel
        from costhub.transfer.tvm_measure import TvmBuilder, TvmRunner

        strategy = ms.search_strategy.EvolutionarySearch(
            population_size=self.options.population, genetic_num_iters=self.options.generations
        )
        register_errors()
        self.out.mkdir(parents=True, exist_ok=True)
        try:
            with tvm_logs_in_files(), meter.stages.during(EVOLUTION):
                ms.tune_tir(
                    self.mod,
                    tvm.target.Target(self.target),
                    os.fspath(self.out),
                    max_trials_global=self.trials,
                    num_trials_per_iter=min(self.options.trials_per_round, self.trials),
                    builder=TvmBuilder(builder, meter, meter.stages),
                    runner=TvmRunner(runner, meter, meter.stages),
                    cost_model=TvmCostModel(model, draft=draft, stages=meter.stages),
                    strategy=strategy,
                    seed=self.seed + 1,
                )
        except CosthubError:
            raise
        except Exception as error:
            raise WorkloadError(f"TVM's search failed on this workload: {last_line(error)}") from error


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
