"""Measures costhub's search with a pulled model beside stock MetaSchedule, same machine, one run."""

from __future__ import annotations

import json
import statistics
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

import click
import machine
from final import best_modules, remeasure

WORKLOADS = (
    "resnet18.c7",
    "matmul.512x512x512",
    "depthwise.28x256",
    "batch_matmul.12x128x128x64",
    "norm.512x512",
)


def search(
    method: str, workload: str, trials: int, seed: int, out: Path, *model: str
) -> list[tuple[int, float]]:
    """Runs search_once.py in a fresh process, so that neither method profits from the other's imports."""
    script = Path(__file__).with_name("search_once.py")
    command = [sys.executable, str(script), method, workload, str(trials), str(seed), str(out), *model]
    done = subprocess.run(command, check=True, capture_output=True, text=True)
    rounds: list[tuple[int, float]] = json.loads(done.stdout.strip().splitlines()[-1])
    return rounds


@click.command()
@click.option("--model", default="amd-epyc-zen5-2c", show_default=True)
@click.option("--workload", "workloads", multiple=True, default=WORKLOADS)
@click.option("--seeds", default=1, show_default=True)
@click.option("--quick", is_flag=True, help="One workload, stock at 64 trials only.")
@click.option("--json", "path", type=click.Path(path_type=Path))
def main(model: str, workloads: tuple[str, ...], seeds: int, quick: bool, path: Path | None) -> None:
    """Compares best latency and seconds; run it with nothing else on the machine."""
    most, workloads = (64, workloads[:1]) if quick else (256, workloads)
    rows: list[dict[str, Any]] = []
    for workload in workloads:
        for seed in range(1, seeds + 1):
            with tempfile.TemporaryDirectory() as folder:
                ours, theirs = Path(folder, "costhub"), Path(folder, "stock")
                theirs.mkdir()
                spent = {("costhub", 64): search("costhub", workload, 64, seed, ours, model)[-1][1]}
                rounds = search("stock", workload, most, seed, theirs)
                # A run of 256 trials is, up to its 64th, a run of 64: the first round knows of no limit.
                spent |= {("stock", trials): second for trials, second in rounds if trials in (64, most)}
                modules = {
                    key: best_modules(ours if key[0] == "costhub" else theirs, workload, key[1])
                    for key in spent
                }
                best = remeasure(modules, workload)
            for (method, trials), seconds in spent.items():
                rows.append({"workload": workload, "method": method, "trials": trials, "seconds": seconds,
                             "best_us": best[method, trials], "seed": seed})  # fmt: skip
                click.echo(
                    "{workload:28} {method:8} {trials:4} trials {seconds:7.1f} s  {best_us:10.1f} us".format(
                        **rows[-1]
                    )
                )
    result = {**machine.describe(), "rows": rows, **ratios(rows, most)}
    click.echo(json.dumps({k: v for k, v in result.items() if k != "rows"}, indent=1))
    if path:
        path.write_text(json.dumps(result, indent=1))


def ratios(rows: list[dict[str, Any]], most: int) -> dict[str, float]:
    """Geometric means of costhub at 64 trials against stock at `most`: latency, seconds, trials; below 1 is better."""
    cells = {(r["workload"], r["seed"], r["method"], r["trials"]): r for r in rows}
    pairs = [(r, cells[r["workload"], r["seed"], "stock", most]) for r in rows if r["method"] == "costhub"]
    keys = {"latency_ratio": "best_us", "time_ratio": "seconds", "trials_ratio": "trials"}
    return {
        name: statistics.geometric_mean([a[key] / b[key] for a, b in pairs]) for name, key in keys.items()
    }


if __name__ == "__main__":
    main()
