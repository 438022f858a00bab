"""Draws and tabulates the rows of the benchmark of models: learning curves, ablations, differences, choices."""

from __future__ import annotations

import json
import math
import re
import statistics
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import click
import numpy as np

from costhub.cards.tables import TableColumn, number, plain_table
from costhub.models.evaluate import METRICS
from scripts.bench.common import machine
from scripts.bench.common.rows import read_rows
from scripts.bench.models.grid import ALL, CHOICES, LOOPS, RELATION, STORE, TILES, TOKENS, GridEntry
from scripts.bench.models.tasks import VALIDATION
from scripts.release.train import MANY
from scripts.tables.gains import mean_with_error
from scripts.tables.models.comparison import of_whole_seeds, summaries
from scripts.tables.plots import plot_curves, plot_intervals
from scripts.tables.release import choices_table

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

POINT = re.compile(r"(?:(?P<name>.+), )?(?P<kind>programs|workloads) (?P<size>[\d/]+)")
"""The variant of a line of a learning grid, such as `programs 1/4` or `blend, workloads 1/8`."""
WHOLE = "1/1"
"""The size of all the data."""
SIZES = {"programs": "train_programs", "workloads": "train_workloads"}
"""Kind of a curve -> the key of what a row learned from."""
DRAWN = {"top_1": ("top-1", ""), "pairwise": ("pairs in order", "-pairs")}
"""Metric -> what a picture calls it, and the end of the picture's name."""
LINE = ("dataset", "device", "split", "also", "model", "objective", "spec", "variant")
"""The keys of a row that all seeds of a line share."""
DOUBLINGS = 2
LAST, BEFORE, BEND = "last two doublings", "before", "bend"
"""Parts of a curve, and how their slopes differ."""
NEAR = 0.25
"""By how many doublings a size may miss the border of two parts: numbers of workloads are no powers of two."""
Curve = tuple[str, str, str, str]
"""Device, split, label and kind."""
CHOSEN_BY = ("pairwise", "top_1")
"""The figures on validation workloads that may decide a choice."""
TESTED = machine.RESULTS / "model_ablations.json"
"""The figures by which the shipped settings were chosen."""


@dataclass(frozen=True)
class Point:
    """What learning from one size of the data came to."""

    about: Row
    """What was learned from, and the figures."""
    by_workload: Mapping[str, Mapping[str, float]]
    """Workload -> metric -> mean over seeds."""


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


def _by_workload(rows: Sequence[Mapping[str, Any]], side: Side) -> dict[str, dict[str, float]]:
    """Workload -> metric -> mean over seeds."""
    seen: dict[str, list[dict[str, float]]] = {}
    for row in rows:
        if tuple(row[key] for key in ("model", "objective", "spec", "variant")) == side:
            for place, name in enumerate(row["workload_ids"]):
                seen.setdefault(name, []).append({m: row["by_workload"][m][place] for m in METRICS})
    return {name: {m: statistics.fmean(each[m] for each in seeds) for m in METRICS} for name, seeds in seen.items()}


def choices(rows: list[Row], published: Sequence[Row]) -> dict[str, Any]:
    """Which setting of each choice validation prefers, and how it and the shipped one do on the tested workloads.

    `flattery` is by how much the shipped setting is ahead of the preferred one on the tested workloads, where the
    shipped one was chosen; `lead` is by how much the preferred one is ahead on the validation workloads.

    Args:
        rows: Of a split of VALIDATION, and of MANY as far as there are any.
        published: A summary of rows of MANY, for the lines that have no rows. Its errors are not of differences.

    Raises:
        click.ClickException: No row is of validation workloads.
    """
    own = [row for row in rows if not row.get("also")]
    places = dict.fromkeys((row["device"], row["split"]) for row in own if VALIDATION.fullmatch(row["split"]))
    if not places:
        raise click.ClickException(
            "No row is of validation workloads. To make some, run "
            "`python -m scripts.bench models --grid choices --split validation-40 --rows FILE`."
        )
    lines: list[Row] = []
    together: list[Row] = []
    for device, split in places:
        at = {name: [r for r in own if (r["device"], r["split"]) == (device, name)] for name in (split, MANY)}
        known = [line for line in published if (line["device"], line["split"], line["also"]) == (device, MANY, "")]
        found = [each for name in CHOICES for each in _choice(name, at[split], at[MANY], known)]
        about = {"device": device, "split": split, "tested": MANY}
        lines += [{**about, **line} for line, _ in found]
        together += [{**about, **line} for line in _together(found)]
    return {"choices": lines, "together": together}


