"""Tabulates transfer: means and standard errors over seeds, for each pair, method and number of trials."""

from __future__ import annotations

import statistics
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

from costhub.cards.ablation_table import ablations_table
from costhub.cards.controller_table import controller_table
from costhub.cards.gains import mean_with_error
from costhub.cards.live_transfer_table import live_transfer_table
from costhub.cards.selection_table import selection_table
from costhub.cards.strategies_table import strategies_table
from costhub.cards.tables import Column, markdown_table, number

METRICS = ("top_1", "top_5", "pairwise")
EVERYTHING = "all of the target"
"""The method that learns from every program of the target, whose number depends on the seed."""
KEY = ("source", "target", "method", "part", "trials")
"""What tells the lines of the table apart."""


def summaries(rows: Iterable[Mapping[str, Any]]) -> list[dict[str, Any]]:
    """One line per KEY, in the order in which they come first.

    Args:
        rows: With KEY, `seed` and METRICS.

    Returns:
        KEY, `seeds`, and of each metric the mean and its standard error over seeds (`top_1_se`), which is
        None for a single seed.
    """
    groups: dict[tuple[Any, ...], list[Mapping[str, Any]]] = {}
    for row in rows:
        groups.setdefault(tuple(row[key] for key in KEY), []).append(row)
    found = []
    for key, own in groups.items():
        line = {**dict(zip(KEY, key, strict=True)), "seeds": len({row["seed"] for row in own})}
        for metric in METRICS:
            values = [row[metric] for row in own]
            line[metric], line[f"{metric}_se"] = mean_with_error(values)
        found.append(line)
    return found


def transfer_table(result: Mapping[str, Any]) -> str:
    """One table per pair: whole models against trials, top-1 / top-5 / pairwise as means over seeds."""
    pairs: dict[tuple[str, str], list[Mapping[str, Any]]] = {}
    for line in result["summary"]:
        if not line["part"]:
            pairs.setdefault((line["source"], line["target"]), []).append(line)
    return "\n\n".join(_of_pair(*pair, lines) for pair, lines in pairs.items())


def _of_pair(source: str, target: str, lines: list[Mapping[str, Any]]) -> str:
    trials = sorted({line["trials"] for line in lines if line["method"] != EVERYTHING})
    rows: dict[str, dict[str, Any]] = {}
    for line in lines:
        place = EVERYTHING if line["method"] == EVERYTHING else str(line["trials"])
        # How much all of the target is depends on the seed; its mean is that of one seed each.
        cell = " / ".join(f"{line[metric]:.3f}" for metric in METRICS)
        row = rows.setdefault(line["method"], {"method": line["method"]})
        row[place] = f"{row[place]}; {cell}" if place in row else cell
    columns = [Column("method", "method")]
    columns += [Column(str(count), f"{count:,} trials", align="right") for count in trials]
    if EVERYTHING in rows:
        columns.append(Column(EVERYTHING, "all", align="right"))
    errors = [line["pairwise_se"] for line in lines if line["pairwise_se"] is not None]
    seeds = max(line["seeds"] for line in lines)
    note = f"{seeds} seed{'s' if seeds > 1 else ''}"
    if errors:
        note += f"; the standard error over them is {statistics.median(errors):.3f} of pairwise and "
        note += (
            f"{statistics.median(line['top_1_se'] for line in lines if line['top_1_se'] is not None):.3f} "
        )
        note += "of top-1 at the median"
    return f"**{_shortly(source)} to {target}**, {note}\n\n{markdown_table(list(rows.values()), columns)}"


def _shortly(source: str) -> str:
    """The devices of a source by name, or how many they are."""
    devices = source.split("+")
    return source if len(devices) < 3 else f"{len(devices)} other devices"


def curves(
    lines: Iterable[Mapping[str, Any]], metric: str, methods: Sequence[str]
) -> dict[str, list[dict[str, Any]]]:
    """Pair -> the curves of some methods against trials, for `plot_curves`.

    Args:
        lines: Of `summaries`.
        metric: One of METRICS.
        methods: Those to draw, whole models only.

    Returns:
        `label`, `x`, `y` and `se` of each method; one that has figures at one number of trials only, a level,
        is drawn across.
    """
    found: dict[str, list[dict[str, Any]]] = {}
    whole = [line for line in lines if not line["part"]]
    for pair in dict.fromkeys((line["source"], line["target"]) for line in whole):
        own = [line for line in whole if (line["source"], line["target"]) == pair]
        steps = sorted({line["trials"] for line in own if line["method"] == "fine-tune"})
        for method in methods:
            points = [line for line in own if line["method"] == method and line["trials"] in (0, *steps)]
            levels = len(points) == 1
            x = steps if levels else [line["trials"] for line in points]
            if points:
                found.setdefault(f"{_shortly(pair[0])}\nto {pair[1]}", []).append(
                    {
                        "label": method,
                        "x": x,
                        "y": [points[0][metric]] * len(x) if levels else [line[metric] for line in points],
                        "se": [0.0] * len(x) if levels else [line[f"{metric}_se"] or 0.0 for line in points],
                    }
                )
    return found


def sources_table(result: Mapping[str, Any]) -> str:
    """How far the source that some programs choose lies behind the best one."""
    columns = [
        number("probed", "programs probed", "d"),
        number("mean", "pairwise behind the best, mean"),
        number("p90", "90th percentile"),
        number("worst", "worst"),
        number("within", "within 0.02", ".0%"),
        number("top_1", "top-1 behind the best, mean"),
    ]
    return markdown_table(result["summary"], columns)


def mixture_table(result: Mapping[str, Any]) -> str:
    """How far one source, a mixture and all sources together lie behind the best source: mean / worst."""
    lines: dict[tuple[Any, ...], dict[str, Any]] = {}
    for row in result["summary"]:
        line = lines.setdefault((row["task"], row["probed"], row["choice"]), dict(row))
        line[row["method"]] = f"{row['mean']:.4f} / {row['worst']:.3f}"
        if row["method"] == "single":
            line["right"] = row["within"]
        if row["method"] == "mixture":
            line["made"] = row["made"]
    columns = [
        Column("task", "sources"),
        number("probed", "programs probed", "d"),
        Column("choice", "which"),
        number("right", "best alone within 0.02", ".1%"),
        *(Column(method, title, align="right") for method, title in _BEGIN_WITH.items()),
        number("made", "mixtures made", ".0%"),
    ]
    return markdown_table(list(lines.values()), columns)


_BEGIN_WITH = {"single": "the best alone", "mixture": "those not apart", "all": "all"}
TRANSFER_TABLES: dict[str, Callable[[Mapping[str, Any]], str]] = {
    "transfer": transfer_table,
    "transfer_ablations": ablations_table,
    "sources": sources_table,
    "mixture": mixture_table,
    "selection": selection_table,
    "controller": controller_table,
    "live_transfer": live_transfer_table,
    "live_transfer_chip": live_transfer_table,
    "live_any_chip": live_transfer_table,
    "strategies": strategies_table,
}
"""Name of a result file without its suffix -> its renderer."""
