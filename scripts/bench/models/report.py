"""Draws and tabulates the rows of the benchmark of models: learning curves, ablations, differences."""

from __future__ import annotations

import statistics
from collections.abc import Callable
from pathlib import Path
from typing import Any

import click

from costhub.cards.tables import TableColumn, number, plain_table
from costhub.models.evaluate import METRICS
from scripts.bench.common import machine
from scripts.bench.common.rows import read_rows
from scripts.bench.models.grid import ALL, LOOPS, RELATION, STORE, TILES, TOKENS
from scripts.tables.gains import mean_with_error
from scripts.tables.models import of_whole_seeds, summaries
from scripts.tables.plots import plot_curves, plot_intervals

Row = dict[str, Any]
Side = tuple[str, str, str, str]
"""Model, objective, feature spec and variant."""
PAIRS: dict[str, tuple[Side, Side]] = {
    "tiles - per_store, trees": (("gbt", "log", TILES, ""), ("gbt", "log", STORE, "")),
    "tiles - per_store, MLP": (("mlp", "gap", TILES, ""), ("mlp", "gap", STORE, "")),
    "tiles - relation, trees": (("gbt", "log", TILES, ""), ("gbt", "log", RELATION, "")),
    "all three specs - tiles, trees": (("gbt", "log", ALL, ""), ("gbt", "log", TILES, "")),
    "rank - regression, trees": (("gbt", "rank", TILES, ""), ("gbt", "regression", TILES, "")),
    "log - regression, trees": (("gbt", "log", TILES, ""), ("gbt", "regression", TILES, "")),
    "lambdarank - rank, trees": (("gbt", "lambdarank", TILES, ""), ("gbt", "rank", TILES, "")),
    "rank - regression, MLP": (("mlp", "rank", TILES, ""), ("mlp", "regression", TILES, "")),
    "gap - regression, MLP": (("mlp", "gap", TILES, ""), ("mlp", "regression", TILES, "")),
    "MLP - trees": (("mlp", "gap", TILES, ""), ("gbt", "log", TILES, "")),
    "TreeGRU - trees": (("treegru", "gap", LOOPS, ""), ("gbt", "log", TILES, "")),
    "tokens - trees": (("tokens", "gap", TOKENS, ""), ("gbt", "log", TILES, "")),
    "blend - trees": (("blend", "", TILES, ""), ("gbt", "log", TILES, "")),
    "all devices - one, blend": (("conditioned", "", TILES, "all devices, blend"), ("blend", "", TILES, "")),
    "with failures - without, trees": (("gbt", "log", TILES, "with failures"), ("gbt", "log", TILES, "")),
    "blend - TVM recipe": (("blend", "", TILES, ""), ("TVM recipe", "", STORE, "")),
    "blend - TenSet recipe": (("blend", "", TILES, ""), ("TenSet recipe", "", STORE, "")),
}
"""Question -> two models; the difference is the first minus the second."""


def pairs(rows: list[Row]) -> list[Row]:
    """Differences of means over seeds on the same workloads, with the standard error over workloads."""
    differences = []
    for place in dict.fromkeys((row["device"], row["split"], row.get("also", "")) for row in rows):
        own = [row for row in rows if (row["device"], row["split"], row.get("also", "")) == place]
        for question, sides in PAIRS.items():
            values = [_by_workload(own, side) for side in sides]
            both = sorted(set(values[0]) & set(values[1]))
            for metric in METRICS if len(both) > 1 else ():
                mean, error = mean_with_error([values[0][w][metric] - values[1][w][metric] for w in both])
                differences.append(
                    {
                        "question": question,
                        "device": place[0],
                        "split": place[1],
                        "also": place[2],
                        "metric": metric,
                        "workloads": len(both),
                        "difference": mean,
                        "standard_error": error,
                    }
                )
    return differences


def _by_workload(rows: list[Row], side: Side) -> dict[str, dict[str, float]]:
    """Workload -> metric -> mean over seeds."""
    seen: dict[str, list[dict[str, float]]] = {}
    for row in rows:
        if tuple(row[key] for key in ("model", "objective", "spec", "variant")) == side:
            for place, name in enumerate(row["workload_ids"]):
                seen.setdefault(name, []).append({m: row["by_workload"][m][place] for m in METRICS})
    return {name: {m: statistics.fmean(each[m] for each in seeds) for m in METRICS} for name, seeds in seen.items()}