def _choice(
    name: str, validated: list[Row], tested: list[Row], published: Sequence[Row]
) -> Iterator[tuple[Row, Mapping[str, float]]]:
    """A line for each figure that may decide, with the flattery of every tested workload as far as rows say it.

    Settings without rows cannot be chosen; without the shipped one and another there is nothing to compare.
    """
    choice = CHOICES[name]
    sides = {setting: _side(entry) for setting, entry in choice.settings.items()}
    seeds = {setting: {row["seed"] for row in validated if _is_of(row, side)} for setting, side in sides.items()}
    present = [setting for setting in sides if seeds[setting]]
    # A setting that lacks a seed lacks the workloads that this seed drew.
    common: set[int] = set.intersection(*(seeds[setting] for setting in present)) if present else set()
    if choice.shipped not in present or len(present) < 2 or not common:
        return
    rows = [row for row in validated if row["seed"] in common]
    figures = {setting: _by_workload(rows, sides[setting]) for setting in present}
    for metric in CHOSEN_BY:
        means = {setting: _mean_of(figures[setting], metric) for setting in present}
        chosen = max(present, key=means.__getitem__)
        leads = _ahead(figures[chosen], figures[choice.shipped], metric)
        lead, error = mean_with_error(list(leads.values()))
        on_tested, flattery = _on_tested(sides[chosen], sides[choice.shipped], metric, tested, published)
        line: Row = {"choice": name, "model": choice.model, "metric": metric, "validation": means}
        line |= {"workloads": len(leads), "seeds": len(common), "lead": lead, "lead_se": error}
        yield {**line, "chosen": chosen, "shipped": choice.shipped, **on_tested}, flattery


def _side(entry: GridEntry) -> Side:
    return entry.model, entry.objective, entry.spec, entry.variant


def _is_of(row: Row, side: Side) -> bool:
    return tuple(row[key] for key in ("model", "objective", "spec", "variant")) == side


def _mean_of(by_workload: Mapping[str, Mapping[str, float]], metric: str) -> float:
    return statistics.fmean(figures[metric] for figures in by_workload.values())


def _ahead(
    first: Mapping[str, Mapping[str, float]], other: Mapping[str, Mapping[str, float]], metric: str
) -> dict[str, float]:
    """By how much a metric of one model is above that of another, by workload."""
    return {name: first[name][metric] - other[name][metric] for name in sorted(set(first) & set(other))}


def _on_tested(
    chosen: Side, shipped: Side, metric: str, tested: list[Row], published: Sequence[Row]
) -> tuple[Row, Mapping[str, float]]:
    """The figures of two models on the tested workloads and their difference, from rows or else from a summary.

    The difference of two means of a summary has the error of independent ones, which is too large: what makes a
    workload hard for one model makes it hard for the other.
    """
    values = [_by_workload(tested, side) for side in (chosen, shipped)]
    flattery = _ahead(values[1], values[0], metric)
    if flattery:
        means = [statistics.fmean(each[name][metric] for name in flattery) for each in values]
        error = mean_with_error(list(flattery.values()))[1]
    else:
        lines = [line for side in (chosen, shipped) for line in published if _is_of(line, side)]
        if len(lines) != 2:
            unknown: Row = dict.fromkeys(("tested_chosen", "tested_shipped", "flattery", "flattery_se"))
            return {**unknown, "paired": False}, {}
        means = [line[metric] for line in lines]
        error = 0.0 if chosen == shipped else math.hypot(*(line[f"{metric}_se"] for line in lines))
    figures = {"tested_chosen": means[0], "tested_shipped": means[1], "flattery": means[1] - means[0]}
    return {**figures, "flattery_se": error, "paired": bool(flattery)}, flattery


