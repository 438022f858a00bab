"""Tables of transfers to devices that a hub did not know: between GPUs, and to a new chip."""

from __future__ import annotations

import statistics
from collections.abc import Mapping, Sequence
from typing import Any

from costhub.cards.tables import TableColumn, markdown_table, number
from scripts.tables.moses import moses_table
from scripts.tables.transfer import EVERYTHING, METRICS

TOLD, POOLED = "any-gpu", "pooled"
"""Sources that are models of the other four devices: with the figures of each as input, and without."""
_FROM_NOTHING = "scratch blend"
_Line = Mapping[str, Any]


def gpu_transfer_table(result: Mapping[str, Any]) -> str:
    """Two tables: unchanged models of each device on each other one, and what trials on the target add."""
    lines: Sequence[_Line] = result["summary"]
    targets = list(dict.fromkeys(line["target"] for line in lines))
    seeds = max(line["seeds"] for line in lines)
    note = f"Top-1 / top-5 / pairwise of unchanged models, means over {seeds} seed{'s' if seeds > 1 else ''}."
    return f"{_matrix(lines, targets)}\n\n{note}\n\n{_gains(lines)}\n\nShare of the pairs in the right order."


def _matrix(lines: Sequence[_Line], targets: Sequence[str]) -> str:
    """One line per source; the device's own model is on the diagonal, in italics."""
    cells = {(line["source"], line["target"]): _cell(line) for line in lines if line["method"] == "frozen"}
    cells |= {(line["target"],) * 2: f"*{_cell(line)}*" for line in lines if line["method"] == EVERYTHING}
    cells |= {("random order", line["target"]): _cell(line) for line in lines if line["method"] == "random"}
    said = {TOLD: "the other four, with each GPU's figures", POOLED: "the other four, without figures"}
    sources = [*targets, *said, "random order"]
    rows = [
        {"source": said.get(source, source), **{target: cells.get((source, target), "-") for target in targets}}
        for source in sources
    ]
    columns = [TableColumn("source", "model of"), *(TableColumn(t, f"on {t}", align="right") for t in targets)]
    return markdown_table(rows, columns)


def _gains(lines: Sequence[_Line]) -> str:
    """One line per pair: pairwise after the numbers of trials, by each method."""
    trials = sorted({line["trials"] for line in lines} - {0})
    value = {(line["source"], line["target"], line["method"], line["trials"]): line["pairwise"] for line in lines}
    methods = list(dict.fromkeys(line["method"] for line in lines if line["source"] and line["trials"]))
    rows = []
    for source, target in dict.fromkeys((line["source"], line["target"]) for line in lines if line["trials"]):
        if not source:
            continue
        row = {"pair": f"{source} to {target}", "frozen": f"{value[source, target, 'frozen', 0]:.3f}"}
        for method in (*methods, _FROM_NOTHING):
            start = "" if method == _FROM_NOTHING else source
            shares = [value.get((start, target, method, count)) for count in trials]
            row[method] = " / ".join("-" if share is None else f"{share:.3f}" for share in shares)
        rows.append(row)
    told = " / ".join(f"{count}" for count in trials)
    columns = [TableColumn("pair", "from, to"), TableColumn("frozen", "unchanged", align="right")]
    columns += [TableColumn(name, f"{name}, {told} trials", align="right") for name in (*methods, _FROM_NOTHING)]
    return markdown_table(rows, columns)


def _cell(line: _Line) -> str:
    return " / ".join(f"{line[metric]:.3f}" for metric in METRICS)


def gpu_mixtures_table(result: Mapping[str, Any]) -> str:
    """One line for each choice of what a model learns from."""
    rows: Sequence[_Line] = result["summary"]
    lines = [
        {"form": line["form"], "programs": line["programs"], **{m: _with_error(line, m) for m in METRICS}}
        for line in rows
    ]
    columns = [TableColumn("form", "learns from"), number("programs", "programs", ",d")]
    columns += [TableColumn(name, name, align="right") for name in METRICS]
    note = f"Means over all workloads, each held out once, and over {rows[0]['seeds']} divisions into fifths."
    return f"{markdown_table(lines, columns)}\n\n{note}"


def _with_error(line: _Line, metric: str) -> str:
    error = line[f"{metric}_se"]
    return f"{line[metric]:.3f}" + ("" if error is None else f" ± {error:.3f}")


def new_chip_table(result: Mapping[str, Any]) -> str:
    """One table for each device: a line per method, a column per number of trials; means over seeds."""
    rows: Sequence[_Line] = result["rows"]
    return "\n\n".join(
        f"**{device}**, {rows[0]['workloads']} workloads\n\n{_adapted([r for r in rows if r['device'] == device])}"
        for device in dict.fromkeys(row["device"] for row in rows)
    )


def _adapted(rows: Sequence[_Line]) -> str:
    trials = sorted({row["trials"] for row in rows})
    lines = []
    for method in dict.fromkeys(row["method"] for row in rows):
        line = {"method": method}
        for count in trials:
            own = [row for row in rows if (row["method"], row["trials"]) == (method, count)]
            means = (f"{statistics.fmean(row[metric] for row in own):.3f}" for metric in METRICS if own)
            line[str(count)] = " / ".join(means) or "-"
        lines.append(line)
    columns = [TableColumn("method", "top-1 / top-5 / pairwise")]
    columns += [TableColumn(str(count), f"{count:,} trials", align="right") for count in trials]
    return markdown_table(lines, columns)


GPU_TABLES = {
    "gpu_transfer": gpu_transfer_table,
    "gpu_mixtures": gpu_mixtures_table,
    "moses": moses_table,
    "new_chip": new_chip_table,
}
"""Name of a result file without its suffix -> its renderer."""
