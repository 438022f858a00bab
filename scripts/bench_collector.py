"""Measures the same candidates, in batches, with costhub's collector and with TVM's builder and runner."""

from __future__ import annotations

import json
import statistics
import time
from pathlib import Path
from typing import Any

import click
import machine
from stock import StockCollector

from costhub.collector.builder import Builder
from costhub.collector.runner import Runner
from costhub.collector.sampler import Program, Sampler
from costhub.collector.suite import find_suites
from costhub.collector.target import local_target
from costhub.models.metrics import rank_correlation

WORKLOADS = (
    "resnet18.c6", "resnet18.c11", "matmul.256x256x256", "batch_matmul.12x128x128x64",
    "depthwise.28x256", "pointwise.14x96x576", "softmax.64x1000", "norm.rms-128x2048",
)  # fmt: skip
BATCHES = (16, 64)  # what `costhub tune` and what MetaSchedule measure at a time


class Costhub:
    """costhub's collector behind the interface of StockCollector."""

    def __init__(self, target: str) -> None:
        self.builder, self.runner = Builder(target), Runner(target)
        self.builder.launch()
        self.runner.launch()

    def measure(self, programs: list[Program]) -> list[float | None]:
        """Median seconds per program; None for a failure."""
        built = self.builder.build([p.module_json for p in programs])
        pairs = zip(built, programs, strict=True)
        ran = [self.runner.run(b.artifact, p.arguments) if b.artifact else None for b, p in pairs]
        return [statistics.median(r.run_s) if r and r.run_s else None for r in ran]

    def close(self) -> None:
        """Ends the processes."""
        self.builder.close()
        self.runner.close()


def collect(kind: str, programs: list[Program], batch: int, target: str) -> dict[str, Any]:
    """One collector over all candidates; the seconds count the start of its processes."""
    start = time.perf_counter()
    collector = Costhub(target) if kind == "costhub" else StockCollector(target, light=kind != "stock")
    batches = [programs[i : i + batch] for i in range(0, len(programs), batch)]
    latency_s = [s for part in batches for s in collector.measure(part)]
    seconds = time.perf_counter() - start
    collector.close()
    good = sum(s is not None for s in latency_s)
    row = {"collector": kind, "batch": batch, "good": good, "seconds": seconds, "good_per_s": good / seconds}
    click.echo("{collector:24} batch {batch:3}  {good:4} good  {good_per_s:6.2f} / s".format(**row))
    return {**row, "latency_s": latency_s}


@click.command()
@click.option("--quick", is_flag=True, help="Fewer candidates, small batches only.")
@click.option("--json", "path", type=click.Path(path_type=Path))
def main(quick: bool, path: Path | None) -> None:
    """Compares rates and latencies; run it with nothing else on the machine."""
    target = json.dumps(local_target())
    samplers = [Sampler(w.module(), target, seed=7) for w in find_suites(WORKLOADS)]
    programs = [p for sampler in samplers for p in sampler.random(4 if quick else 16)]
    kinds = ("costhub", "stock", "stock_light_import")
    rows = [collect(k, programs, b, target) for b in (BATCHES[:1] if quick else BATCHES) for k in kinds]
    ours, stock, light = rows[:3]
    pairs = [(a, b) for a, b in zip(ours["latency_s"], stock["latency_s"], strict=True) if a and b]
    figures = {
        "good_per_s": ours["good_per_s"],
        "ratio_to_stock": ours["good_per_s"] / stock["good_per_s"],
        "ratio_to_strong_baseline": ours["good_per_s"] / light["good_per_s"],
        "spearman": rank_correlation(*zip(*pairs, strict=True)),
    }
    result = {**machine.describe(), "candidates": len(programs), "batch": BATCHES[0], **figures, "rows": rows}
    click.echo("\n".join(f"{k:24} {v:.3f}" for k, v in figures.items()))
    if path:
        path.write_text(json.dumps(result, indent=1))


if __name__ == "__main__":
    main()
