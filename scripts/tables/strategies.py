"""Tables of strategies, selections and stop rules of a search."""

from __future__ import annotations

import itertools
import math
import statistics
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from costhub.cards.tables import TableColumn, markdown_table, number
from costhub.models.metrics import rank_correlation
from costhub.terminal_text import counted
from scripts.tables.gains import Curve, gain_after, gain_with_error, mean_with_error

BASE = ("evolutionary", "ranked")
"""The strategy and selection that the others are compared with."""
SHARES = {"to_5": 0.05, "to_1": 0.01}
"""Name -> how near to its own best latency a search counts as converged."""

LARGE = "population 256, two generations"
"""What other proposals of a search are compared with, where it was searched."""
Row = Mapping[str, Any]


def strategies_summary(rows: Sequence[Row]) -> list[dict[str, Any]]:
    """One line for each strategy and selection, in the order of their first rows.

    Args:
        rows: One per search, with `workload`, `seed`, `strategy`, `selection`, `seconds`, `stages` (stage ->
            seconds), `trials`, `failures`, `best_us` (measured again, side by side) and a `curve` of (trials,
            seconds, best latency so far in us).

    Returns:
        `gain`, the geometric mean of the base's best latency over its own at equal trials (above 1 is better),
        and `gain_se`, the standard error of its logarithm over workloads; `timed_gain` and `timed_gain_se`, the
        same at the seconds of the search that ended first; `to_5` and `to_1`, the mean trials until within 5 and 1 % of
        its own best; mean `seconds`, and `proposing`, the part of them that the strategy itself took; and the
        share of `failures`.
    """
    rows = [row for row in rows if row["curve"]]  # A search whose programs all failed has nothing to compare.
    bases = {(row["workload"], row["seed"]): row for row in rows if _name(row) == BASE}
    table = []
    for strategy, selection in dict.fromkeys(map(_name, rows)):
        own = [row for row in rows if _name(row) == (strategy, selection)]
        pairs = [(row, bases[key]) for row in own if (key := (row["workload"], row["seed"])) in bases]
        table.append(
            {
                "strategy": strategy,
                "selection": selection,
                "searches": len(own),
                **_gain("gain", [(row["workload"], math.log(base["best_us"] / row["best_us"])) for row, base in pairs]),
                **_gain("timed_gain", [(row["workload"], _timed(row, base)) for row, base in pairs]),
                **{n: statistics.fmean(_converged(row, s) for row in own) for n, s in SHARES.items()},
                "seconds": statistics.fmean(row["seconds"] for row in own),
                "proposing": statistics.fmean(row["stages"].get("evolution", 0.0) for row in own),
                "failures": sum(row["failures"] for row in own) / sum(row["trials"] for row in own),
            }
        )
    return table


def _name(row: Row) -> tuple[str, str]:
    return row["strategy"], row["selection"]


def _gain(name: str, logarithms: Sequence[tuple[str, float | None]]) -> dict[str, float | None]:
    """The gain of searches, given each one's workload and logarithm, as far as there is one."""
    known = [(workload, each) for workload, each in logarithms if each is not None]
    gain, error = gain_with_error([each for _, each in known], [workload for workload, _ in known])
    return {name: gain, f"{name}_se": error}


def _converged(row: Row, share: float) -> int:
    """Trials until within a share of the search's own best."""
    level = (1 + share) * row["curve"][-1][2]
    return next(int(trials) for trials, _, best in row["curve"] if best <= level)


def _timed(row: Row, base: Row) -> float | None:
    """The logarithm of the gain after equal seconds; None if one had measured nothing by then."""
    until = min(row["seconds"], base["seconds"])
    own, theirs = ([b for _, seconds, b in each["curve"] if seconds <= until] for each in (row, base))
    return math.log(theirs[-1] / own[-1]) if own and theirs else None


def strategies_table(result: Mapping[str, Any]) -> str:
    """One line per strategy and selection, from the `summary` of the benchmark `strategies`."""
    columns = [
        TableColumn("strategy", "strategy"),
        TableColumn("selection", "selection"),
        number("searches", "searches", "d"),
        number("gain", "latency gain at equal trials"),
        number("gain_se", "se"),
        number("timed_gain", "at equal seconds"),
        number("timed_gain_se", "se"),
        number("to_5", "trials to 5% of its best", ".1f"),
        number("to_1", "to 1%", ".1f"),
        number("seconds", "search (s)", ".0f"),
        number("proposing", "of it proposing (s)", ".0f"),
        number("failures", "failed", ".1%"),
    ]
    return markdown_table(result["summary"], columns)


