"""Tables of what limits cost models: the value of accuracy, losses, features, and what compiled code would tell."""

from __future__ import annotations

import statistics
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from costhub.cards.tables import TableColumn, markdown_table, number
from scripts.tables.models.comparison import plus_minus, short_metrics, texts_of

Result = Mapping[str, Any]
Row = Mapping[str, Any]


def value_of_accuracy_table(result: Result) -> str:
    """One table per device: a line for each noise of the oracle, and for each model."""
    found = ("best_of_1", "best_of_4", "best_of_16", "best_of_64")
    columns = [
        TableColumn("scores", "order"),
        number("top_1", "top-1"),
        number("pairwise", "pairwise"),
        *(number(name, name.replace("best_of_", "trials: "), ".3f") for name in found),
    ]
    parts = []
    for device in dict.fromkeys(row["device"] for row in result["rows"]):
        own = [row for row in result["rows"] if row["device"] == device]
        sizes = f"{own[0]['workloads']} workloads, {own[0]['programs']:,} programs each (median)"
        parts.append(f"**{device}**, {sizes}\n\n{markdown_table(own, columns)}")
    return "\n\n".join(parts)


def top_losses_table(result: Result) -> str:
    """Two tables, one line per loss or blend: on the validation workloads that decide, and on the tested ones."""
    parts = []
    for part, title in (("validation", "chosen on"), ("test", "tested on")):
        own = sorted((row for row in result["summary"] if row["part"] == part), key=lambda row: -row["top_1"])
        parts.append(_gains_table(own, f"{title} {own[0]['workloads']} workloads", result["chosen"]))
    return "\n\n".join(parts)


def feature_specs_table(result: Result) -> str:
    """One line per model and feature spec, with what it gains over the same model with the first spec."""
    rows = result["summary"]
    return _gains_table(rows, f"{rows[0]['workloads']:,} workloads, each held out once")


def _gains_table(rows: Sequence[Row], title: str, chosen: str | None = None) -> str:
    columns = [TableColumn("model", title)]
    columns += [TableColumn(name, name.replace("_", "-"), align="right") for name in _TOP_FIGURES]
    columns += [
        TableColumn(f"{name}_gain", f"gain in {name.replace('_', '-')}", align="right") for name in _TOP_FIGURES
    ]
    return markdown_table([_gains_line(row, chosen) for row in rows], columns)


_TOP_FIGURES = ("top_1", "top_5", "pairwise")


def _gains_line(row: Row, chosen: str | None) -> dict[str, str]:
    line = {"model": f"**{row['model']}**" if chosen and chosen in row["model"] else row["model"]}
    for name in _TOP_FIGURES:
        line[name] = plus_minus(row[name], row[f"{name}_se"])
        gain, error = row[f"{name}_gain"], row[f"{name}_gain_se"]
        line[f"{name}_gain"] = "-" if row["model"] == row["base"] else f"{gain:+.3f} ± {error:.3f}"
    return line


def feature_ceiling_table(result: Result) -> str:
    """Two tables: models that know the workload, or not; and programs that are neighbours in features."""
    titles = zip(_TRAINING, ("features", "model", "learned from"), strict=True)
    shown = [*(TableColumn(*pair) for pair in titles), *(number(key, key.replace("_", "-")) for key in _FIGURES)]
    columns = [
        TableColumn("device", "device"),
        TableColumn("spec", "features"),
        number("spread", "spread of a workload"),
        number("random_pair", "any two programs"),
        number("nearest", "nearest neighbours"),
        number("nearest_tenth", "nearest tenth of these"),
    ]
    lines = feature_ceiling_summary(result["rows"])
    return f"{markdown_table(lines, shown)}\n\n{markdown_table(result['neighbours'], columns)}"


_TRAINING = ("spec", "arch", "learned from")
_FIGURES = ("top_1", "top_5", "pairwise", "error")


