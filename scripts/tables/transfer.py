"""Tables of transfers: how much models of other devices are worth on a new one."""

from __future__ import annotations

import math
import statistics
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

from costhub.cards.tables import TableColumn, markdown_table, number
from scripts.tables.gains import gain_with_error, geometric, mean_with_error, sooner
from scripts.tables.strategies import (
    controller_table,
    evolution_table,
    more_data_table,
    proposals_table,
    search_stopping_table,
    selection_table,
    stopping_table,
    strategies_table,
)

METRIC = "pairwise"
LIVE_BASE = "fine-tune"
"""The method that the others are compared with."""
METRICS = ("top_1", "top_5", "pairwise")
EVERYTHING = "all of the target"
"""The method that learns from every program of the target, whose number depends on the seed."""
KEY = ("source", "target", "method", "part", "trials")
"""The keys that identify a line of the table."""
_BEGIN_WITH = {"single": "the best alone", "mixture": "those not apart", "all": "all"}


def differences(rows: Iterable[Mapping[str, Any]], methods: Sequence[str], base: str) -> list[dict[str, Any]]:
    """How many more pairs each method puts in the right order than the base, for each number of trials.

    Args:
        rows: With `source`, `target`, `seed`, `method`, `part` (empty for whole models), `trials`, METRIC.
        methods: The methods, in the order of the lines.
        base: The method that the others are compared with, on the same pair, seed and trials.

    Returns:
        `method`, `trials`, `mean`, its standard error `se` (None for a single one) and `count`.

    Example:
        >>> about = {"source": "a", "target": "b", "part": "", "trials": 32}
        >>> rows = [{**about, "seed": s, "method": m, "pairwise": p}
        ...         for s, m, p in ((0, "x", 0.5), (0, "y", 0.75), (1, "x", 0.5), (1, "y", 0.75))]
        >>> differences(rows, ["y"], "x")
        [{'method': 'y', 'trials': 32, 'mean': 0.25, 'se': 0.0, 'count': 2}]
    """
    shares = {
        (row["method"], row["trials"], row["source"], row["target"], row["seed"]): float(row[METRIC])
        for row in rows
        if not row["part"]
    }
    gains: dict[tuple[str, int], list[float]] = {}
    for (method, trials, *place), value in shares.items():
        reference = shares.get((base, trials, *place))
        if method in methods and reference is not None:
            gains.setdefault((method, trials), []).append(value - reference)
    return [
        {
            "method": method,
            "trials": trials,
            **dict(zip(("mean", "se"), mean_with_error(own), strict=True)),
            "count": len(own),
        }
        for (method, trials), own in sorted(gains.items(), key=lambda e: (methods.index(e[0][0]), e[0][1]))
    ]


def ablations_table(result: Mapping[str, Any]) -> str:
    """One line per method, one column per number of trials; thousandths, with the standard error."""
    trials = sorted({line["trials"] for line in result["ablations"]})
    rows: dict[str, dict[str, Any]] = {}
    for line in result["ablations"]:
        row = rows.setdefault(line["method"], {"method": line["method"], "count": str(line["count"])})
        spread = "" if line["se"] is None else f" ± {1e3 * line['se']:.0f}"
        row[str(line["trials"])] = f"{1e3 * line['mean']:+.0f}{spread}"
    columns = [TableColumn("method", "method"), TableColumn("count", "pairs and seeds", align="right")]
    columns += [TableColumn(str(count), f"{count:,} trials", align="right") for count in trials]
    note = f"Thousandths of {METRIC} more than by {result['base']}."
    return f"{markdown_table(list(rows.values()), columns)}\n\n{note}"


def live_summary(rows: Sequence[Mapping[str, Any]]) -> list[dict[str, Any]]:
    """Geometric means over searches of the gain of each method over `LIVE_BASE`; above 1 is better.

    Args:
        rows: One per search, with `workload`, `seed`, `method`, `best_us`, `seconds`, and a `curve` of
            (trials, seconds, best latency so far in us).

    Returns:
        Per method `latency_gain` at equal trials with the standard error of its logarithm over workloads; `time_gain`
        and `trials_gain`, how much less time and how many fewer trials it needed to reach the best latency of the
        base, over the searches that did (`reached`, their share); and `cmat`, (gain in time of the whole
        search x latency gain - 1) x 100 % (Moses, section 4.2).
    """
    bases = {(row["workload"], row["seed"]): row for row in rows if row["method"] == LIVE_BASE}
    table = []
    for method in dict.fromkeys(row["method"] for row in rows):
        pairs = [(row, bases[row["workload"], row["seed"]]) for row in rows if row["method"] == method]
        latency = [math.log(base["best_us"] / row["best_us"]) for row, base in pairs]
        whole = statistics.fmean(math.log(base["seconds"] / row["seconds"]) for row, base in pairs)
        reached = [gains for row, base in pairs if (gains := sooner(row["curve"], base["curve"])) is not None]
        gain, error = gain_with_error(latency, [row["workload"] for row, _ in pairs])
        table.append(
            {
                "method": method,
                "searches": len(pairs),
                "latency_gain": gain,
                "latency_gain_se": error,
                "search_gain": math.exp(whole),
                "reached": len(reached) / len(pairs),
                "trials_gain": geometric([trials for trials, _ in reached]),
                "time_gain": geometric([seconds for _, seconds in reached]),
                "cmat": 100 * (math.exp(whole + statistics.fmean(latency)) - 1),
            }
        )
    return table