def _together(found: Sequence[tuple[Row, Mapping[str, float]]]) -> Iterator[Row]:
    """The flattery of all choices of an architecture, if they add up; its error needs the rows of all of them."""
    for model, metric in dict.fromkeys((line["model"], line["metric"]) for line, _ in found):
        own = [each for each in found if (each[0]["model"], each[0]["metric"]) == (model, metric)]
        changed = [(line, by_workload) for line, by_workload in own if line["chosen"] != line["shipped"]]
        known = [line["flattery"] for line, _ in changed]
        parts = [by_workload for _, by_workload in changed]
        error = None
        if parts and all(parts):
            both: set[str] = set.intersection(*map(set, parts))
            error = mean_with_error([math.fsum(part[name] for part in parts) for name in sorted(both)])[1]
        total = None if None in known else math.fsum(known)
        about = {"model": model, "metric": metric, "choices": len(own), "changed": len(changed)}
        yield {**about, "flattery": total, "flattery_se": error}


def curves_of(rows: list[Row]) -> dict[Curve, list[Point]]:
    """The points of every learning curve, the smallest first; all the data are a point of both kinds."""
    curves: dict[Curve, list[Point]] = {}
    whole = of_whole_seeds(rows)
    for line in summaries(whole):
        found = POINT.match(line["variant"])
        if found is None:
            continue
        own = [row for row in whole if all(str(row.get(key, "")) == line[key] for key in LINE)]
        label = " ".join(filter(None, (line["model"], found["name"], line["objective"])))
        label += f" with {line['also']}" if line["also"] else ""
        about: Row = {
            **{"device": line["device"], "split": line["split"], "label": label},
            **{"kind": found["kind"], "size": found["size"]},
            **{kind: statistics.fmean(row[key] for row in own) for kind, key in SIZES.items()},
            **{"tested": line["workloads"], "seeds": line["seeds"]},
            **{key: line[key] for metric in METRICS for key in (metric, f"{metric}_se")},
        }
        side = line["model"], line["objective"], line["spec"], line["variant"]
        point = Point(about, _by_workload(own, side))
        for kind in tuple(SIZES) if found["size"] == WHOLE else (found["kind"],):
            curves.setdefault((line["device"], line["split"], label, kind), []).append(point)
    return {curve: _by_size(points, curve[-1]) for curve, points in curves.items()}


def _by_size(points: list[Point], kind: str) -> list[Point]:
    """The points by what they learned from; small shares that all leave two programs of a workload are one point."""
    by_size: dict[float, Point] = {}
    for point in points:
        by_size.setdefault(point.about[kind], point)
    return [by_size[size] for size in sorted(by_size)]


def learning(curves: Mapping[Curve, list[Point]], kind: str, metric: str) -> list[Row]:
    """The curves of a metric against the number of programs or workloads learned from, by `kind`."""
    return [
        {
            **{"device": device, "split": split, "label": label},
            "x": [point.about[kind] for point in points],
            "y": [point.about[metric] for point in points],
            "se": [point.about[f"{metric}_se"] or 0.0 for point in points],
        }
        for (device, split, label, own_kind), points in curves.items()
        if own_kind == kind
    ]