def feature_ceiling_summary(rows: Sequence[Row]) -> list[Row]:
    """The means of each kind of training over seeds and splits; `learned` repeats what it learned from."""
    cells: dict[tuple[str, ...], list[Row]] = {}
    for row in rows:
        cells.setdefault(texts_of(row, _TRAINING), []).append(row)
    return [
        dict(zip(_TRAINING, cell, strict=True), learned=cell[-1])
        | {key: statistics.fmean(row[key] for row in own) for key in _FIGURES if key in own[0]}
        for cell, own in cells.items()
    ]


def verify_stage_table(result: Result) -> str:
    """One line per way of searching: what it builds and runs, and how near it comes to the best program."""
    lines = []
    for row in result["ways"]:
        gain = "-" if row["way"] == result["first"] else plus_minus(row["gain"], row["gain_se"])
        lines.append({**row, "found_text": plus_minus(row["found"], row["found_se"]), "gain_text": gain})
    columns = [
        TableColumn("way", "what chooses"),
        number("built", "built", ".0f"),
        number("run", "run", ".0f"),
        TableColumn("found_text", "optimum / best found", align="right"),
        TableColumn("gain_text", f"times as fast as {result['first']}'s", align="right"),
        number("build_s", "builds (core s)", ".1f"),
        number("run_s", "runs (s)", ".1f"),
    ]
    return f"{markdown_table(lines, columns)}\n\n{_verify_stage_note(result)}"


def _verify_stage_note(result: Result) -> str:
    sizes, known, learned = result["sizes"], result["knowledge"], result["learned"]
    least = min((side["test"] for side in known["splits"].values()), default=0)
    held_out = "all" if least == known["workloads"] else f"at least {least}"
    return (
        f"Geometric means over {known['workloads']} workloads and {result['seeds']} seeds, of {result['draws']} draws "
        f"of {sizes['candidates']} candidates each; ± is the standard error over workloads, of logarithms. Of these "
        f"workloads, {result['first']} has learned from {known['learned'] or 'none'} on any of its "
        f"{len(known['devices'])} devices; the split of each of its {len(known['splits'])} datasets holds out "
        f"{held_out} of them. The trees have learned from {learned['programs']:,} programs of "
        f"{learned['workloads']} other workloads on `{learned['device']}`."
    )


def pool_sizes_table(result: Result) -> str:
    """One line per model: its metrics among random programs of each workload, few and many."""
    rows: Sequence[Row] = result["pools"]
    lines = []
    for model in dict.fromkeys(row["model"] for row in rows):
        own = {str(row["size"]): short_metrics(row) for row in rows if row["model"] == model}
        lines.append({"model": model, **own})
    columns = [TableColumn("model", "top-1 / top-5 / pairwise")]
    for size in dict.fromkeys(row["size"] for row in rows):
        title = f"all, some {result['programs']:,}" if size == "all" else f"{size} programs"
        columns.append(TableColumn(str(size), title, align="right"))
    errors = [row["top_1_se"] for row in rows if row["top_1_se"] is not None]
    note = f" The standard errors of top-1 are {min(errors):.3f} to {max(errors):.3f}." if errors else ""
    return f"{markdown_table(lines, columns)}\n\nMeans over {result['knowledge']['workloads']} workloads.{note}"


CEILING_TABLES: dict[str, Callable[[Result], str]] = {
    "value_of_accuracy": value_of_accuracy_table,
    "top_losses": top_losses_table,
    "stacking": top_losses_table,
    "feature_specs": feature_specs_table,
    "feature_ceiling": feature_ceiling_table,
    "feature_ceiling_h200": feature_ceiling_table,
    "verify_stage": verify_stage_table,
    "pool_sizes": pool_sizes_table,
}
"""Name of a result file without its suffix, or of a view of one -> its renderer."""

CEILING_VIEWS = {"pool_sizes": "verify_stage"}
"""Name of a view -> the file whose figures it shows."""