def proposals_summary(rows: Sequence[Row]) -> list[dict[str, Any]]:
    """One line for each method.

    Args:
        rows: One per search, with `workload`, `seed`, `method` and a `curve` of dictionaries with `trials`, the
            `seconds` until then, and `best_us`, the latency of the best program so far, measured again.

    Returns:
        `gain_N`, the geometric mean of the latency of `LARGE`, or else of the first method, over its own after N
        trials (above 1 is better), with the standard error of its logarithm over workloads, `gain_N_se`; `timed_N` and
        `timed_N_se`, the same after the seconds that the other takes for N trials, as far as a search has got by then
        (None if a search has measured nothing by then: the others alone would be the quick ones); and `seconds_N`, the
        median of the seconds.
    """
    methods = {row["method"]: None for row in rows}
    compared = LARGE if LARGE in methods else next(iter(methods))
    curves = {(row["method"], row["workload"], row["seed"]): row["curve"] for row in rows}
    table = []
    for method in methods:
        own = {key[1:]: curve for key, curve in curves.items() if key[0] == method}
        pairs = [(key[0], curve, base) for key, curve in own.items() if (base := curves.get((compared, *key)))]
        line: dict[str, Any] = {"method": method, "searches": len(own)}
        for trials, points in _by_trials(own.values()).items():
            line |= gain_after(pairs, trials)
            line[f"seconds_{trials}"] = statistics.median(point["seconds"] for point in points)
        for trials in _by_trials([base for _, _, base in pairs]):
            timed = [
                (workload, _by_then(curve, point))
                for workload, curve, base in pairs
                for point in base
                if point["trials"] == trials
            ]
            line |= _gain(f"timed_{trials}", [] if any(gain is None for _, gain in timed) else timed)
        table.append(line)
    return table


def _by_trials(curves: Iterable[Curve]) -> dict[int, list[Row]]:
    """Number of trials, ascending -> the points of all curves at it."""
    found: dict[int, list[Row]] = {}
    for point in sorted((point for curve in curves for point in curve), key=lambda point: point["trials"]):
        found.setdefault(point["trials"], []).append(point)
    return found


def _by_then(curve: Curve, base: Row) -> float | None:
    """The logarithm of the gain over a point of another search after its seconds; None if nothing was measured."""
    done = [point for point in curve if point["seconds"] <= base["seconds"]]
    return math.log(base["best_us"] / max(done, key=lambda point: point["trials"])["best_us"]) if done else None


def _numbers_of_trials(line: Row) -> list[int]:
    """The N of `proposals_summary`, ascending."""
    return sorted(int(name.removeprefix("seconds_")) for name in line if name.startswith("seconds_"))


def proposals_table(result: Mapping[str, Any]) -> str:
    """The gains after equal trials, then those after equal seconds, from the `summary` of the benchmark `proposals`."""
    lines = result["summary"]
    searches = number("searches", "searches", "d")
    by_trials, by_seconds = [TableColumn("method", "what is proposed"), searches], []
    for trials in _numbers_of_trials(lines[0]):
        by_trials += [
            number(f"gain_{trials}", f"latency gain at {trials} trials"),
            number(f"gain_{trials}_se", "se"),
            number(f"seconds_{trials}", "seconds", ".0f"),
        ]
        by_seconds += [number(f"timed_{trials}", f"{trials} trials"), number(f"timed_{trials}_se", "se")]
    title = TableColumn("method", "latency gain in the seconds that the first takes for")
    return f"{markdown_table(lines, by_trials)}\n\n{markdown_table(lines, [title, searches, *by_seconds])}"


def more_data_summary(rows: Sequence[Row]) -> dict[str, list[dict[str, Any]]]:
    """`summary` as in `proposals_summary`, and the line of the last method for each workload alone as `workloads`.

    Args:
        rows: As for `proposals_summary`, of two methods.
    """
    names = dict.fromkeys(row["workload"] for row in rows)
    alone = {name: proposals_summary([row for row in rows if row["workload"] == name])[-1] for name in names}
    workloads = [{"workload": name, **line} for name, line in alone.items()]
    return {"summary": proposals_summary(rows), "workloads": workloads}


def more_data_table(result: Mapping[str, Any]) -> str:
    """The gain from more measurements on each workload, and on all of them, from the benchmark `more-data`."""
    last = result["summary"][-1]
    columns = [TableColumn("workload", "workload"), number("searches", "searches with each model", "d")]
    for trials in _numbers_of_trials(last):
        columns += [number(f"gain_{trials}", f"latency gain at {trials} trials"), number(f"gain_{trials}_se", "se")]
    return markdown_table([*result["workloads"], {"workload": "**all**", **last}], columns)


