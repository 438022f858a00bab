"""Measures how soon searches find what stock MetaSchedule finds with 512 trials, on new workloads."""

from __future__ import annotations

import json
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import click
import machine
from bench_models import read_rows
from embedded import copy_dataset
from final import best_modules, remeasure
from search_models import held_out, trained

from costhub.cards.search_table import LIGHT, search_table, summary

WORKLOADS = (
    "resnet18.c7",
    "matmul.512x512x512",
    "depthwise.28x256",
    "batch_matmul.12x128x128x64",
    "norm.layer-128x768",
    "metaschedule.c1d",
    "metaschedule.grp",
    "metaschedule.dil",
    "metaschedule.t2d",
    "softmax.512x512",
)
MILESTONES = (16, 32, 48, 64, 96, 128, 256, 512)
"""Trials after which the best program so far is measured again, beside all others."""
LINE = "{workload:28} {method:26} {trials:4} trials {seconds:7.1f} s {best_us:10.1f} us"


@dataclass(frozen=True)
class Method:
    """A search by search_once.py."""

    name: str
    call: str
    """What search_once.py takes."""
    trials: int
    models: tuple[str, ...] = ()
    """Of search_models.py."""


METHODS = (
    Method(LIGHT, LIGHT, 512),
    Method("random", "random", 128),
    Method("TenSet's MLP, fine-tuned", "fine-tune", 128, ("tenset",)),
    Method("costhub", "brief", 128, ("costhub",)),
    Method("costhub with a draft", "brief", 128, ("costhub", "draft")),
)
STOCK = Method("stock", "stock", 512)


def search(
    method: Method, workload: str, seed: int, out: Path, models: list[Path]
) -> list[tuple[int, float]]:
    """Runs search_once.py in a fresh process, so that no method profits from another's imports."""
    out.mkdir()
    script = Path(__file__).with_name("search_once.py")
    words = [method.call, workload, method.trials, seed, out, *models]
    done = subprocess.run(
        [sys.executable, str(script), *map(str, words)], check=True, stdout=subprocess.PIPE, text=True
    )
    return [(trials, seconds) for trials, seconds in json.loads(done.stdout.strip().splitlines()[-1])]


def compare(
    workload: str, seed: int, methods: Sequence[Method], data: Path, models: Path
) -> Iterator[dict[str, Any]]:
    """One row per method; what they found after each milestone is measured again, side by side."""
    without = held_out(data, {*WORKLOADS, workload})
    rounds, modules = {}, {}
    with tempfile.TemporaryDirectory() as folder:
        for number, method in enumerate(methods):
            folders = [trained(name, data, models, without) for name in method.models]
            out = Path(folder, str(number))
            rounds[method.name] = search(method, workload, seed, out, folders)
            for trials in MILESTONES:
                if trials <= method.trials:
                    modules[method.name, trials] = best_modules(out, workload, trials)
        best_us = remeasure(modules, workload)
    for method in methods:
        told = rounds[method.name]
        yield {
            "workload": workload,
            "method": method.name,
            "seed": seed,
            "trials": told[-1][0],
            "curve": [
                {
                    "trials": trials,
                    # A small design space ends before the last trial.
                    "seconds": next((s for n, s in told if n >= trials), told[-1][1]),
                    "best_us": best_us[method.name, trials],
                }
                for trials in MILESTONES
                if trials <= method.trials
            ],
        }  # fmt: skip


@click.command()
@click.option("--data", type=click.Path(path_type=Path), help="By default a copy of the embedded dataset.")
@click.option("--models", type=click.Path(path_type=Path), help="Where trained models are kept; by "
              "default they are not.")  # fmt: skip
@click.option("--workload", "workloads", multiple=True, default=WORKLOADS)
@click.option("--seeds", default=3, show_default=True)
@click.option("--stock", default=0, show_default=True, help="On so many workloads, stock MetaSchedule with "
              "its own imports searches too, with the first seed; ten minutes each.")  # fmt: skip
@click.option("--quick", is_flag=True, help="One workload and seed, costhub and random.")
@click.option("--rows", "rows_path", type=click.Path(path_type=Path), help="JSON lines; what is there is not "
              "done again.")  # fmt: skip
@click.option("--json", "path", type=click.Path(path_type=Path))
def main(
    data: Path | None,
    models: Path | None,
    workloads: tuple[str, ...],
    seeds: int,
    stock: int,
    quick: bool,
    rows_path: Path | None,
    path: Path | None,
) -> None:
    """Compares trials, seconds and latency; run it with nothing else on the machine."""
    methods = METHODS
    if quick:
        methods, workloads, seeds = (METHODS[0], METHODS[3]), workloads[:1], 1
    rows = read_rows(rows_path)
    with tempfile.TemporaryDirectory() as folder:
        data, models = data or copy_dataset(folder), models or Path(folder, "models")
        models.mkdir(exist_ok=True)
        for seed, workload in ((seed, workload) for seed in range(seeds) for workload in workloads):
            more = (STOCK,) if seed == 0 and workload in workloads[:stock] else ()
            wanted = (*methods, *more)
            there = {row["method"] for row in rows if (row["workload"], row["seed"]) == (workload, seed)}
            if {method.name for method in wanted} <= there:
                continue
            # All are measured again side by side, so a method that is added later brings the others along.
            rows = [row for row in rows if (row["workload"], row["seed"]) != (workload, seed)]
            found = list(compare(workload, seed, wanted, data, models))
            rows += found
            for row in found:
                click.echo(LINE.format(**{**row, **row["curve"][-1]}))
            if rows_path:
                rows_path.write_text("".join(json.dumps(row) + "\n" for row in rows))
    click.echo(search_table({"rows": rows, "summary": summary(rows)}))
    if path:
        result = {**machine.describe(), "summary": summary(rows), "rows": rows}
        path.write_text(json.dumps(result, indent=1) + "\n")


if __name__ == "__main__":
    main()