def live_transfer_table(result: Mapping[str, Any]) -> str:
    """The gain of each method in searches on this machine."""
    columns = [
        TableColumn("method", "method"),
        number("searches", "searches", "d"),
        number("latency_gain", "latency gain"),
        number("latency_gain_se", "se"),
        number("search_gain", "search-time gain", ".2f"),
        number("reached", "reached the base's best", ".0%"),
        number("trials_gain", "times fewer trials to it", ".2f"),
        number("time_gain", "times less time to it", ".2f"),
        number("cmat", "CMAT (%)", ".1f"),
    ]
    return markdown_table(result["summary"], columns)


def summaries(rows: Iterable[Mapping[str, Any]]) -> list[dict[str, Any]]:
    """One line per KEY, in the order of their first rows.

    Args:
        rows: With KEY, `seed` and METRICS.

    Returns:
        KEY, `seeds`, and of each metric the mean and its standard error over seeds (`top_1_se`), which is
        None for a single seed.
    """
    groups: dict[tuple[Any, ...], list[Mapping[str, Any]]] = {}
    for row in rows:
        groups.setdefault(tuple(row[key] for key in KEY), []).append(row)
    table = []
    for key, own in groups.items():
        line = {**dict(zip(KEY, key, strict=True)), "seeds": len({row["seed"] for row in own})}
        for metric in METRICS:
            values = [row[metric] for row in own]
            line[metric], line[f"{metric}_se"] = mean_with_error(values)
        table.append(line)
    return table


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
        # The number of programs of the target depends on the seed, so each seed has an entry of its own.
        cell = " / ".join(f"{line[metric]:.3f}" for metric in METRICS)
        row = rows.setdefault(line["method"], {"method": line["method"]})
        row[place] = f"{row[place]}; {cell}" if place in row else cell
    columns = [TableColumn("method", "method")]
    columns += [TableColumn(str(count), f"{count:,} trials", align="right") for count in trials]
    if EVERYTHING in rows:
        columns.append(TableColumn(EVERYTHING, "all", align="right"))
    errors = [line["pairwise_se"] for line in lines if line["pairwise_se"] is not None]
    seeds = max(line["seeds"] for line in lines)
    note = f"{seeds} seed{'s' if seeds > 1 else ''}"
    if errors:
        note += f"; the standard error over them is {statistics.median(errors):.3f} of pairwise and "
        note += f"{statistics.median(line['top_1_se'] for line in lines if line['top_1_se'] is not None):.3f} "
        note += "of top-1 at the median"
    return f"**{_shortly(source)} to {target}**, {note}\n\n{markdown_table(list(rows.values()), columns)}"


def _shortly(source: str) -> str:
    """The devices of a source by name, or how many they are."""
    devices = source.split("+")
    return source if len(devices) < 3 else f"{len(devices)} other devices"


def curves(lines: Iterable[Mapping[str, Any]], metric: str, methods: Sequence[str]) -> dict[str, list[dict[str, Any]]]:
    """Pair -> the curves of some methods against trials, for `plot_curves`.

    Args:
        lines: Of `summaries`.
        metric: One of METRICS.
        methods: Those to draw, whole models only.

    Returns:
        `label`, `x`, `y` and `se` of each method; a method with figures at one number of trials only is drawn as
        a horizontal line.
    """
    panels: dict[str, list[dict[str, Any]]] = {}
    whole = [line for line in lines if not line["part"]]
    for pair in dict.fromkeys((line["source"], line["target"]) for line in whole):
        own = [line for line in whole if (line["source"], line["target"]) == pair]
        steps = sorted({line["trials"] for line in own if line["method"] == "fine-tune"})
        for method in methods:
            points = [line for line in own if line["method"] == method and line["trials"] in (0, *steps)]
            levels = len(points) == 1
            x = steps if levels else [line["trials"] for line in points]
            if points:
                panels.setdefault(f"{_shortly(pair[0])}\nto {pair[1]}", []).append(
                    {
                        "label": method,
                        "x": x,
                        "y": [points[0][metric]] * len(x) if levels else [line[metric] for line in points],
                        "se": [0.0] * len(x) if levels else [line[f"{metric}_se"] or 0.0 for line in points],
                    }
                )
    return panels


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
        TableColumn("task", "sources"),
        number("probed", "programs probed", "d"),
        TableColumn("choice", "which"),
        number("right", "best alone within 0.02", ".1%"),
        *(TableColumn(method, title, align="right") for method, title in _BEGIN_WITH.items()),
        number("made", "mixtures made", ".0%"),
    ]
    return markdown_table(list(lines.values()), columns)


TRANSFER_TABLES: dict[str, Callable[[Mapping[str, Any]], str]] = {
    "transfer": transfer_table,
    "transfer_ablations": ablations_table,
    "sources": sources_table,
    "mixture": mixture_table,
    "selection": selection_table,
    "selection_from_nothing": selection_table,
    "controller": controller_table,
    "live_transfer": live_transfer_table,
    "live_transfer_chip": live_transfer_table,
    "live_any_chip": live_transfer_table,
    "live_moses": live_transfer_table,
    "search_stopping": search_stopping_table,
    "stopping": stopping_table,
    "strategies": strategies_table,
    "evolution": evolution_table,
    "evolution_emeraldrapids": evolution_table,
    "proposals": proposals_table,
    "proposals_emeraldrapids": proposals_table,
    "proposals_near": proposals_table,
    "proposals_pressure": proposals_table,
    "more_data": more_data_table,
    "more_data_again": more_data_table,
    "more_kinds": more_data_table,
    "more_kinds_again": more_data_table,
}
"""Name of a result file without its suffix -> its renderer."""
