"""Renders the report of a search, as Markdown and as one HTML file with the same sections."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Any

from costhub.cards.reports.blocks import (
    Block,
    Code,
    Details,
    Figure,
    Gallery,
    Heading,
    Paragraph,
    Parts,
    Table,
    html_report,
    markdown_report,
)
from costhub.cards.reports.tune_facts import (
    REQUIRED,
    best_at,
    busy_text,
    disturbed_peak_text,
    duration_text,
    effort_text,
    end_text,
    gain_text,
    kernel_rows,
    load_text,
    no_result_text,
    own_rows,
    peak_text,
    require,
    sum_text,
    together_curve,
)
from costhub.cards.reports.tune_network import network_blocks, usage_blocks
from costhub.cards.reports.tune_plots import MOST_CURVES, STAGES, curve_svg, plot_curves, plot_together, together_svg
from costhub.cards.tables import TableColumn, number
from costhub.errors import DataError
from costhub.terminal_text import counted

_MILESTONES = (8, 16, 32, 64, 128, 256, 512, 1024, 2048)
"""Numbers of trials at which a search's progress is shown."""
_STAGE_COLUMNS = (TableColumn("workload", "workload"), *(number(stage, f"{stage} (s)", ".1f") for stage in STAGES))
_FACTS = (TableColumn("fact", ""), TableColumn("value", ""))
_PLOTS = "plots"
"""Folder of the pictures."""
_MOST_ROWS = 12
"""Number of kernels in the table shown without a click."""
_MOST_IN_HEADLINE = 4
"""Maximum number of workloads whose latencies a headline gives."""


def tune_markdown(summary: Mapping[str, Any], *, plots: Mapping[str, str] | None = None) -> str:
    """Renders a report in Markdown.

    Args:
        summary: `device`, `model` and `method` (text), `database` (path) and `workloads`, a list of rows
            with `workload`, `trials`, `failures`, `seconds`, `untuned_us` (None if it was not measured),
            `best_us` (None if every program failed) and `curve`, a list of (trial, ..., best latency in
            microseconds). Optional: `model_reason`, `machine`, `command`, `created`, `versions`, `networks`
            (`FinishedNetwork.to_json`), `peak_gflops` of the device and its `peak_source` (`probe`: this machine;
            `index`: the index of devices), `load_average` and `cores` of this machine at the start, `cap`, the trials
            of the search, `earlier` (see `costhub.cards.reports.tune_history.with_earlier`), and in a row `device`,
            `weight`, `share_after`, `gflops`, `measured_us`, the latency of each program, and `stages`, seconds by
            stage.
        plots: `progress` and `kernels` -> path of the picture, relative to the report.

    Raises:
        DataError: A field is missing.
    """
    return markdown_report(_title(summary), _blocks(summary, plots or {}))


def tune_page(summary: Mapping[str, Any]) -> str:
    """Renders the same report as one HTML file for a browser; equal data give equal text.

    Raises:
        DataError: A field is missing.
    """
    return html_report(_title(summary), _blocks(summary, {}))


def tune_pictures(summary: Mapping[str, Any], folder: Path) -> dict[str, str]:
    """Draws the pictures for `tune_markdown` as SVG, following the reader's light or dark theme.

    Args:
        summary: The report.
        folder: Folder of the report; the pictures go to its subfolder `plots`.

    Returns:
        `progress` and `kernels`, if there is something to draw -> path relative to the report.

    Raises:
        DataError: The subfolder is a link.
    """
    refuse_linked_plots(folder)
    rows = own_rows(summary, kernel_rows(summary))
    curve = together_curve(rows)
    plots = {}
    if len(rows) > 1 and len(curve) > 2:
        plots["progress"] = plot_together(curve, folder / _PLOTS / "progress.svg")
    if any(row["curve"] for row in rows):
        plots["kernels"] = plot_curves(rows, folder / _PLOTS / "kernels.svg")
    return {name: f"{_PLOTS}/{path.name}" for name, path in plots.items()}


