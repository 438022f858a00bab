"""Tables of searches: how soon they find what stock MetaSchedule finds, and where their seconds go."""

from __future__ import annotations

import math
import statistics
from collections.abc import Mapping, Sequence
from typing import Any

from costhub.cards.reports.tune_plots import STAGES
from costhub.cards.tables import TableColumn, markdown_table, number
from scripts.tables.gains import Curve, gain_after, gain_with_error, geometric, sooner
from scripts.tables.strategies import live_ranks_table

LIGHT = "stock, light imports"
"""The method that others are compared with: stock MetaSchedule with build processes that start in a second."""
STOCK = "stock"
"""Unchanged stock MetaSchedule, on a few workloads, for its seconds; its search is that of `LIGHT`."""
TITLES = {LIGHT: "stock (start-up removed)", STOCK: "stock, unmodified"}
"""Method -> its name in tables and pictures, where that differs."""
OURS = "costhub"
"""The method that is `costhub tune`; those that differ from it in one part are compared with it."""
PART_TRIALS = (16, 32, 64)
"""Numbers of trials at which these are compared."""
EQUAL = (64, 128)
"""Numbers of trials at which latencies are compared."""


def summary(rows: Sequence[Mapping[str, Any]], base: str = LIGHT) -> list[dict[str, Any]]:
    """Geometric means over searches of the gain of each method over the base; above 1 is better.

    Args:
        rows: One per search, with `workload`, `seed`, `method` and a `curve` of dictionaries, each with
            `trials`, the `seconds` of the search until then and `best_us`, the latency of the best program
            so far, measured again beside those of all methods.
        base: The method that others are compared with.

    Returns:
        A line per method over its searches on workloads and seeds of the base. `gain_64` and `gain_128` are the
        base's latency over its own after as many trials, each with the standard error of its logarithm over workloads.
        `reached` is the share of searches that came within a hundredth of the final best latency of the base;
        for these, `trials_gain` and `time_gain` say how many times fewer trials and seconds than the base they
        took (`gains.sooner`). `trials_median` and `time_median` are the same for the median of all searches,
        None if that one did not come so near.
    """
    bases = base_curves(rows, base)
    table = []
    for method in dict.fromkeys(row["method"] for row in rows):
        pairs = [
            (row["workload"], row["curve"], bases[row["workload"], row["seed"]])
            for row in rows
            if row["method"] == method and (row["workload"], row["seed"]) in bases
        ]
        gains = [sooner(_course(own), _course(theirs)) for _, own, theirs in pairs]
        reached = [each for each in gains if each is not None]
        table.append(
            {
                "method": method,
                "searches": len(pairs),
                **{key: value for trials in EQUAL for key, value in gain_after(pairs, trials).items()},
                "reached": len(reached) / len(pairs) if pairs else None,
                "trials_gain": geometric([trials for trials, _ in reached]),
                "time_gain": geometric([seconds for _, seconds in reached]),
                "trials_median": _middle([each and each[0] for each in gains]),
                "time_median": _middle([each and each[1] for each in gains]),
            }
        )
    return table


def base_curves(rows: Sequence[Mapping[str, Any]], base: str = LIGHT) -> dict[tuple[str, int], Curve]:
    """(Workload, seed) -> the curve of the base; for a seed that the base has not searched with, that of its first."""
    own = {(row["workload"], row["seed"]): row["curve"] for row in rows if row["method"] == base}
    first: dict[str, Curve] = {}
    for workload, seed in sorted(own):
        first.setdefault(workload, own[workload, seed])
    searched = {(row["workload"], row["seed"]) for row in rows}
    return {key: own.get(key, first[key[0]]) for key in searched if key[0] in first}


def but_stock(rows: Sequence[Mapping[str, Any]]) -> list[Mapping[str, Any]]:
    """The rows without `STOCK`, whose means over few workloads do not compare with the others."""
    return [row for row in rows if row["method"] != STOCK]