def evolution_table(result: Mapping[str, Any]) -> str:
    """One line per network and setting of TVM's evolution, medians over seeds, from the benchmark `evolution`."""
    groups: dict[tuple[str, int, int, float], list[Row]] = {}
    for row in sorted(result["rows"], key=lambda row: (row["network"], -row["population"])):
        key = row["network"], row["population"], row["generations"], row.get("pressure", 1.0)
        groups.setdefault(key, []).append(row)
    lines = [
        {
            "network": network,
            "size": f"{population}, {generations}" + ("" if pressure == 1.0 else f", pressure {pressure:g}"),
            "searches": len(rows),
            "kernels": rows[0]["kernels"],
            "total_us": statistics.median(row["total_us"] for row in rows),
            "seconds": statistics.median(row["seconds"] for row in rows),
            **{
                stage: statistics.median(row["stages"].get(stage, 0.0) for row in rows)
                for stage in ("evolution", "features", "building", "running")
            },
        }
        for (network, population, generations, pressure), rows in groups.items()
    ]
    columns = [
        TableColumn("network", "network"),
        TableColumn("size", "population, generations"),
        number("searches", "searches", "d"),
        number("kernels", "kernels", "d"),
        number("total_us", "kernels together (us)", ",.0f"),
        number("seconds", "search (s)", ".0f"),
        *(number(stage, f"of it {stage} (s)", ".0f") for stage in ("evolution", "features", "building", "running")),
    ]
    return markdown_table(lines, columns)


def selection_table(result: Mapping[str, Any]) -> str:
    """One table per pair of devices and size of batches, from the `summary` of the benchmark `selection`.

    `ahead` is the mean over a curve of best so far / best of all, less that of the ranked selection, paired
    by workload.
    """
    settings: dict[tuple[str, str, int], list[Mapping[str, Any]]] = {}
    for line in result["summary"]:
        settings.setdefault((line["source"], line["target"], line["batch"]), []).append(line)
    columns = [
        TableColumn("method", "selection"),
        number("ahead", "ahead of ranked", "+.3f"),
        number("ahead_se", "standard error"),
        number("to_95", "measurements to 0.95", ".1f"),
        number("to_99", "to 0.99", ".1f"),
        number("at_64", "best of 64 / best of all"),
    ]
    return "\n\n".join(
        f"**{source} to {target}**, batches of {batch}, {lines[0]['workloads']} workloads\n\n"
        f"{markdown_table(lines, columns)}"
        for (source, target, batch), lines in settings.items()
    )


def controller_table(result: Mapping[str, Any]) -> str:
    """One table per pair of devices from the `rows` of the benchmark `controller`.

    Only rows of both halves of the workloads are shown.
    """
    pairs: dict[str, list[Mapping[str, Any]]] = {}
    for row in result["rows"]:
        if row["half"] is None:
            pairs.setdefault(row["pair"], []).append(row)
    columns = [
        TableColumn("rule", "rule"),
        number("saved", "measurements saved", ".0%"),
        number("lost", "latency lost", ".2%"),
        number("lost_se", "standard error", ".2%"),
        number("worst_workload", "worst workload", ".1%"),
        number("lost_by_fixed", "lost by a fixed share that saves as much", ".2%"),
    ]
    return "\n\n".join(
        f"**{pair}**, {rows[0]['searches']} searches of {rows[0]['workloads']} workloads\n\n"
        f"{markdown_table(rows, columns)}"
        for pair, rows in pairs.items()
    )


STOP_RULES = {
    "fixed share": "a fixed number of trials",
    "default": "`gain`, as it is shipped",
    "gain": "`gain`, chosen",
    "variation": "`variation` (Moses)",
    "hindsight": "hindsight",
}
"""Rule in the results -> its name on the page."""
ADAPTED = (
    TableColumn("rule", "rule"),
    TableColumn("pair", "from -> to"),
    number("trials", "trials", ",.0f"),
    number("saved", "saved", ".0%"),
    number("pairwise_lost", "pairwise lost", "+.4f"),
    number("pairwise_lost_se", "se", ".4f"),
    number("top_1_lost", "top-1 lost", "+.3f"),
    number("worst", "worst, pairwise", "+.3f"),
    number("fixed_lost", "lost by as many trials for all", "+.4f"),
)
SEARCHED = (
    TableColumn("rule", "rule"),
    TableColumn("kind", "searches for"),
    number("trials", "trials a kernel", "d"),
    number("searches", "searches", "d"),
    number("saved_trials", "trials saved", ".0%"),
    number("saved_time", "time saved", ".0%"),
    number("saved_s", "seconds saved, each", ",.0f"),
    number("lost", "latency lost", ".2%"),
    number("lost_se", "se", ".2%"),
    number("worst", "worst search", ".1%"),
)


