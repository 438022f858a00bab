"""Measures the same candidates with costhub's collector and with TVM's own builder and runner."""

from __future__ import annotations

import json
import time
from pathlib import Path
from typing import Any

import click
import machine
from stock import measure_stock

from costhub.collector.builder import Builder
from costhub.collector.runner import Runner
from costhub.collector.sampler import Program, Sampler
from costhub.collector.suite import find_suites
from costhub.collector.target import local_target
from costhub.models.metrics import rank_correlation

WORKLOADS = (
    "resnet18.c6",
    "resnet18.c11",
    "matmul.256x256x256",
    "depthwise.28x256",
    "softmax.512x512",
    "norm.rms-128x2048",
)


def measure_costhub(programs: list[Program], target: str) -> dict[str, Any]:
    """Median seconds per program (None for a failure), and the seconds of the whole, processes' start included."""
    start = time.perf_counter()
    with Builder(target) as builder, Runner(target) as runner:
        builder.launch()
        runner.reference_s()
        ready = time.perf_counter()
        built = builder.build([p.module_json for p in programs])
        ran = [
            runner.run(b.artifact, p.arguments) if b.artifact else None
            for b, p in zip(built, programs, strict=True)
        ]
        end = time.perf_counter()
    latency = [sorted(r.run_s)[len(r.run_s) // 2] if r and r.run_s else None for r in ran]
    return {"latency_s": latency, "seconds": end - start, "seconds_after_start": end - ready}


@click.command()
@click.option("--quick", is_flag=True, help="Fewer candidates.")
@click.option("--json", "path", type=click.Path(path_type=Path))
def main(quick: bool, path: Path | None) -> None:
    """Compares rates and latencies; run it with nothing else on the machine."""
    target = json.dumps(local_target())
    programs = [
        p
        for w in find_suites(WORKLOADS)
        for p in Sampler(w.module(), target, seed=7).random(4 if quick else 16)
    ]
    ours = measure_costhub(programs, target)
    stock, strong = (measure_stock(programs, target, shim=shim) for shim in (False, True))
    rows = {"costhub": ours, "stock": stock, "stock_with_light_import": strong}
    good = {name: sum(s is not None for s in row["latency_s"]) for name, row in rows.items()}
    rate = {name: good[name] / row["seconds"] for name, row in rows.items()}
    pairs = [(a, b) for a, b in zip(ours["latency_s"], stock["latency_s"], strict=True) if a and b]
    result = {
        **machine.describe(), "candidates": len(programs), "good": good, "good_per_s": rate["costhub"],
        "good_per_s_after_start": good["costhub"] / ours["seconds_after_start"], "rates": rate,
        "ratio_to_stock": rate["costhub"] / rate["stock"],
        "ratio_to_strong_baseline": rate["costhub"] / rate["stock_with_light_import"],
        "spearman": rank_correlation([a for a, _ in pairs], [b for _, b in pairs]),
    }  # fmt: skip
    click.echo("\n".join(f"{k:26} {v}" for k, v in result.items()))
    if path:
        path.write_text(
            json.dumps({**result, "latency_s": {k: v["latency_s"] for k, v in rows.items()}}, indent=1)
        )


if __name__ == "__main__":
    main()