def _course(curve: Curve) -> list[tuple[float, float, float]]:
    return [(point["trials"], point["seconds"], point["best_us"]) for point in curve]


def _middle(gains: Sequence[float | None]) -> float | None:
    """The lower median, where a search that never came near counts as the lowest; None if it is such a search."""
    return (statistics.median_low([gain or 0.0 for gain in gains]) or None) if gains else None


def search_table(result: Mapping[str, Any]) -> str:
    """A line per method, the courses, a line per workload with medians over seeds; then the gains over `STOCK`.

    Rows that have seconds from an empty process get a table of these as well, and one of what each part of costhub's
    search is worth. Another table says where the seconds of a trial go.
    """
    rows = result["rows"]
    tables = [search_headline_table(result), _courses(but_stock(rows))]
    if rows and all("exit_s" in row for row in rows):
        tables.append(_from_empty_process(but_stock(rows)))
        if {row["method"] for row in but_stock(rows)} - {LIGHT, OURS}:
            tables.append(_beside_ours(but_stock(rows)))
    tables += [_by_stage(rows), _by_workload(rows)]
    if result.get("beside_stock"):
        tables.append(_gains_table(result["beside_stock"], "compared with unmodified stock"))
    return "\n\n".join(tables)


def search_headline_table(result: Mapping[str, Any]) -> str:
    """A line per method: its gain over `LIGHT`."""
    return _gains_table(result["summary"], "method")


def _gains_table(gains: Sequence[Mapping[str, Any]], title: str) -> str:
    columns = [
        TableColumn("method", title),
        number("searches", "searches", "d"),
        *(column for trials in EQUAL for column in _gain_columns(trials)),
        number("reached", "reached stock's best", ".0%"),
        number("trials_gain", "times fewer trials, where reached", ".1f"),
        number("trials_median", "times fewer trials, median of all", ".1f"),
        number("time_gain", "times less time, where reached", ".1f"),
        number("time_median", "times less time, median of all", ".1f"),
    ]
    return markdown_table([{**row, "method": title_of(row["method"])} for row in gains], columns)


def _gain_columns(trials: int) -> list[TableColumn]:
    return [number(f"gain_{trials}", f"latency gain at {trials} trials"), number(f"gain_{trials}_se", "se")]


def title_of(method: str) -> str:
    """The name of a method in tables and pictures."""
    return TITLES.get(method, method)


def _courses(rows: Sequence[Mapping[str, Any]]) -> str:
    """The distance of each method from the base's end after so many trials, and its seconds until then."""
    points = _points(rows, "seconds")
    shown = [{"method": title_of(method), **_cells(by_trials)} for method, by_trials in points.items()]
    title = TableColumn("method", "best so far / stock's final best, seconds")
    return markdown_table(shown, [title, *_trial_columns(points)])


def _points(rows: Sequence[Mapping[str, Any]], seconds: str) -> dict[str, dict[int, list[tuple[float, float]]]]:
    """Method -> trials -> the distance of each search from the base's end, and its seconds."""
    bases = base_curves(rows)
    points: dict[str, dict[int, list[tuple[float, float]]]] = {}
    for row in rows:
        if base := bases.get((row["workload"], row["seed"])):
            for point in row["curve"]:
                reached = points.setdefault(row["method"], {}).setdefault(point["trials"], [])
                reached.append((point["best_us"] / base[-1]["best_us"], point[seconds]))
    return points


def _cells(by_trials: Mapping[int, Sequence[tuple[float, float]]]) -> dict[str, str]:
    """Trials -> means over searches."""
    return {
        str(trials): f"{statistics.geometric_mean(far for far, _ in reached):.2f}, "
        f"{statistics.fmean(seconds for _, seconds in reached):,.0f} s"
        for trials, reached in by_trials.items()
    }


def _trial_columns(points: Mapping[str, Mapping[int, object]]) -> list[TableColumn]:
    counts = sorted({trials for by_trials in points.values() for trials in by_trials})
    return [TableColumn(str(trials), f"{trials} trials", align="right") for trials in counts]