def stopping_table(result: Row) -> str:
    """Every rule over all pairs of devices, and the shipped one on each pair."""
    rows = [row for row in result["rows"] if row["pair"] == "all" or row["rule"] == "default"]
    named = [
        {**row, "rule": STOP_RULES[row["rule"]], "pair": row["pair"].replace("all", "all of them")} for row in rows
    ]
    together = ("all of them", "between CPUs", "between GPUs")
    return markdown_table(sorted(named, key=lambda row: (*together, row["pair"]).index(row["pair"])), ADAPTED)


def search_stopping_table(result: Row) -> str:
    """Every rule on kernels and on networks."""
    return markdown_table([{**row, "rule": STOP_RULES[row["rule"]]} for row in result["summary"]], SEARCHED)


LIVE, REPLAYED = "live", "replay"
"""Where a strategy searched."""
MEASURES = {"score": "score", "end": "best program at the end"}
"""Figure of a search -> its name on the page."""


def live_ranks_summary(rows: Sequence[Row]) -> dict[str, Any]:
    """How far the searches of the replay benchmark and searches that measure agree on the ranks of strategies.

    Args:
        rows: One per search, with `workload`, `strategy`, `where` (`LIVE` or `REPLAYED`), `seed`, `score`, and `end`,
            the latency of the best program known over that of the search's own.

    Returns:
        `strategies`, a line for each with the means over workloads, their standard errors and their ranks; `agreement`,
        a line for each of `MEASURES`. There, `tau` (Kendall's tau-b) and `spearman` compare the means of the
        strategies live and in replay; `pairs` are two strategies on one workload each, `clear` are those whose live
        searches differ by more than twice the standard error of the difference, and `alike` is the share of the clear
        ones that replays order as live searches do.
    """
    figures = {measure: _searches(rows, measure) for measure in MEASURES}
    names, workloads = (list(dict.fromkeys(row[key] for row in rows)) for key in ("strategy", "workload"))
    lines: list[dict[str, Any]] = [{"strategy": name} for name in names]
    agreement = []
    for measure, searches in figures.items():
        for where in (LIVE, REPLAYED):
            for line in lines:
                each = [_mean(searches[workload, line["strategy"], where]) for workload in workloads]
                line[f"{where}_{measure}"], line[f"{where}_{measure}_se"] = mean_with_error(each)
            means = [line[f"{where}_{measure}"] for line in lines]
            for line in lines:
                line[f"{where}_{measure}_rank"] = 1 + sum(mean > line[f"{where}_{measure}"] for mean in means)
        live, replayed = ([line[f"{where}_{measure}"] for line in lines] for where in (LIVE, REPLAYED))
        agreement.append({"measure": measure, **rank_agreement(live, replayed), **_pairs(searches, names, workloads)})
    return {"workloads": len(workloads), "strategies": lines, "agreement": agreement}


def rank_agreement(first: Sequence[float], second: Sequence[float]) -> dict[str, float | None]:
    """Kendall's tau-b and Spearman's coefficient of two lists of numbers; None where all of a list are equal.

    Example:
        >>> rank_agreement([1.0, 2.0, 3.0], [10.0, 30.0, 20.0])
        {'tau': 0.333, 'spearman': 0.5}
    """
    from scipy.stats import kendalltau  # here, because it takes half a second to load

    if min(len(set(first)), len(set(second))) < 2:
        return {"tau": None, "spearman": None}
    tau = float(kendalltau(first, second, variant="b").statistic)
    return {"tau": round(tau, 3), "spearman": round(rank_correlation(first, second), 3)}


def _searches(rows: Sequence[Row], measure: str) -> dict[tuple[str, str, str], dict[int, float]]:
    """(Workload, strategy, where) -> the figure of each seed."""
    found: dict[tuple[str, str, str], dict[int, float]] = {}
    for row in rows:
        found.setdefault((row["workload"], row["strategy"], row["where"]), {})[row["seed"]] = row[measure]
    return found


def _mean(by_seed: Mapping[int, float]) -> float:
    return statistics.fmean(by_seed.values())


