"""Measures the same candidates, in batches, with costhub's collector and with TVM's builder and runner."""

from __future__ import annotations

import json
import statistics
import time
from pathlib import Path
from typing import Any

import click

from costhub.collector.build.builder import Builder
from costhub.collector.collect import BATCH
from costhub.collector.device.local import local_target
from costhub.collector.measurer import BuiltProgram, LocalBatchMeasurer
from costhub.collector.propose.sampler import Program, Sampler
from costhub.collector.run.runner import Runner
from costhub.collector.workloads.suites import find_suites
from costhub.models.metrics import rank_correlation
from scripts.bench.collecting.stock import StockCollector
from scripts.bench.common import machine

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


class CosthubCollector:
    """costhub's collector behind the interface of StockCollector: it builds on while it measures in turns."""

    def __init__(self, target: str) -> None:
        self.builder, self.runner = Builder(target), Runner(target)
        self.bench = LocalBatchMeasurer({"here": self.runner}, self.builder)
        self.builder.launch()
        self.runner.launch()
        self.llvm_s = self.run_s = 0.0

    def measure(self, programs: list[Program]) -> list[float | None]:
        """Median seconds per program; None for a failure."""
        building = [self.builder.submit(p.module_json) for p in programs]
        outcomes = []
        for start in range(0, len(programs), BATCH):
            built = [b.result() for b in building[start : start + BATCH]]
            outcomes += self.bench.measure([BuiltProgram(*pair) for pair in zip(programs[start:], built, strict=False)])
        self.llvm_s += sum(o.built.seconds.llvm for o in outcomes)
        self.run_s += sum(o.ran.wall_s for o in outcomes if o.ran)
        return [statistics.median(o.ran.run_s) if o.ran and o.ran.run_s else None for o in outcomes]

    def floor_s(self) -> float:
        """LLVM's time over all cores plus the runs: what no collector can do without."""
        return self.llvm_s / self.builder.processes + self.run_s

    def close(self) -> None:
        """Ends the processes."""
        self.builder.close()
        self.runner.close()


def collect(kind: str, programs: list[Program], batch: int, target: str) -> dict[str, Any]:
    """One collector over all candidates; the seconds count the start of its processes."""
    start = time.perf_counter()
    collector = CosthubCollector(target) if kind == "costhub" else StockCollector(target, light=kind != "stock")
    batches = [programs[i : i + batch] for i in range(0, len(programs), batch)]
    latency_s = [s for part in batches for s in collector.measure(part)]
    seconds = time.perf_counter() - start
    collector.close()
    good = sum(s is not None for s in latency_s)
    row = {"collector": kind, "batch": batch, "good": good, "seconds": seconds, "good_per_s": good / seconds}
    click.echo("{collector:20} batch {batch:4}  {good:4} good  {good_per_s:6.2f} / s".format(**row))
    if isinstance(collector, CosthubCollector):
        row["floor_share"] = collector.floor_s() / seconds
    return {**row, "latency_s": latency_s}


def spearman(first: dict[str, Any], second: dict[str, Any]) -> float:
    """Of the latencies that both collectors have."""
    pairs = [(a, b) for a, b in zip(first["latency_s"], second["latency_s"], strict=True) if a and b]
    return rank_correlation(*zip(*pairs, strict=True))


@click.command()
@click.option("--quick", is_flag=True, help="Fewer candidates, small batches only.")
@click.option("--json", "path", type=click.Path(path_type=Path))
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
    result = {
        **machine.describe(),
        "candidates": everything,
        "batch": STOCK_BATCHES[0],
        **figures,
        "rows": rows,
    }
    click.echo("\n".join(f"{k:24} {v:.3f}" for k, v in figures.items()))
    if path:
        path.write_text(json.dumps(result, indent=1))


if __name__ == "__main__":
    main()
