"""Measures how soon searches find what stock MetaSchedule finds with 512 trials, on new workloads."""

from __future__ import annotations

import json
import tempfile
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import click

from scripts.bench.common import machine, options
from scripts.bench.common.fresh import result_of
from scripts.bench.common.remeasure import ROUNDS, best_trace, remeasure, replayed
from scripts.bench.common.rows import read_rows
from scripts.bench.search.held_out import KINDS, WORKLOADS, UnseenModels
from scripts.bench.search.once import seconds_at
from scripts.tables.plots import plot_seconds, plot_stages, plot_trials
from scripts.tables.search import LIGHT, STOCK, but_stock, search_table, summary

ONCE = "scripts.bench.search.once"
MILESTONES = (16, 32, 48, 64, 96, 128, 256, 512)
"""Numbers of trials after which the best program so far is measured again, beside all others."""
LINE = "{workload:28} {method:26} {trials:4} trials {seconds:7.1f} s"


@dataclass(frozen=True)
class SearchMethod:
    """A search by `once.of_workload`."""

    name: str
    call: str
    """The name of the search in `once.of_workload`."""
    trials: int
    models: tuple[str, ...] = ()
    """Keys of `KINDS`."""


METHODS = (
    SearchMethod(LIGHT, LIGHT, 512),
    SearchMethod("random", "random", 128),
    SearchMethod("TenSet's MLP, fine-tuned", "fine-tune", 128, ("tenset",)),
    SearchMethod("costhub", "brief", 128, ("costhub",)),
    SearchMethod("costhub with a draft", "brief", 128, ("costhub", "draft")),
    SearchMethod("costhub, of other chips", "brief", 128, ("elsewhere",)),
)
AS_IT_IS = SearchMethod(STOCK, "stock", 512)
NAMES = [method.name for method in METHODS]
ON_ANY_DATA = [method.name for method in METHODS if all(KINDS[name].knows_this_chip for name in method.models)]
"""The others also need measurements of other chips, which the embedded dataset of this chip lacks."""


def searched(method: SearchMethod, workload: str, seed: int, models: Sequence[Path]) -> dict[str, Any]:
    """A row without latencies; the search runs in a fresh process, so that no search profits from another."""
    with tempfile.TemporaryDirectory() as folder:
        words = [method.call, workload, method.trials, seed, folder, *models]
        course = result_of(ONCE, "workload", *words)
        milestones = [trials for trials in MILESTONES if trials <= method.trials]
        best = {trials: best_trace(Path(folder), trials) for trials in milestones}
    programs = list(dict.fromkeys(best.values()))
    return {
        "workload": workload,
        "method": method.name,
        "seed": seed,
        "trials": course["rounds"][-1][0],
        "stages": course["stages"],
        "programs": programs,
        "curve": [
            {
                "trials": trials,
                "seconds": seconds_at(course["rounds"], trials),
                "program": programs.index(best[trials]),
            }
            for trials in milestones
        ],
    }


def measured_again(rows: Sequence[dict[str, Any]], rounds: int) -> list[dict[str, Any]]:
    """The rows with the latency of each best program so far.

    If a workload has a new row, all programs of that workload are measured in turn. Programs are compared
    within one workload only, so the other workloads keep their latencies.
    """
    new = {row["workload"] for row in rows if any("best_us" not in point for point in row["curve"])}
    programs = {(row["workload"], trace) for row in rows if row["workload"] in new for trace in row["programs"]}
    best_us = remeasure(replayed(programs), rounds) if programs else {}
    return [
        {**row, "curve": [with_latency(row, point, best_us) for point in row["curve"]]}
        if row["workload"] in new
        else row
        for row in rows
    ]


def with_latency(
    row: Mapping[str, Any], point: Mapping[str, Any], best_us: Mapping[tuple[str, str], float]
) -> dict[str, Any]:
    """A point of the curve of a row, with the latency in us of its program."""
    return {**point, "best_us": best_us[row["workload"], row["programs"][point["program"]]]}