def _pairs(
    searches: Mapping[tuple[str, str, str], Mapping[int, float]], names: Sequence[str], workloads: Sequence[str]
) -> dict[str, Any]:
    """How many pairs of strategies differ clearly when live, and which share of these replays order alike.

    Live searches with one seed begin with the same random programs, so the error is that of the differences by seed.
    """
    pairs, alike = 0, []
    for workload, (one, other) in itertools.product(workloads, itertools.combinations(names, 2)):
        pairs += 1
        first, second = (searches[workload, name, LIVE] for name in (one, other))
        ahead, error = mean_with_error([first[seed] - second[seed] for seed in first.keys() & second.keys()])
        if ahead is None or error is None or abs(ahead) <= 2.0 * error:
            continue
        ahead_in_replay = _mean(searches[workload, one, REPLAYED]) - _mean(searches[workload, other, REPLAYED])
        alike.append(ahead * ahead_in_replay > 0.0)
    return {"pairs": pairs, "clear": len(alike), "alike": statistics.fmean(alike) if alike else None}


def live_ranks_table(result: Row) -> str:
    """Means of each strategy, how far their ranks agree, and each workload, from the benchmark `live-ranks`."""
    summary = result["summary"]
    lines = [{**line, **_shown_means(line)} for line in summary["strategies"]]
    names = [line["strategy"] for line in lines]
    if result["model"]:
        named = f"model (`{result['model']}`, frozen)"
        lines = [{**line, "strategy": named if line["strategy"] == "model" else line["strategy"]} for line in lines]
    columns = [TableColumn("strategy", "strategy")]
    for measure, title in MEASURES.items():
        for where in (LIVE, REPLAYED):
            columns.append(TableColumn(f"{where}_{measure}_text", f"{title}, {where}", align="right"))
            columns.append(number(f"{where}_{measure}_rank", "rank", "d"))
    if published := result["published"]:
        lines = [{**line, "published": published.get(name)} for line, name in zip(lines, names, strict=True)]
        columns.append(number("published", "score in the benchmark", ".2f"))
    agreement = [{**line, "measure": MEASURES[line["measure"]]} for line in summary["agreement"]]
    figures = [
        TableColumn("measure", "compared by"),
        number("tau", "Kendall's tau-b", ".2f"),
        number("spearman", "Spearman's coefficient", ".2f"),
        number("pairs", "pairs of strategies", "d"),
        number("clear", "clearly apart live", "d"),
        number("alike", "of these in the same order in replay", ".0%"),
    ]
    live, replays = counted(result["seeds"], "live search", "live searches"), counted(result["replay_seeds"], "replay")
    many = f"**Means over {counted(summary['workloads'], 'workload')}**, {live} and {replays} of each by every "
    many += f"strategy, in batches of {result['batch']}"
    return (
        f"{many}\n\n{markdown_table(lines, columns)}\n\n**Agreement**\n\n{markdown_table(agreement, figures)}\n\n"
        f"**Scores by workload**, live / in replay\n\n{_live_by_workload(result['rows'])}"
    )


def _shown_means(line: Row) -> dict[str, str]:
    """Means with their standard errors; one workload has no error."""
    shown = {}
    for name in (f"{where}_{measure}" for where in (LIVE, REPLAYED) for measure in MEASURES):
        error = line[f"{name}_se"]
        shown[f"{name}_text"] = f"{line[name]:.2f}" + ("" if error is None else f" ± {error:.2f}")
    return shown


def _live_by_workload(rows: Sequence[Row]) -> str:
    searches, lines = _searches(rows, "score"), []
    names = list(dict.fromkeys(row["strategy"] for row in rows))
    for workload in dict.fromkeys(row["workload"] for row in rows):
        own = [row for row in rows if row["workload"] == workload]
        both = {name: [_mean(searches[workload, name, where]) for where in (LIVE, REPLAYED)] for name in names}
        lines.append(
            {
                "workload": workload,
                "programs": own[0]["programs"],
                "trials": own[0]["trials"],
                **{name: " / ".join(f"{score:.2f}" for score in scores) for name, scores in both.items()},
                "apart": statistics.median(row["apart"] for row in own if row["where"] == LIVE),
            }
        )
    columns = [
        TableColumn("workload", "workload"),
        number("programs", "programs", "d"),
        number("trials", "trials", "d"),
        *(TableColumn(name, name, align="right") for name in names),
        number("apart", "a live latency differs from the pool's by, median", ".1%"),
    ]
    return markdown_table(lines, columns)
