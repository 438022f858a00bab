"""Tables of networks and operators: untuned, tuned, compiled without measuring, run by torch and other engines."""

from __future__ import annotations

import math
import statistics
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from costhub.cards.tables import TableColumn, markdown_table, number
from scripts.tables.gains import geometric
from scripts.tables.search import title_of

_FORMS = ("untuned", "tuned", "torch", "torch.compile")


def networks_table(result: Mapping[str, Any]) -> str:
    """One line per network, method and number of trials, from the `rows` of the benchmark `networks`.

    Medians over seeds. Rows with wrong outputs are counted, and their latencies left out.
    """
    groups: dict[tuple[Any, ...], list[Mapping[str, Any]]] = {}
    for row in result["rows"]:
        groups.setdefault((row["network"], row["method"], row["trials"]), []).append(row)
    if not groups:
        return "Not measured yet."
    lines = [_network_line(rows) for rows in groups.values()]
    columns = [
        TableColumn("network", "network"),
        TableColumn("method", "search"),
        number("trials", "trials for each kernel", "d"),
        number("seeds", "seeds", "d"),
        number("wrong", "outputs wrong", "d"),
        number("untuned", "untuned (ms)", ",.2f"),
        number("tuned", "tuned (ms)", ",.2f"),
        TableColumn("spread", "tuned, least to most", align="right"),
        number("torch", "torch (ms)", ",.2f"),
        number("torch.compile", "torch.compile (ms)", ",.2f"),
        number("gain", "torch / tuned", ".2f"),
        number("seconds", "search (s)", ",.0f"),
    ]
    return markdown_table(lines, columns)


