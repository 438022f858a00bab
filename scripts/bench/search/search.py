"""Measures how soon searches find what stock MetaSchedule finds with 512 trials, on new workloads."""

from __future__ import annotations

import json
import re
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import click

from scripts.bench.common import machine, options
from scripts.bench.common.kept_searches import kept_course, stock_folder
from scripts.bench.common.remeasure import ROUNDS, best_traces, remeasure, replayed
from scripts.bench.common.rows import read_rows
from scripts.bench.search.held_out import KINDS, WORKLOADS, UnseenModels
from scripts.bench.search.once import COMMAND, seconds_at
from scripts.tables.plots import plot_seconds, plot_stages, plot_trials
from scripts.tables.search import LIGHT, STOCK, but_stock, search_table, summary

MILESTONES = (16, 32, 48, 64, 96, 128, 256, 512)
"""Numbers of trials after which the best program so far is measured again, beside all others."""
LINE = "{workload:28} {method:34} {trials:4} trials {seconds:7.1f} s, {failures} failed"
QUICK_TRIALS = 32


@dataclass(frozen=True)
class SearchMethod:
    """A search by `once.of_workload`."""

    name: str
    call: str
    """The name of the search in `once.of_workload`."""
    trials: int
    models: tuple[str, ...] = ()
    """Keys of `KINDS`: the model, and perhaps a draft. Without one, costhub's scores are random."""
    options: Mapping[str, Any] = field(default_factory=dict)
    """Of `TuneOptions`, where they are not those of `costhub tune`."""
    is_unseen: bool = True
    """Whether the hub's schedules of the workloads are held out."""

    def folder(self, searches: Path, workload: str, seed: int) -> Path:
        """Where its search is kept; that of stock is where `zero-trials` looks for it."""
        if self.name == LIGHT:
            return stock_folder(searches, workload, seed)
        word = re.sub(r"[^a-z0-9]+", "-", AS_IT_IS_FOLDER if self.name == STOCK else self.name.lower())
        return searches / f"{workload}-{word}-{seed}"

    def words(self, unseen: UnseenModels) -> list[str]:
        """What `once.of_workload` is told beside the search itself."""
        if self.call != COMMAND:
            return []
        settings: dict[str, Any] = {"without": sorted(unseen.without)} if self.is_unseen else {}
        settings |= dict(zip(("model", "draft"), (str(unseen.folder(name)) for name in self.models), strict=False))
        return [json.dumps({**settings, **self.options})]


AS_IT_IS_FOLDER = "unmodified"
"""In the names of folders, since `stock` is that of `LIGHT`."""
OURS = ("costhub",)
METHODS = (
    SearchMethod(LIGHT, LIGHT, 512),
    SearchMethod("random", "random", 128),
    SearchMethod("TenSet's MLP, fine-tuned", COMMAND, 128, ("tenset",), {"method": "fine-tune"}),
    SearchMethod("costhub", COMMAND, 128, OURS),
    SearchMethod("costhub with a draft", COMMAND, 128, ("costhub", "draft")),
    SearchMethod("costhub, of other chips", COMMAND, 128, ("elsewhere",)),
)
NEAR = {"sources": ["measured", "carried"]}
DESCENT = {"descends": True}
PARTS = (
    SearchMethod("costhub, random scores", COMMAND, 64),
    SearchMethod("costhub, schedules of near workloads", COMMAND, 64, OURS, NEAR),
    SearchMethod("costhub, neighbours of the fastest", COMMAND, 64, OURS, DESCENT),
    SearchMethod("costhub, near schedules and neighbours", COMMAND, 64, OURS, {**NEAR, **DESCENT}),
    SearchMethod("costhub, schedules of the workload", COMMAND, 64, OURS, is_unseen=False),
)
"""What each part of a search is worth: `costhub` with one part less, or with one that `costhub tune` does not have."""
AS_IT_IS = SearchMethod(STOCK, "stock", 512)
NAMES = [method.name for method in (*METHODS, *PARTS)]
ON_ANY_DATA = [method.name for method in METHODS if all(KINDS[name].knows_this_chip for name in method.models)]
"""The others also need measurements of other chips, which the embedded dataset of this chip lacks."""