def refuse_linked_plots(folder: Path) -> None:
    """Refuses a link in place of the folder of the pictures: they would replace files somewhere else.

    Args:
        folder: Folder of the report.

    Raises:
        DataError: Its subfolder `plots` is a link.
    """
    if (folder / _PLOTS).is_symlink():
        raise DataError(
            f"{folder / _PLOTS} is a symbolic link, and the pictures of the report would go where it leads. Remove "
            "it, or choose another folder with --out."
        )


def _title(summary: Mapping[str, Any]) -> str:
    require(summary, REQUIRED, "the summary")
    names = [network["network"] for network in summary.get("networks", ())]
    if not names and len(summary["workloads"]) == 1:
        names = [summary["workloads"][0].get("workload", "?")]
    return f"{', '.join(names) or counted(len(summary['workloads']), 'workload')} on {summary['device']}"


def _blocks(summary: Mapping[str, Any], plots: Mapping[str, str]) -> Iterator[Block]:
    rows, networks = kernel_rows(summary), summary.get("networks", ())
    what = "kernel" if any(row.get("weight") for row in rows) and networks else "workload"
    yield Paragraph(_subtitle(summary), is_note=True)
    busy = busy_text(summary, is_network=bool(networks))
    effort = f"{effort_text(rows, what)}."
    if len(networks) > 1:
        yield Paragraph(effort)
    for network in networks:
        if len(networks) > 1:
            yield Heading(network["network"])
        yield from network_blocks(network, summary, effort=effort if len(networks) == 1 else "")
    if not networks:
        yield Paragraph(f"{_workloads_text(rows)} {no_result_text(summary)}".rstrip(), is_strong=True)
        yield Paragraph(effort)
    if busy:
        yield Paragraph(busy)
    yield from _kernels(rows, what, summary=summary)
    yield from _progress(own_rows(summary, rows), plots, what, summary=summary)
    for network in networks:
        yield from usage_blocks(network)
    yield Heading("Use the database" if networks else "Use it")
    yield Paragraph(f"The best schedule of each {what} is in the TVM database in the folder {summary['database']}:")
    in_bf16 = any(network.get("precision") == "bf16" for network in networks)
    yield Code(compile_tir_usage(summary["database"], in_bf16=in_bf16))
    yield from _seconds(rows)
    yield from _origins(summary, rows)


def _subtitle(summary: Mapping[str, Any]) -> str:
    versions = summary.get("versions") or {}
    parts = [
        summary.get("machine"),
        *(f"{name} {versions[key]}" for key, name in (("costhub", "costhub"), ("tvm", "TVM")) if key in versions),
        (summary.get("created") or "")[:10],
    ]
    return " · ".join(part for part in parts if part) or str(summary["device"])


def _workloads_text(rows: Sequence[Mapping[str, Any]]) -> str:
    """The result of workloads without a network: latency and speed of one, or the latencies of a few."""
    ran = [row for row in rows if row["best_us"] is not None]
    if not ran:
        return f"No program ran for {', '.join(row['workload'] for row in rows)}."
    if len(rows) > 1:
        few = ": " + ", ".join(f"{row['workload']} {duration_text(row['best_us'])}" for row in ran)
        how_many = "" if len(ran) == len(rows) else f"{len(ran)} of "
        return f"{how_many}{counted(len(rows), 'workload')} tuned{few if len(ran) <= _MOST_IN_HEADLINE else ''}."
    (row,) = ran
    speed = f", {row['gflops']:,.0f} GFLOP/s" if row["gflops"] else ""
    peak = f", {row['of_peak']:.0%} of this device's peak" if row["of_peak"] else ""
    return f"{duration_text(row['best_us'])}{speed}{peak}."