AIMS = {16: (1.03, 10), 64: (1.03, 25)}
"""Trials -> how near stock's end the best program should be, and the most seconds from an empty process."""


def _from_empty_process(rows: Sequence[Mapping[str, Any]]) -> str:
    """As `_courses`, with the seconds since the process was started, those until its exit, and the failures."""
    points = _points(rows, "process_s")
    shown: list[dict[str, Any]] = [
        {"method": "aim", **{str(trials): f"{far:.2f}, {seconds} s" for trials, (far, seconds) in AIMS.items()}}
    ]
    for method, by_trials in points.items():
        own = [row for row in rows if row["method"] == method]
        ends = {
            "exit_s": statistics.fmean(row["exit_s"] for row in own),
            "failures": sum(row["failures"] for row in own),
            "trials": sum(row["trials"] for row in own),
        }
        shown.append({"method": title_of(method), **_cells(by_trials), **ends})
    columns = [
        TableColumn("method", "seconds from an empty process"),
        *_trial_columns(points),
        number("exit_s", "to its exit (s)", ",.0f"),
        number("trials", "programs", ",d"),
        number("failures", "of them failed", ",d"),
    ]
    return markdown_table(shown, columns)


def _beside_ours(rows: Sequence[Mapping[str, Any]]) -> str:
    """A line per method: its gain over `OURS` in searches of the same workloads and seeds; above 1 is better."""
    ours = base_curves([row for row in rows if row["method"] == OURS], OURS)
    shown = []
    for method in dict.fromkeys(row["method"] for row in rows if row["method"] not in (OURS, LIGHT)):
        pairs = [
            (row["workload"], row["curve"], ours[row["workload"], row["seed"]])
            for row in rows
            if row["method"] == method and (row["workload"], row["seed"]) in ours
        ]
        gains = {key: value for trials in PART_TRIALS for key, value in gain_after(pairs, trials).items()}
        shown.append({"method": title_of(method), "searches": len(pairs), **gains})
    columns = [
        TableColumn("method", f"compared with {OURS}"),
        number("searches", "searches", "d"),
        *(column for trials in PART_TRIALS for column in _gain_columns(trials)),
    ]
    return markdown_table(shown, columns)


def _by_stage(rows: Sequence[Mapping[str, Any]]) -> str:
    """Milliseconds of each stage for one trial of each method."""
    shown = [
        {"method": title_of(method), **{stage: 1e3 * seconds_a_trial(rows, method, stage) for stage in STAGES}}
        for method in dict.fromkeys(row["method"] for row in rows)
    ]
    columns = [TableColumn("method", "milliseconds of a trial"), *(number(stage, stage, ",.0f") for stage in STAGES)]
    return markdown_table(shown, columns)


def seconds_a_trial(rows: Sequence[Mapping[str, Any]], method: str, stage: str) -> float:
    """Seconds of a stage for one trial, as a mean over the searches of a method."""
    return statistics.fmean(row["stages"].get(stage, 0.0) / row["trials"] for row in rows if row["method"] == method)


def _by_workload(rows: Sequence[Mapping[str, Any]]) -> str:
    """Latency in us and seconds at the end of each search."""
    cells: dict[str, dict[str, list[Mapping[str, Any]]]] = {}
    for row in rows:
        cells.setdefault(row["workload"], {}).setdefault(row["method"], []).append(row["curve"][-1])
    ends = {row["method"]: row["curve"][-1]["trials"] for row in rows}
    columns = [
        TableColumn("workload", "workload"),
        *(
            TableColumn(method, f"{title_of(method)}, {trials} trials", align="right")
            for method, trials in ends.items()
        ),
    ]
    shown = [
        {
            "workload": workload,
            **{
                method: f"{statistics.median(p['best_us'] for p in points):,.1f} µs, "
                f"{statistics.median(p['seconds'] for p in points):,.0f} s"
                for method, points in by_method.items()
            },
        }
        for workload, by_method in cells.items()
    ]
    return markdown_table(shown, columns)