def learning(rows: list[Row], kind: str) -> list[Row]:
    """Curves of top-1 against the number of programs or workloads learned from, by `kind`."""
    size = "train_programs" if kind == "programs" else "train_workloads"
    curves: dict[tuple[str, str], list[tuple[float, float, float]]] = {}
    for line in summaries(row for row in rows if row["variant"].startswith(kind)):
        own = [row for row in rows if all(row[key] == line[key] for key in ("device", "split", "model", "variant"))]
        x = statistics.fmean(row[size] for row in own)
        label = f"{line['model']} {line['objective']}".strip()
        points = curves.setdefault((line["device"], label), [])
        if all(x != point[0] for point in points):  # small shares all leave two programs of a workload
            points.append((x, line["top_1"], line["top_1_se"] or 0.0))
    return [
        {
            "device": device,
            "label": label,
            **{key: [point[i] for point in sorted(points)] for i, key in enumerate(("x", "y", "se"))},
        }
        for (device, label), points in curves.items()
    ]


def _panels(curves: list[Row]) -> dict[str, list[Row]]:
    return {d: [c for c in curves if c["device"] == d] for d in dict.fromkeys(c["device"] for c in curves)}


def draw_learning(rows: list[Row], out: Path) -> dict[str, Any]:
    """Both learning curves as pictures; those of programs as the table."""
    for kind in ("programs", "workloads"):
        x = "programs learned from" if kind == "programs" else "workloads learned from"
        plot_curves(out.with_name(f"{out.stem}-{kind}.png"), _panels(learning(rows, kind)), x=x, y="top-1", log=True)
    return {"x": "programs", "y": "top-1", "curves": learning(rows, "programs")}


def draw_intervals(rows: list[Row], out: Path) -> dict[str, Any]:
    """Top-1 of every line with its standard error, coloured by feature spec."""
    table = summaries(rows)
    specs = list(dict.fromkeys(row["spec"] for row in table))
    panels: dict[str, list[Row]] = {}
    for row in table:
        label = " ".join(row[key] for key in ("model", "objective", "spec", "variant") if row[key])
        label += f" with {row['also']}" if row["also"] else ""
        title = f"{row['device']}\n{row['split']}"
        panels.setdefault(title, []).append(
            {
                "label": label,
                "value": row["top_1"],
                "error": row["top_1_se"],
                "colour": specs.index(row["spec"]),
            }
        )
    for title, lines in panels.items():
        name = "".join(letter if letter.isalnum() else "-" for letter in title)
        plot_intervals(out.with_name(f"{out.stem}-{name}.png"), {title: lines}, x="top-1, mean ± standard error")
    return {"summary": table}


REPORTS: dict[str, Callable[[list[Row], Path], dict[str, Any]]] = {
    "comparison": draw_intervals,
    "ablations": draw_intervals,
    "transfer": draw_intervals,
    "learning": draw_learning,
    "pairs": lambda rows, out: {"pairs": pairs(rows)},
}


_COLUMNS = (
    *(TableColumn(key, key) for key in ("device", "split", "model", "objective", "spec", "variant", "also")),
    *(number(key, key, ".3f") for key in ("top_1", "top_1_se", "top_5", "pairwise")),
)


REQUIRED = ("dataset", "device", "split", "fold", "seed", "model", *METRICS, "workload_ids", "by_workload")


def checked_rows(rows: list[Row], path: Path) -> list[Row]:
    """The rows; refuses one that lacks a key, and names the seeds that do not count for want of a fold.

    Raises:
        click.ClickException: A row lacks a key that docs/benchmark.md requires.
    """
    for line, row in enumerate(rows, start=1):
        if missing := [key for key in REQUIRED if key not in row]:
            raise click.ClickException(
                f"Line {line} of {path} lacks {', '.join(missing)}. docs/benchmark.md lists the keys of a line."
            )
    whole = {id(row) for row in of_whole_seeds(rows)}
    names = ("model", "objective", "spec", "variant")
    left = {
        f"{' '.join(filter(None, (row.get(name, '') for name in names)))} (seed {row['seed']}, {row['device']})"
        for row in rows
        if id(row) not in whole
    }
    if left:
        click.echo(f"Tables leave out seeds that lack folds: {', '.join(sorted(left))}.", err=True)
    return rows


@click.command()
@click.argument("kind", type=click.Choice(sorted(REPORTS)))
@click.option("--rows", "rows_path", required=True, type=click.Path(exists=True, path_type=Path))
@click.option("--json", "path", required=True, type=click.Path(path_type=Path), help="Pictures go beside it.")
def main(kind: str, rows_path: Path, path: Path) -> None:
    """Writes docs/results/model_KIND.json and its pictures from rows, and prints the table."""
    report = REPORTS[kind](checked_rows(read_rows(rows_path), rows_path), path)
    machine.write_result(path, report)
    if "summary" in report:
        click.echo(plain_table(sorted(report["summary"], key=lambda row: (row["device"], -row["top_1"])), _COLUMNS))