def slopes(curves: Mapping[Curve, list[Point]]) -> list[Row]:
    """What each doubling of the data gives, in points of a hundred: at the end of a curve, before it, and the bend.

    The bend is the slope at the end less the one before. Errors are over the tested workloads, each of which has a
    slope of its own.
    """
    found: list[Row] = []
    for (device, split, label, kind), points in curves.items():
        about = {"device": device, "split": split, "label": label, "kind": kind}
        parts = {name: own for name, own in _ends(points, kind).items() if len(own) > 1}
        for metric in DRAWN:
            each = {name: _slope_by_workload(own, kind, metric) for name, own in parts.items()}
            if len(each) == 2:
                each[BEND] = {w: slope - each[BEFORE][w] for w, slope in each[LAST].items() if w in each[BEFORE]}
            for part, slope_of in each.items():
                mean, error = mean_with_error(list(slope_of.values()))
                line: Row = {**about, "metric": metric, "part": part, "points": mean, "standard_error": error}
                sizes = [point.about[kind] for point in parts.get(part, points)]
                found.append({**line, "from": sizes[0], "to": sizes[-1], "workloads": len(slope_of)})
    return found


def _ends(points: list[Point], kind: str) -> dict[str, list[Point]]:
    """The points before the last doublings, and from there on; the one between belongs to both."""
    left = [math.log2(points[-1].about[kind] / point.about[kind]) for point in points]
    return {
        BEFORE: [point for point, doublings in zip(points, left, strict=True) if doublings >= DOUBLINGS - NEAR],
        LAST: [point for point, doublings in zip(points, left, strict=True) if doublings <= DOUBLINGS + NEAR],
    }


def _slope_by_workload(points: list[Point], kind: str, metric: str) -> dict[str, float]:
    """Workload -> points of a hundred per doubling, by least squares."""
    tested = [name for name in points[0].by_workload if all(name in point.by_workload for point in points)]
    x = np.log2([point.about[kind] for point in points])
    x -= x.mean()
    y = np.array([[point.by_workload[name][metric] for name in tested] for point in points])
    return dict(zip(tested, (100.0 * (x @ y) / (x @ x)).tolist(), strict=True))


def _panels(curves: list[Row]) -> dict[str, list[Row]]:
    panels: dict[str, list[Row]] = {}
    for curve in curves:
        panels.setdefault(f"{curve['device']}\n{curve['split']}", []).append(curve)
    return panels


def draw_learning(rows: list[Row], out: Path) -> dict[str, Any]:
    """Learning curves as pictures; those of top-1 against programs, all points, and all slopes as figures."""
    curves = curves_of(rows)
    for kind in SIZES:
        for metric, (title, suffix) in DRAWN.items():
            panels = _panels(learning(curves, kind, metric))
            place = out.with_name(f"{out.stem}-{kind}{suffix}.png")
            plot_curves(place, panels, x=f"{kind} learned from", y=title, log=True)
    points = [point.about for curve, own in curves.items() for point in own if point.about["kind"] == curve[-1]]
    top_1 = learning(curves, "programs", "top_1")
    return {"x": "programs", "y": "top-1", "curves": top_1, "learned": points, "slopes": slopes(curves)}


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
    "choices": lambda rows, out: choices(rows, json.loads(TESTED.read_text(encoding="utf-8"))["summary"]),
}


_COLUMNS = (
    *(TableColumn(key, key) for key in ("device", "split", "model", "objective", "spec", "variant", "also")),
    *(number(key, key, ".3f") for key in ("top_1", "top_1_se", "top_5", "pairwise")),
)
_SLOPES = (
    *(TableColumn(key, key) for key in ("device", "split", "label", "kind", "metric", "part")),
    *(number(key, key, ",.0f") for key in ("from", "to")),
    number("points", "points per doubling", "+.2f"),
    number("standard_error", "se", ".2f"),
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
    if "choices" in report:
        click.echo(choices_table(report))
    if "slopes" in report:
        click.echo(plain_table(report["slopes"], _SLOPES))
    if "summary" in report:
        click.echo(plain_table(sorted(report["summary"], key=lambda row: (row["device"], -row["top_1"])), _COLUMNS))