def _kernels(rows: Sequence[Mapping[str, Any]], what: str, *, summary: Mapping[str, Any]) -> Iterator[Block]:
    """The table of kernels, the most time-consuming first, with their peak and sum."""
    by_share = len(rows) > 1 and (what == "kernel" or any((row.get("weight") or 1.0) != 1.0 for row in rows))
    yield Heading("Kernels by their share of the time" if by_share else f"The {what}{'s' if len(rows) > 1 else ''}")
    own = own_rows(summary, rows)  # each search has shares of its own
    if by_share and len(own) > _MOST_ROWS:
        few = len(own) // 6
        share = sum(row["share"] or 0.0 for row in own[:few])
        last = " of the last search" if len(own) < len(rows) else ""
        yield Paragraph(f"{few} of {counted(len(own), what)}{last} take {share:.0%} of the time of all of them.")
    columns = _columns(rows, what, by_share=by_share)
    yield Table(rows[:_MOST_ROWS], columns)
    keys = {column.key for column in columns}
    notes = {
        "weight": "Calls are those in one run of the network.",
        "share": f"Share is latency times calls, of all {what}s searched together.",
        "best_us": "Tuned is the latency of the best program, timed alone.",
        "of_peak": f"Peak is {peak_text(summary)}; kernels that mostly move data stay far below.",
        "untuned_us": "Unscheduled is the latency of the plain loops on one thread.",
        "gain": "Last quarter is by how much the last quarter of its programs lowered the latency.",
    }
    yield Paragraph(" ".join(note for key, note in notes.items() if key in keys), is_note=True)
    if disturbed := disturbed_peak_text(rows, summary):
        yield Paragraph(disturbed)
    if together := sum_text(summary, rows):
        yield Paragraph(together)
    if len(rows) > _MOST_ROWS:
        yield Details(f"The other {counted(len(rows) - _MOST_ROWS, what)}", [Table(rows[_MOST_ROWS:], columns)])
    empty = [row["workload"] for row in rows if row["best_us"] is None]
    if empty and len(empty) < len(rows):
        yield Paragraph(f"No program ran for {', '.join(empty)}.")


def _columns(rows: Sequence[Mapping[str, Any]], what: str, *, by_share: bool) -> list[TableColumn]:
    """The columns that have something to show."""

    def known(key: str) -> bool:
        return any(row[key] for row in rows)

    more = {
        "device": len({row.get("device") for row in rows}) > 1,
        "weight": by_share,
        "share": by_share,
        "gflops": known("gflops"),
        "of_peak": known("of_peak"),
        "untuned_us": known("untuned_us"),
        "failures": known("failures"),
        "gain": any(row["gain"] is not None for row in rows),
    }
    columns = (
        TableColumn("workload", what),
        TableColumn("device", "device"),
        number("weight", "calls", "g", is_detail=True),
        number("share", "share", ".1%", is_share=True),
        number("best_us", "tuned (µs)", ",.1f"),
        number("gflops", "GFLOP/s", ",.0f", is_detail=more["of_peak"]),
        number("of_peak", "of peak", ".0%"),
        number("untuned_us", "unscheduled (µs)", ",.1f", is_detail=True),
        number("trials", "programs", ",d", is_detail=True),
        number("failures", "failed", ",d", is_detail=True),
        number("gain", "last quarter", ".1%", is_detail=True),
    )
    return [column for column in columns if more.get(column.key, True)]


def _progress(
    rows: Sequence[Mapping[str, Any]], plots: Mapping[str, str], what: str, *, summary: Mapping[str, Any]
) -> Iterator[Block]:
    """The result after some of the trials, which shows whether more of them would pay off."""
    drawn = [row for row in rows if row["curve"]]
    if not drawn:
        return
    yield Heading("Do more trials pay?")
    text = gain_text(rows, what)
    left_out = f" {what.capitalize()}s of earlier searches are left out." if summary.get("earlier") else ""
    anyway = " and --stop never" if summary.get("stopped") else ""
    on = f"A trial is one measured program; the same command with more trials{anyway} goes on from here."
    yield Paragraph(f"{text} {on}{left_out}".strip())
    curve = together_curve(rows)
    if len(rows) > 1 and len(curve) > 2:
        yield Figure(
            partial(together_svg, curve),
            f"Sum of the best latencies of all {what}s so far{', each times its calls' if what == 'kernel' else ''}.",
            [plots["progress"]] if "progress" in plots else (),
            is_small=True,
        )
    figures = [
        Figure(partial(curve_svg, row, name=f"curve-{place}"), row["workload"]) for place, row in enumerate(drawn)
    ]
    more = len(figures) - MOST_CURVES
    caption = (
        f"Latency in µs by measured programs: each program is a dot, the best so far a line. The scale ends above the "
        "middle half of the programs; triangles at its edge are slower ones."
        f"{f' {more} more {what}s are not drawn.' * (more > 0)}"
    )
    yield Gallery(figures[:MOST_CURVES], caption, [plots["kernels"]] if "kernels" in plots else ())
    reached = [m for m in _MILESTONES if any(row["curve"] and row["trials"] >= m for row in rows)]
    if reached:
        table = [{"workload": row["workload"], **{str(m): best_at(row, m) for m in reached}} for row in rows]
        columns = [TableColumn("workload", what), *(number(str(m), f"{m} (µs)", ",.1f") for m in reached)]
        yield Details("Best latency after a number of measured programs", [Table(table, columns)])


