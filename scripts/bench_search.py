"""Measures costhub's search with a pulled model beside stock MetaSchedule, same machine, one run."""

from __future__ import annotations

import json
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

import click
import machine
from final import best_modules, ratios, remeasure

WORKLOADS = (
    "resnet18.c7 matmul.512x512x512 depthwise.28x256 batch_matmul.12x128x128x64 norm.layer-128x768".split()
)
LINE = "{workload:28} {method:8} {trials:4} trials {seconds:7.1f} s  {best_us:10.1f} us"


def search(method: str, workload: str, trials: int, seed: int, out: Path, *model: str) -> list[list[float]]:
    """Runs search_once.py in a fresh process, so that neither method profits from the other's imports."""
    script = Path(__file__).with_name("search_once.py")
    command = [sys.executable, str(script), method, workload, str(trials), str(seed), str(out), *model]
    done = subprocess.run(command, check=True, stdout=subprocess.PIPE, text=True)
    rounds: list[list[float]] = json.loads(done.stdout.strip().splitlines()[-1])
    return rounds


def compare(workload: str, seed: int, most: int, model: str) -> list[dict[str, Any]]:
    """One row for costhub at 64 trials, and for stock at 64 and at `most`."""
    with tempfile.TemporaryDirectory() as folder:
        out = {method: Path(folder, method) for method in ("costhub", "stock")}
        out["stock"].mkdir()
        rounds = {
            "costhub": search("costhub", workload, 64, seed, out["costhub"], model),
            "stock": search("stock", workload, most, seed, out["stock"]),
        }
        # A run of 256 trials is, up to its 64th, a run of 64: the first round knows of no limit.
        cells = [("costhub", 64), *(("stock", trials) for trials in sorted({64, most}))]
        modules = {(m, trials): best_modules(out[m], workload, trials) for m, trials in cells}
        best_us = remeasure(modules, workload)
    return [
        {
            "workload": workload,
            "method": m,
            "trials": trials,
            # A small design space ends before the last trial.
            "seconds": next((s for done, s in rounds[m] if done >= trials), rounds[m][-1][1]),
            "best_us": best_us[m, trials],
            "seed": seed,
        }
        for m, trials in cells
    ]


@click.command()
@click.option("--model", default="amd-epyc-zen5-2c", show_default=True)
@click.option("--workload", "workloads", multiple=True, default=WORKLOADS)
@click.option("--seeds", default=1, show_default=True)
@click.option("--quick", is_flag=True, help="One workload, stock at 64 trials only.")
@click.option("--json", "path", type=click.Path(path_type=Path))
def main(model: str, workloads: tuple[str, ...], seeds: int, quick: bool, path: Path | None) -> None:
    """Compares best latency and seconds; run it with nothing else on the machine."""
    most, workloads = (64, workloads[:1]) if quick else (256, workloads)
    # A run takes half an hour: what a stopped one has written is not searched again.
    rows: list[dict[str, Any]] = json.loads(path.read_text())["rows"] if path and path.exists() else []
    done = {(row["workload"], row["seed"]) for row in rows}
    for workload, seed in ((w, s) for w in workloads for s in range(1, seeds + 1)):
        if (workload, seed) in done:
            continue
        found = compare(workload, seed, most, model)
        click.echo("\n".join(LINE.format(**row) for row in found))
        rows += found
        result = {**machine.describe(), "model": model, **ratios(rows, most)}
        if path:
            path.write_text(json.dumps({**result, "rows": rows}, indent=1))


if __name__ == "__main__":
    main()