ANSOR_POOLS = ("nvidia-v100", "nvidia-k80", "amd-mi50")
"""Devices whose programs in the replay benchmark are those that Ansor's searches measured."""


def replay_table(result: Mapping[str, Any]) -> str:
    """The scores, then the trials to within 5 % of the optimum: a line per strategy and model, a column per device.

    Args:
        result: `rows` of the benchmark `replay`. Scores of Ansor's pools have a mean of their own, and so have the
            others; either is shown of scores on all of its devices only.
    """
    rows = result["rows"]
    devices = list(dict.fromkeys(row["device"] for row in rows))
    pools = {
        "ansor": [device for device in devices if device in ANSOR_POOLS],
        "others": [device for device in devices if device not in ANSOR_POOLS],
    }
    groups: dict[tuple[str, str, str], list[Mapping[str, Any]]] = {}
    for row in rows:
        groups.setdefault((row["strategy"], row["model"], row["method"]), []).append(row)
    scores, trials = [], []
    for (strategy, model, method), own in groups.items():
        about = {"strategy": strategy, "led": f"`{model}`, {method}" if model else "-"}
        by_device = {row["device"]: row for row in own}
        means = {name: _mean_score(by_device, pool) for name, pool in pools.items()}
        scores.append({**about, **{device: _score_text(row) for device, row in by_device.items()}, **means})
        trials.append({**about, **{device: f"{row['near']:g}" for device, row in by_device.items()}})
    columns = [TableColumn("strategy", "strategy"), TableColumn("led", "model, learning")]
    columns += [TableColumn(device, f"`{device}`", align="right") for device in devices]
    means_of = [number("ansor", "mean, Ansor's pools", ".2f"), number("others", "mean, other pools", ".2f")]
    return (
        f"**Score**\n\n{markdown_table(scores, [*columns, *means_of])}\n\n"
        f"**Trials until within 5 % of the optimum**\n\n{markdown_table(trials, columns)}"
    )


def _mean_score(by_device: Mapping[str, Mapping[str, Any]], pool: Sequence[str]) -> float | None:
    """The mean score on the devices of a pool; None where one was not played."""
    if not pool or any(device not in by_device for device in pool):
        return None
    return statistics.fmean(by_device[device]["score"] for device in pool)


def newcomer_table(result: Mapping[str, Any]) -> str:
    """A line per command: its seconds, and its score on each device.

    Args:
        result: `rows` of the benchmark `newcomer`.
    """
    rows = result["rows"]
    devices = list(dict.fromkeys(device["device"] for row in rows for device in row["devices"]))
    shown = [
        {
            **row,
            "code": f"{row['file']}, {row['lines']} lines",
            "played": f"`{row['played']}`",
            **{device["device"]: _score_text(device) for device in row["devices"]},
        }
        for row in rows
    ]
    columns = [
        TableColumn("part", "part"),
        TableColumn("code", "file"),
        number("seconds", "seconds", ".0f"),
        *(TableColumn(device, f"`{device}`", align="right") for device in devices),
    ]
    commands = dict.fromkeys(row["played"] for row in shown)
    return f"{markdown_table(shown, columns)}\n\nPlayed: {', '.join(commands)}."


def _score_text(row: Mapping[str, Any]) -> str:
    """The score of a device, with its standard error if there are several workloads."""
    return f"{row['score']:.2f}" + ("" if row["error"] is None else f" ± {row['error']:.2f}")