def _seconds(rows: Sequence[Mapping[str, Any]]) -> Iterator[Block]:
    """How the time of the searches was spent."""
    timed = [row for row in rows if row.get("stages")]
    if not timed:
        return
    yield Heading("Where the time of the search went")
    spent = {stage: sum(row["stages"].get(stage, 0.0) for row in timed) for stage in STAGES}
    total = sum(spent.values()) or 1.0
    parts = [(stage, s, f"{s:,.0f} s, {s / total:.0%}") for stage, s in spent.items() if s / total >= 0.005]
    yield Parts(parts)
    text = (
        "Evolution is TVM's own search; features, prediction and learning are the cost model's; building compiles "
        "programs, and running times them."
    )
    yield Paragraph(text, is_note=True)
    table = [{"workload": row["workload"], **row["stages"]} for row in timed]
    yield Details("Seconds of each", [Table(table, _STAGE_COLUMNS)])


def compile_tir_usage(database: str, *, in_bf16: bool = False) -> str:
    """Python code that compiles the first workload of a database.

    Args:
        database: The folder.
        in_bf16: Whether its schedules may name the intrinsics of costhub for bfloat16.
    """
    loaded = "from costhub.dataset.intrinsics import load_intrinsics\n" * in_bf16
    loading = f"load_intrinsics('llvm', database={database!r})\n" * in_bf16
    return (
        "import tvm\n"
        f"{loaded}from tvm.s_tir import meta_schedule as ms\n\n{loading}"
        f"database = ms.database.JSONDatabase(work_dir={database!r})\n"
        "workload = database.get_all_tuning_records()[0].workload\n"
        "(best,) = database.get_top_k(workload, 1)\n"
        "schedule = ms.tir_integration.compile_tir(database, workload.mod, best.target)\n"
        "library = tvm.compile(schedule.mod, target=best.target)"
    )


def _origins(summary: Mapping[str, Any], rows: Sequence[Mapping[str, Any]]) -> Iterator[Block]:
    yield Heading("How it was made")
    if summary.get("command"):
        yield Code(summary["command"], "sh")
    yield Table(_origin(summary, own_rows(summary, rows)), _FACTS)
    for search in summary.get("earlier", ()):
        require(search, ("device", "model", "method", "workloads"), "an earlier search in it")
        yield Heading("An earlier search in the same folder", level=3)
        if search.get("command"):
            yield Code(search["command"], "sh")
        yield Table([{"fact": "Workloads", "value": ", ".join(search["workloads"])}, *_origin(search, ())], _FACTS)


def _origin(summary: Mapping[str, Any], rows: Sequence[Mapping[str, Any]]) -> list[dict[str, str]]:
    """The facts about a search of some workloads."""
    machine = summary.get("machine")
    load = load_text(summary)
    facts = {
        "Model": f"{summary['model']}. {summary.get('model_reason') or ''}".strip(". ") + ".",
        "Method": summary["method"],
        "Measuring": end_text(summary, rows),
        "Machine": f"{machine} ({summary['device']})" if machine else summary["device"],
        "Peak": peak_text(summary),
        "Other programs": f"ran when the search began ({load})" if load else None,
        "Date": summary.get("created"),
        "Versions": ", ".join(f"{name} {text}" for name, text in sorted((summary.get("versions") or {}).items())),
    }
    return [{"fact": fact, "value": value} for fact, value in facts.items() if value]