def _network_line(rows: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
    good = [row["latencies"] for row in rows if not row["error"]]
    line: dict[str, Any] = {
        **{key: rows[0][key] for key in ("network", "trials")},
        "method": title_of(rows[0]["method"]),
        "seeds": len(rows),
        "wrong": len(rows) - len(good),
        "seconds": statistics.median(row["seconds"] for row in rows),
    }
    for form in _FORMS:
        times = [each[form]["median_us"] / 1e3 for each in good if form in each]
        line[form] = statistics.median(times) if times else None
        if form == "tuned" and times:
            line["spread"] = f"{min(times):,.2f} to {max(times):,.2f}"
    both = [each for each in good if {"torch", "tuned"} <= set(each)]
    if both:
        line["gain"] = statistics.median(b["torch"]["median_us"] / b["tuned"]["median_us"] for b in both)
    return line


def operators_table(result: Mapping[str, Any]) -> str:
    """One line per workload, medians over seeds, and the geometric mean of the ratios.

    Args:
        result: `rows`, each with `workload`, `best_us` (tuned), `torch_us` and the `seconds` of the search.
    """
    by_workload: dict[str, list[Mapping[str, Any]]] = {}
    for row in result["rows"]:
        by_workload.setdefault(row["workload"], []).append(row)
    shown = [_operator_line(workload, rows) for workload, rows in by_workload.items()]
    shown.append({"workload": "geometric mean", "ratio": geometric([row["ratio"] for row in shown])})
    columns = [
        TableColumn("workload", "workload"),
        number("seeds", "seeds", "d"),
        number("best_us", "costhub (µs)", ",.1f"),
        number("torch_us", "PyTorch (µs)", ",.1f"),
        number("ratio", "times as fast as PyTorch", ".2f"),
        TableColumn("spread", "least to most", align="right"),
        number("seconds", "search (s)", ",.0f"),
    ]
    return markdown_table(shown, columns)


def _operator_line(workload: str, rows: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
    ratios = [row["torch_us"] / row["best_us"] for row in rows]
    medians = {key: statistics.median(row[key] for row in rows) for key in ("best_us", "torch_us", "seconds")}
    return {
        "workload": workload,
        "seeds": len(rows),
        **medians,
        "ratio": statistics.median(ratios),
        "spread": f"{min(ratios):.2f} to {max(ratios):.2f}",
    }


ENGINE_TITLES = {
    "torch": "PyTorch",
    "torch.compile": "`torch.compile`",
    "onnxruntime": "ONNX Runtime",
    "openvino-f32": "OpenVINO, float32",
    "stock": "stock TVM",
    "costhub": "costhub",
    "openvino": "OpenVINO, its default",
    "costhub-bf16": "costhub",
}
"""Engine in the rows of the benchmark `engines` -> title, in the order of columns."""
_FLOAT32 = "float32"


def engines_table(result: Mapping[str, Any]) -> str:
    """One line per network: the latency in each engine, costhub's over the best one of float32, and stock's over its.

    Args:
        result: `rows` of the benchmark `engines`. An engine that no row has gets no column, and one whose outputs
            are wrong no latency.
    """
    rows = result["rows"]
    engines = [engine for engine in ENGINE_TITLES if any(row["engine"] == engine for row in rows)]
    if not engines:
        return "Not measured yet."
    lines: list[dict[str, Any]] = []
    for network in dict.fromkeys(row["network"] for row in rows):
        own = [row for row in rows if row["network"] == network]
        best = best_of_float32(own)
        is_contest = len([row for row in own if row["precision"] == _FLOAT32 and row.get("latency")]) > 1
        line: dict[str, Any] = {"network": network}
        for row in own:
            if row.get("latency"):
                text = f"{_milliseconds(row):,.2f}"
                is_best = is_contest and row["precision"] == _FLOAT32 and text == f"{best:,.2f}"
                line[row["engine"]] = f"**{text}**" if is_best else text
                if row["engine"] in ("costhub", "costhub-bf16"):
                    line["ratio" if row["engine"] == "costhub" else "ratio_bf16"] = over_the_best(row, own)
        times = {row["engine"]: _milliseconds(row) for row in own if row.get("latency")}
        if {"stock", "costhub"} <= times.keys():
            line["ratio_stock"] = times["stock"] / times["costhub"]
        lines.append(line)
    columns = [TableColumn("network", "ms")]
    columns += [TableColumn(engine, _engine_title(engine, rows), align="right") for engine in engines]
    mean: dict[str, Any] = {"network": "geometric mean"}
    for engine, name, title in (
        ("costhub", "ratio", "costhub / best of float32"),
        ("costhub-bf16", "ratio_bf16", "costhub (bfloat16) / best of the others"),
        ("stock", "ratio_stock", "stock TVM / costhub"),
    ):
        if engine in engines or (engine == "costhub" and "costhub-bf16" not in engines):
            columns.append(number(name, title, ".2f"))
        if ratios := [line[name] for line in lines if name in line]:
            mean[name] = geometric(ratios)
    return markdown_table([*lines, mean] if len(mean) > 1 else lines, columns)


def _milliseconds(row: Mapping[str, Any]) -> float:
    return float(row["latency"]["median_us"]) / 1e3


def _engine_title(engine: str, rows: Sequence[Mapping[str, Any]]) -> str:
    """With the precision where it is not float32."""
    kinds = {row["precision"] for row in rows if row["engine"] == engine} - {_FLOAT32}
    return ENGINE_TITLES[engine] + (f" ({', '.join(sorted(kinds))})" if kinds else "")


def best_of_float32(rows: Sequence[Mapping[str, Any]]) -> float:
    """The least latency, in ms, among the rows of one network that compute in float32; NaN where there is none.

    Example:
        >>> rows = [{"precision": "float32", "latency": {"median_us": us}} for us in (3000.0, 2000.0)]
        >>> best_of_float32([*rows, {"precision": "bfloat16", "latency": {"median_us": 1.0}}])
        2.0
    """
    times = [_milliseconds(row) for row in rows if row["precision"] == _FLOAT32 and row.get("latency")]
    return min(times, default=math.nan)


def over_the_best(row: Mapping[str, Any], rows: Sequence[Mapping[str, Any]]) -> float:
    """The latency of costhub over the best of a network.

    Args:
        row: That of costhub. In float32, the best is that of all engines in float32, itself included; in bfloat16, that
            of all others in any precision.
        rows: All rows of the network.

    Example:
        >>> rows = [{"engine": name, "precision": "bfloat16", "latency": {"median_us": us}}
        ...         for name, us in (("openvino", 3000.0), ("costhub-bf16", 2400.0))]
        >>> round(over_the_best(rows[1], rows), 2)
        0.8
    """
    if row["precision"] == _FLOAT32:
        return _milliseconds(row) / best_of_float32(rows)
    others = (each for each in rows if each["engine"] != row["engine"] and each.get("latency"))
    return _milliseconds(row) / min(map(_milliseconds, others))


def engine_details_table(result: Mapping[str, Any]) -> str:
    """One line per network and engine: precision, latency with its quartiles, error, and what the search took."""
    lines = []
    for row in result["rows"]:
        best = best_of_float32([each for each in result["rows"] if each["network"] == row["network"]])
        line = {**row, "engine": ENGINE_TITLES[row["engine"]], "note": (row["error"] or "").partition(":")[0] or None}
        if row.get("latency"):
            low, high = (row["latency"][key] / 1e3 for key in ("low_us", "high_us"))
            line |= {
                "ms": _milliseconds(row),
                "spread": f"{low:,.2f} to {high:,.2f}",
                "ratio": _milliseconds(row) / best,
            }
        if row.get("kernels"):
            line["kernels"] = f"{row['kernels_tuned']} of {row['kernels']}"
        lines.append(line)
    columns = [
        TableColumn("network", "network"),
        TableColumn("engine", "engine"),
        TableColumn("precision", "precision"),
        number("ms", "median (ms)", ",.2f"),
        TableColumn("spread", "middle half of the calls", align="right"),
        number("ratio", "over the best of float32", ".2f"),
        number("relative_error", "largest relative error", ".1e"),
        TableColumn("kernels", "kernels tuned", align="right"),
        number("trials", "trials for each kernel", "d"),
        number("seconds", "search (s)", ",.0f"),
        TableColumn("note", "what failed"),
    ]
    return markdown_table(lines, columns)


def engine_profiles_table(result: Mapping[str, Any]) -> str:
    """One line per network and engine: the ms of each kind of kernel, from the `profiles` of the benchmark."""
    shown = [row for row in result["profiles"] if "kinds" in row]
    if not shown:
        return "Not measured yet."
    kinds = [kind for kind in ENGINE_KINDS if any(kind in row["kinds"] for row in shown)]
    lines = [
        {
            "network": row["network"],
            "engine": ENGINE_TITLES[row["engine"]],
            "whole": row["whole_us"] / 1e3,
            "unscheduled": row["unscheduled_us"] / 1e3 if row["unscheduled_us"] is not None else None,
            **{kind: us / 1e3 for kind, us in row["kinds"].items()},
        }
        for row in shown
    ]
    columns = [TableColumn("network", "ms"), TableColumn("engine", "engine"), number("whole", "whole", ",.2f")]
    columns += [number(kind, kind, ",.2f") for kind in kinds]
    return markdown_table(lines, [*columns, number("unscheduled", "of these, kernels without a schedule", ",.2f")])


ENGINE_KINDS = (
    *("conv 3x3", "conv 1x1", "other conv", "depthwise conv", "matmul", "attention"),
    *("norm, softmax, elementwise", "layout, copy", "runtime overhead"),
)
"""Kinds of kernels in the order of columns."""
NETWORK_TABLES: dict[str, Callable[[Mapping[str, Any]], str]] = {
    "networks_tuned": networks_table,
    "operators": operators_table,
}


def parts_table(result: Mapping[str, Any]) -> str:
    """One line per network and part: the latency without and with a part of the compilation, and their ratio.

    Args:
        result: `rows` of the benchmark `parts`.
    """
    parts = {row.get("part") for row in result["rows"]}
    columns = [
        TableColumn("network", "network"),
        *([TableColumn("part", "part")] if len(parts) > 1 else []),
        number("without_ms", "without (ms)", ".2f"),
        number("with_ms", "with (ms)", ".2f"),
        number("ratio", "ratio", ".3f"),
        TableColumn("middle_half", "middle half", align="right"),
    ]
    rows = [{**row, "middle_half": f"{row['ratio_low']:.3f} to {row['ratio_high']:.3f}"} for row in result["rows"]]
    return markdown_table(rows, columns) if rows else "Not measured yet."


PART_TABLES = ("prefetch", "one_pass", "kernel_passes", "kernel_passes_zen4", "matrix_passes")
"""Results of the benchmark `parts`."""
NETWORK_TABLES |= dict.fromkeys(PART_TABLES, parts_table)


ENGINE_CHIPS = (
    *("engines", "engines_emeraldrapids", "engines_emeraldrapids_now", "engines_zen4", "engines_zen4_now"),
    *("engines_bf16_emeraldrapids", "engines_bf16_emeraldrapids_vectors", "engines_bf16_zen4"),
    *("engines_graniterapids", "engines_bf16_graniterapids", "engines_stock_graniterapids"),
)
"""Results of the benchmark `engines`, one of each chip; each fills a table of its own name, `NAME_details` and
`NAME_profiles`."""
_ENGINE_TABLES = {"": engines_table, "_details": engine_details_table, "_profiles": engine_profiles_table}
NETWORK_TABLES |= {f"{chip}{end}": table for chip in ENGINE_CHIPS for end, table in _ENGINE_TABLES.items()}
NETWORK_VIEWS = {f"{chip}{end}": chip for chip in ENGINE_CHIPS for end in _ENGINE_TABLES if end}
"""Views of one file, see `scripts.tables.results`."""


def zero_trials_table(result: Mapping[str, Any]) -> str:
    """A line per method, then a line per workload or network, from the `rows` of the benchmark `zero-trials`.

    Args:
        result: With `rows`: `subject`, `method`, `seed`, `trials`, `gain` (stock's latency over its own, None where
            there is no schedule) and, of methods without trials, `kernels`.
    """
    rows = result["rows"]
    if not rows:
        return "Not measured yet."
    methods = dict.fromkeys(row["method"] for row in rows)
    lines = [_method_line(name, [row for row in rows if row["method"] == name]) for name in methods]
    columns = [
        TableColumn("method", "method"),
        number("trials", "trials", "d"),
        number("subjects", "workloads and networks", "d"),
        number("without", "without a schedule", "d"),
        number("gain", "stock's latency / own", ".3f"),
        number("worst", "worst", ".3f"),
        number("ranking_s", "ranking of a kernel (s)", ".1f"),
    ]
    return "\n\n".join([markdown_table(lines, columns), _by_subject(rows, list(methods))])


NETWORK_TABLES["zero_trials"] = zero_trials_table


def _method_line(name: str, rows: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
    gains = [row["gain"] for row in rows if row["gain"] is not None]
    ranked = [kernel["seconds"] for row in rows for kernel in row.get("kernels", ())]
    return {
        "method": title_of(name),
        "trials": max(row["trials"] for row in rows),
        "subjects": len({row["subject"] for row in rows}),
        "without": len(rows) - len(gains),
        "gain": geometric(gains),
        "worst": min(gains, default=None),
        "ranking_s": sum(ranked) / len(ranked) if ranked else None,
    }


def _by_subject(rows: Sequence[Mapping[str, Any]], methods: Sequence[str]) -> str:
    """The gain of each method on each workload or network: geometric means over seeds."""
    lines = []
    for subject in dict.fromkeys(row["subject"] for row in rows):
        of_it = [row for row in rows if row["subject"] == subject and row["gain"] is not None]
        gains = {name: geometric([row["gain"] for row in of_it if row["method"] == name]) for name in methods}
        lines.append({"subject": subject, **gains})
    columns = [TableColumn("subject", "workload or network")]
    return markdown_table(lines, [*columns, *(number(name, title_of(name), ".3f") for name in methods)])


_TO_KERNELS = {
    "start": "starting Python, checking names",
    "opening": "device, model and known schedules",
    "reading": "export by PyTorch, import by TVM (twice)",
    "extracting": "finding the kernels",
}
_FROM_KERNELS = {
    "compiling": "compiling the network",
    "compiling untuned": "compiling it untuned, to compare",
    "checking": "running it and PyTorch, comparing outputs",
    "timing": "timing both",
    "rest of the network": "starting the processes for this",
    "report": "report",
    "other": "other",
}
SECONDS_STAGES = {
    "tune": {
        **_TO_KERNELS,
        "evolution": "search: proposing",
        "features": "search: features",
        "prediction": "search: prediction",
        "building": "search: building",
        "running": "search: running",
        "learning": "search: learning",
        "rest of the kernels": "search: starting processes, and the rest",
        **_FROM_KERNELS,
    },
    "compile": {
        **_TO_KERNELS,
        "space": "kernels: design spaces",
        "carrying": "kernels: known schedules, carried over",
        "choosing": "kernels: programs for the model to choose from",
        "features": "kernels: features",
        "prediction": "kernels: prediction",
        "building": "kernels: waiting for builds",
        "replaying": "kernels: replaying",
        "comparing": "kernels: comparing outputs",
        "rest of the kernels": "kernels: starting processes, and the rest",
        **_FROM_KERNELS,
    },
}
"""Command -> its stages, as in the rows of the benchmark `network-seconds`, with their titles."""
_BEFORE = "version 0.1.0, AMD EPYC (Zen 4)"


def network_seconds_table(result: Mapping[str, Any]) -> str:
    """A table for each command: a column per network, a line per stage; means over seeds, so that they add up.

    Args:
        result: `rows` of the benchmark `network-seconds`.
    """
    groups: dict[str, dict[str, list[Mapping[str, Any]]]] = {}
    for row in result["rows"]:
        title = f"{row['network']}, {row['trials']} trials" if row["trials"] else row["network"]
        groups.setdefault(row["command"], {}).setdefault(title, []).append(row)
    if not groups:
        return "Not measured yet."
    return "\n\n".join(_seconds_table(command, groups[command]) for command in SECONDS_STAGES if command in groups)


def _seconds_table(command: str, networks: Mapping[str, Sequence[Mapping[str, Any]]]) -> str:
    cells = {network: _seconds_cells(rows, SECONDS_STAGES[command]) for network, rows in networks.items()}
    lines = [
        {"what": what, **{network: own[what] for network, own in cells.items()}} for what in next(iter(cells.values()))
    ]
    told = [line for line in lines if any(line[network] is not None for network in networks)]
    columns = [TableColumn("what", f"`costhub {command}`, seconds")]
    return markdown_table(told, [*columns, *(TableColumn(network, network, align="right") for network in networks)])


def _seconds_cells(rows: Sequence[Mapping[str, Any]], stages: Mapping[str, str]) -> dict[str, str | None]:
    """Line -> text, for the rows of one network."""

    def mean(values: Sequence[float | None], spec: str) -> str | None:
        known = [value for value in values if value is not None]
        return format(statistics.fmean(known), spec) if known else None

    seconds = [row["seconds"] for row in rows]
    spread = f" ({min(seconds):,.0f} to {max(seconds):,.0f})" if len(rows) > 1 else ""
    each_s = [row["kernels_s"] / row["kernels"] if row["kernels_s"] else None for row in rows]
    return {
        "**from start to exit**": f"**{statistics.fmean(seconds):,.0f}**{spread}",
        "aim": mean([row.get("aim_s") for row in rows], ",.0f"),
        _BEFORE: mean([row.get("before_s") for row in rows], ",.0f"),
        **{title: mean([row["stages"].get(stage) for row in rows], ",.1f") for stage, title in stages.items()},
        "share of the time in which a core is busy": mean([row.get("busy") for row in rows], ".0%"),
        "kernels": mean([row["kernels"] for row in rows], ".0f"),
        "for each kernel": mean(each_s, ".1f"),
        "aim for each kernel": mean([row["kernel_aim_s"] for row in rows], ".1f"),
        "programs measured": mean([row["measured"] or None for row in rows], ",.0f"),
        **{
            f"{title} (ms)": mean([us / 1e3 for row in rows if (us := row["latencies_us"].get(form))], ",.2f")
            for form, title in (("untuned", "untuned"), ("torch", "PyTorch"), ("tuned", "tuned"))
        },
        "outputs wrong": f"{sum(row['error'] is not None for row in rows)} of {len(rows)}",
    }


def memory_table(result: Mapping[str, Any]) -> str:
    """The most memory of each command, from the `rows` of the benchmark `memory`, and what one process took of it."""
    columns = [
        TableColumn("what", "command"),
        number("gib", "all processes (GiB)", ".1f"),
        number("processes", "processes", "d"),
        number("largest_gib", "the largest (GiB)", ".1f"),
    ]
    lines = [
        {
            "what": f"`costhub {row['command']}`" + (f", {row['network']}" if row["network"] else ""),
            "gib": row["bytes"] / (1 << 30),
            "processes": row["processes"],
            "largest_gib": row["largest_bytes"] / (1 << 30),
        }
        for row in result["rows"]
    ]
    return markdown_table(lines, columns)


NETWORK_TABLES |= {
    **dict.fromkeys(("network_seconds", "network_seconds_zen4"), network_seconds_table),
    "memory": memory_table,
}