def searched(method: SearchMethod, workload: str, seed: int, unseen: UnseenModels, searches: Path) -> dict[str, Any]:
    """A row without latencies; the search runs in a fresh process, so that no search profits from another."""
    folder = method.folder(searches, workload, seed)
    words = [method.call, workload, method.trials, seed, folder, *method.words(unseen)]
    course = kept_course(folder, "workload", *words)
    best = best_traces(folder, [trials for trials in MILESTONES if trials <= method.trials])
    programs = list(dict.fromkeys(best.values()))
    return {
        "workload": workload,
        "method": method.name,
        "seed": seed,
        "trials": course["rounds"][-1][0],
        "failures": course["failures"],
        "before_s": course["before_s"],
        "exit_s": course["exit_s"],
        "stages": course["stages"],
        "programs": programs,
        "curve": [
            {
                "trials": trials,
                "seconds": (seconds := seconds_at(course["rounds"], trials)),
                "process_s": course["before_s"] + seconds,
                "program": programs.index(trace),
            }
            for trials, trace in best.items()
        ],
    }


def asked_for(
    methods: Sequence[SearchMethod], workloads: Sequence[str], seeds: int, part_seeds: int, stock: int
) -> Iterator[tuple[SearchMethod, str, int]]:
    """The searches, seed by seed and workload by workload, so that those that are compared follow one another closely.

    Args:
        methods: How to search.
        workloads: What for.
        seeds: How many for each workload.
        part_seeds: The same, for `PARTS`.
        stock: On how many workloads unmodified stock searches as well, with the first seed.
    """
    for seed, workload in ((seed, workload) for seed in range(max(seeds, part_seeds)) for workload in workloads):
        for method in methods:
            if seed < (part_seeds if method in PARTS else seeds):
                yield method, workload, seed
        if seed == 0 and workload in workloads[:stock]:
            yield AS_IT_IS, workload, seed


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
@click.option(
    "--method",
    "chosen",
    multiple=True,
    type=click.Choice(NAMES),
    default=ON_ANY_DATA,
    help="A search; those that are `costhub` but for one part are done only if named.",
)
@options.seeds(3)
@click.option(
    "--part-seeds",
    default=1,
    show_default=True,
    type=click.IntRange(min=1),
    help="Of the searches that are `costhub` but for one part.",
)
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
@click.option(
    "--searches",
    type=options.PATH,
    help="Where databases are kept; a search that is there is not done again. `zero-trials` can share the folder.",
)
@options.quick(f"One workload and seed, stock and costhub, {QUICK_TRIALS} trials.")
@options.rows_file()
@options.json_file()
def main(
    data: Path | None,
    models: Path | None,
    workloads: tuple[str, ...],
    chosen: tuple[str, ...],
    seeds: int,
    part_seeds: int,
    stock: int,
    rounds: int,
    searches: Path | None,
    quick: bool,
    rows_path: Path | None,
    path: Path | None,
) -> None:
    """Compares trials, seconds and latency; run it with nothing else on the machine."""
    methods = tuple(each for each in (*METHODS, *PARTS) if each.name in chosen)
    if quick:
        methods = tuple(replace(each, trials=QUICK_TRIALS) for each in (METHODS[0], METHODS[3]))
        # Rows of full searches would be taken for those of short ones, and the reverse.
        workloads, seeds, rounds, searches, rows_path = workloads[:1], 1, min(rounds, 2), None, None
    rows = read_rows(rows_path)
    with tempfile.TemporaryDirectory() as folder:
        unseen = UnseenModels(data, models, folder, workloads)
        for method, workload, seed in asked_for(methods, workloads, seeds, part_seeds, stock):
            if (method.name, workload, seed) not in {(row["method"], row["workload"], row["seed"]) for row in rows}:
                row = searched(method, workload, seed, unseen, searches or Path(folder, "searches"))
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