def dense_pools_table(result: Mapping[str, Any]) -> str:
    """A line per workload: its programs, and how hard good ones are to find.

    Args:
        result: `pools` and `collection` of the benchmark `dense-pools`.
    """
    columns = [
        TableColumn("workload", "workload"),
        number("programs", "programs", ",d"),
        number("best_us", "best, us", ".1f"),
        number("median_us", "median, us", ".1f"),
        number("near", "within 5 % of the best", "d"),
        number("random_trials", "trials of random search to 95 % of the way", "d"),
    ]
    found = result["collection"]
    return (
        f"{markdown_table(result['pools'], columns)}\n\nIn the last run of the command, {found['good']:,} programs ran "
        f"and {found['failed']:,} failed, {found['profile']['good_per_s']:.1f} good ones a second."
    )


SEARCH_TABLES = {
    "dense_pools": dense_pools_table,
    "live_ranks": live_ranks_table,
    "newcomer": newcomer_table,
    "replay": replay_table,
    "search": search_table,
    "search_chip": search_table,
    "search_emeraldrapids": search_table,
    "search_headline": search_headline_table,
}
"""Name of a result file without its suffix, or of a view of one -> its renderer."""
SEARCH_VIEWS = {"search_headline": "search"}
"""Name of a view -> the file whose figures it shows."""


def speed_table(result: Mapping[str, Any]) -> str:
    """One line per workload and model, in seconds; then one per search, in shares of its seconds."""
    columns = [
        TableColumn("workload", "workload"),
        TableColumn("model", "model"),
        number("features_s", "features (s)"),
        number("prediction_s", "prediction (s)"),
        number("floor_ms", "floor of the prediction (ms)", ".4f"),
        number("of_tvm_xgb", "times as fast as TVM's XGBModel", ".2f"),
        number("kept_best_16", "of the best 16, verified", ".0%"),
    ]
    return f"{markdown_table(result['speed'], columns)}\n\n{_stages_table(result['searches'])}"


def _stages_table(searches: list[Mapping[str, Any]]) -> str:
    rows = [
        {**row, **{stage: s / sum(row["stages"].values()) for stage, s in row["stages"].items()}} for row in searches
    ]
    columns = [
        TableColumn("workload", "workload"),
        TableColumn("model", "model"),
        number("population", "candidates of a generation", "d"),
        number("seconds", "search (s)", ".1f"),
        *(number(stage, stage, ".1%") for stage in STAGES),
    ]
    return markdown_table(rows, columns)


def passes_table(result: Mapping[str, Any]) -> str:
    """One line per pair of passes.

    Args:
        result: `rows` with the two `passes`, the `programs` in both, the `shift` of all of them, and how far
            single ones are from it: `median`, `p90` (nine in ten are nearer) and `worst`, as shares.
    """
    columns = [
        TableColumn("passes", "passes"),
        number("programs", "programs in both", "d"),
        number("shift", "all together", "+.1%"),
        number("median", "single ones, median", ".1%"),
        number("p90", "nine in ten within", ".1%"),
        number("worst", "worst", ".1%"),
    ]
    return markdown_table(result["rows"], columns)


def picked_table(result: Mapping[str, Any]) -> str:
    """One line per search, from the `rows` of `picked-again`, one per workload.

    Args:
        result: `rows` with the name of the `database`, the latency `picked_us` of the program that the search
            picked and `chosen_us` of the one chosen by measuring again, both from rounds that did not choose;
            and `rank`, the place of the chosen program in the search.
    """
    by_search: dict[str, list[Mapping[str, Any]]] = {}
    for row in result["rows"]:
        by_search.setdefault(row["database"], []).append(row)
    lines = []
    for database, rows in by_search.items():
        gain, error = gain_with_error([math.log(row["picked_us"] / row["chosen_us"]) for row in rows])
        same = sum(row["rank"] == 1 for row in rows)
        lines.append({"search": database, "kernels": len(rows), "same": same, "gain": gain, "se": error})
    columns = [
        TableColumn("search", "search"),
        number("kernels", "kernels", "d"),
        number("same", "same program chosen", "d"),
        number("gain", "latency gain"),
        number("se", "se"),
    ]
    return markdown_table(lines, columns)
