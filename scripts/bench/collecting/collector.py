"""Measures the same candidates, in batches, with costhub's collector and with TVM's builder and runner."""

from __future__ import annotations

import json
import os
import shutil
import statistics
import time
from contextlib import ExitStack
from functools import partial
from pathlib import Path
from typing import Any

import click
import tvm
from tvm.s_tir import meta_schedule as ms

from costhub.collector.collect import BATCH
from costhub.collector.device.cpu_state import tvm_threads
from costhub.collector.device.local import find_local, local_target
from costhub.collector.measurer import BuiltProgram, MeasureResult, local_measurer
from costhub.collector.propose.sampler import Program, Sampler
from costhub.collector.run.evaluator import Evaluator
from costhub.collector.workloads.suites import find_suites
from costhub.dataset.intrinsics import load_intrinsics
from costhub.models.metrics import rank_correlation
from scripts.bench.common import machine, options

WORKLOADS = (
    "resnet18.c6",
    "resnet18.c11",
    "matmul.256x256x256",
    "batch_matmul.12x128x128x64",
    "depthwise.28x256",
    "pointwise.14x96x576",
    "softmax.64x1000",
    "norm.rms-128x2048",
)
SEARCH_BATCH = 16  # what `costhub tune` measures at a time, when it knows no further candidates yet
STOCK_BATCHES = (64, 16)  # what MetaSchedule measures at a time, and what a small budget leaves it


class StockCollector:
    """LocalBuilder and LocalRunner with costhub's evaluator settings.

    Args:
        target: The TVM target, as JSON.
        light: The strong baseline: build processes import the CPU's intrinsics only (1 s instead of 14 s).
    """

    def __init__(self, target: str, *, light: bool) -> None:
        settings = Evaluator()
        os.environ.update(tvm_threads())  # the runner's process inherits it
        self.target = tvm.target.Target(json.loads(target))
        initializer = partial(load_intrinsics, "llvm") if light else None
        self.builder = ms.builder.LocalBuilder(initializer=initializer, timeout_sec=60)
        evaluator = ms.runner.EvaluatorConfig(
            number=settings.number, repeat=settings.repeat, min_repeat_ms=settings.min_repeat_ms
        )
        self.runner = ms.runner.LocalRunner(timeout_sec=30, evaluator_config=evaluator)

    def measure(self, programs: list[Program]) -> list[float | None]:
        """Median seconds per program; None for a failure."""
        modules = [tvm.ir.load_json(p.module_json) for p in programs]
        built = self.builder.build([ms.builder.BuilderInput(m, self.target) for m in modules])
        return [self._run(b, p) for b, p in zip(built, programs, strict=True)]

    def _run(self, built: Any, program: Program) -> float | None:
        if built.artifact_path is None:
            return None
        infos = [ms.arg_info.TensorInfo(dtype=dtype, shape=list(shape)) for dtype, shape in program.arguments]
        future = self.runner.run([ms.runner.RunnerInput(built.artifact_path, "cpu", infos)])[0]
        ran = future.result()
        shutil.rmtree(Path(str(built.artifact_path)).parent, ignore_errors=True)
        return statistics.median(float(s) for s in ran.run_secs) if ran.run_secs else None

    def close(self) -> None:
        """Does nothing: TVM's pools end with their batch."""


class CosthubCollector:
    """costhub's collector behind the interface of StockCollector: it builds on while it measures in turns."""

    def __init__(self) -> None:
        self._processes = ExitStack()
        self.measurer = self._processes.enter_context(local_measurer(find_local(["auto"])))
        self.measurer.launch()
        self.llvm_s = self.run_s = 0.0

    def measure(self, programs: list[Program]) -> list[float | None]:
        """Median seconds per program; None for a failure."""
        building = [self.measurer.builder.submit(p.module_json) for p in programs]
        results: list[MeasureResult] = []
        for start in range(0, len(programs), BATCH):
            builds = [b.result() for b in building[start : start + BATCH]]
            batch = [BuiltProgram(build, p.arguments) for p, build in zip(programs[start:], builds, strict=False)]
            results += [result for _, result in self.measurer.measure(batch)]
            for build in builds:
                build.remove()
        self.llvm_s += sum(result.build.seconds.llvm for result in results)
        self.run_s += sum(result.run.wall_s for result in results if result.run)
        return [statistics.median(result.run_s) if result.run_s else None for result in results]

    def floor_s(self) -> float:
        """LLVM's time over all cores plus the runs: what every collector needs."""
        return self.llvm_s / self.measurer.builder.processes + self.run_s

    def close(self) -> None:
        """Ends the processes."""
        self._processes.close()


def collect(kind: str, programs: list[Program], batch: int, target: str) -> dict[str, Any]:
    """One collector over all candidates; the seconds count the start of its processes."""
    start = time.perf_counter()
    collector = CosthubCollector() if kind == "costhub" else StockCollector(target, light=kind != "stock")
    batches = [programs[i : i + batch] for i in range(0, len(programs), batch)]
    latency_s = [s for part in batches for s in collector.measure(part)]
    seconds = time.perf_counter() - start
    collector.close()
    good = sum(s is not None for s in latency_s)
    row: dict[str, Any] = {
        "collector": kind,
        "batch": batch,
        "good": good,
        "seconds": seconds,
        "good_per_s": good / seconds,
    }
    click.echo("{collector:20} batch {batch:4}  {good:4} good  {good_per_s:6.2f} / s".format(**row))
    if isinstance(collector, CosthubCollector):
        row["floor_share"] = collector.floor_s() / seconds
    return {**row, "latency_s": latency_s}


def spearman(first: dict[str, Any], second: dict[str, Any]) -> float:
    """Of the latencies that both collectors have."""
    pairs = [(a, b) for a, b in zip(first["latency_s"], second["latency_s"], strict=True) if a and b]
    return rank_correlation(*zip(*pairs, strict=True))


@click.command()
@options.quick("Fewer candidates, small batches only.")
@options.json_file()
def main(quick: bool, path: Path | None) -> None:
    """Compares rates and latencies; run it with nothing else on the machine."""
    target = json.dumps(local_target())
    samplers = [Sampler(w.module(), target, seed=7) for w in find_suites(WORKLOADS)]
    programs = [p for sampler in samplers for p in sampler.random(4 if quick else 32)]
    everything = len(programs)
    runs = [("costhub", everything), ("costhub", everything), ("costhub", SEARCH_BATCH)]
    runs += [(kind, b) for b in STOCK_BATCHES[: 1 if quick else 2] for kind in ("stock", "stock_light_import")]
    rows = [collect(kind, programs, batch, target) for kind, batch in runs]
    ours, again, _, stock, light = rows[:5]
    figures = {
        "good_per_s": ours["good_per_s"],
        "ratio_to_stock": ours["good_per_s"] / stock["good_per_s"],
        "ratio_to_strong_baseline": ours["good_per_s"] / light["good_per_s"],
        "spearman": spearman(ours, again),
        "spearman_to_stock": spearman(ours, stock),
        "floor_share": ours["floor_share"],
    }
    click.echo("\n".join(f"{k:24} {v:.3f}" for k, v in figures.items()))
    about = {"candidates": everything, "batch": STOCK_BATCHES[0]}
    machine.write_result(path, {**about, **figures, "rows": rows})