def keep(rows: Sequence[dict[str, Any]], path: Path | None) -> None:
    """Writes the rows to the file, if one is given."""
    if path:
        part = path.with_name(f"{path.name}.part")
        part.write_text("".join(json.dumps(row) + "\n" for row in rows))
        part.replace(path)


def summaries(rows: Sequence[dict[str, Any]]) -> dict[str, Any]:
    """The gains of each method over stock with light imports, and over unchanged stock if that searched."""
    there = {(row["workload"], row["seed"]) for row in rows if row["method"] == STOCK}
    on_few = [row for row in rows if (row["workload"], row["seed"]) in there]
    beside_light = summary(but_stock(rows))
    ours = next((each for each in beside_light if each["method"] == "costhub"), None)
    ratios = {f"{what}_ratio": ours[f"{what}_gain"] for what in ("trials", "time")} if ours else {}
    return {**ratios, "summary": beside_light, "beside_stock": summary(on_few, STOCK)}


def without_programs(row: Mapping[str, Any]) -> dict[str, Any]:
    """A row for the results, with its final figures; only later methods need the programs."""
    kept = {name: value for name, value in row.items() if name != "programs"}
    return {**kept, **{name: row["curve"][-1][name] for name in ("seconds", "best_us")}}


def draw(rows: Sequence[dict[str, Any]], path: Path) -> None:
    """Draws the pictures beside the result file."""
    compared = but_stock(rows)
    plot_trials(path.with_name(f"{path.stem}-trials.png"), compared)
    plot_seconds(path.with_name(f"{path.stem}-seconds.png"), compared)
    plot_stages(path.with_name(f"{path.stem}-stages.png"), rows)


@click.command()
@options.data()
@options.models_folder()
@options.workloads(WORKLOADS)
@click.option("--method", "chosen", multiple=True, type=click.Choice(NAMES), default=ON_ANY_DATA)
@options.seeds(3)
@click.option(
    "--stock",
    default=0,
    show_default=True,
    help="On so many workloads, stock MetaSchedule with "
    "its own imports searches too, with the first seed; ten minutes each.",
)
@click.option(
    "--rounds",
    default=ROUNDS,
    show_default=True,
    help="In which all of the workloads with new searches is measured again; 0 only searches.",
)
@options.quick("One workload and seed, stock and costhub.")
@options.rows_file()
@options.json_file()
def main(
    data: Path | None,
    models: Path | None,
    workloads: tuple[str, ...],
    chosen: tuple[str, ...],
    seeds: int,
    stock: int,
    rounds: int,
    quick: bool,
    rows_path: Path | None,
    path: Path | None,
) -> None:
    """Compares trials, seconds and latency; run it with nothing else on the machine."""
    methods = tuple(each for each in METHODS if each.name in chosen)
    if quick:
        methods, workloads, seeds = (METHODS[0], METHODS[3]), workloads[:1], 1
    rows = read_rows(rows_path)
    with tempfile.TemporaryDirectory() as folder:
        unseen = UnseenModels(data, models, folder, workloads)
        for seed, workload in ((seed, workload) for seed in range(seeds) for workload in workloads):
            more = (AS_IT_IS,) if seed == 0 and workload in workloads[:stock] else ()
            there = {row["method"] for row in rows if (row["workload"], row["seed"]) == (workload, seed)}
            missing = [each for each in (*methods, *more) if each.name not in there]
            for method in missing:
                row = searched(method, workload, seed, [unseen.folder(name) for name in method.models])
                rows.append(row)
                keep(rows, rows_path)
                click.echo(LINE.format(**{**row, **row["curve"][-1]}))
    if not rounds:
        return
    rows = measured_again(rows, rounds)
    keep(rows, rows_path)
    rows = [without_programs(row) for row in rows]
    result = {**summaries(rows), "rows": rows}
    click.echo(search_table(result))
    machine.write_result(path, result)
    if path:
        draw(rows, path)
