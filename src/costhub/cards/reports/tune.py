"""Renders the report of a search, as Markdown and as one HTML file with the same sections."""

from __future__ import annotations

import statistics
from collections.abc import Iterator, Mapping, Sequence
from functools import partial
from typing import Any

from costhub.cards.reports.blocks import Block, Code, Figure, Heading, Paragraph, Table, html_report, markdown_report
from costhub.cards.reports.tune_plots import MOST_CURVES, curves_svg, estimate_svg, latencies_svg, stages_svg
from costhub.cards.tables import TableColumn, counted, number
from costhub.errors import DataError

REQUIRED = ("device", "model", "method", "database", "workloads")
REQUIRED_ROW = ("workload", "trials", "failures", "seconds", "untuned_us", "best_us", "curve")
UNTUNED_NOTE = (
    "Untuned is what TVM's default pipeline for CPUs makes of the same network: its operators are fused, its "
    "loops are not scheduled and run on one thread."
)

_FORMS = {
    "untuned": "TVM, untuned",
    "tuned": "TVM, tuned",
    "torch": "torch, eager",
    "torch.compile": "torch.compile",
}
_LATENCIES = (
    TableColumn("form", "form"),
    number("median_us", "latency (µs)", ",.1f"),
    number("low_us", "a quarter below", ",.1f"),
    number("high_us", "a quarter above", ",.1f"),
    number("calls", "calls", "d"),
    number("ratio", "tuned is faster by", ".2f"),
)
_SHARES = (
    number("weight", "calls", "g"),
    number("share_before", "share before", ".1%"),
    number("share_after", "after", ".1%"),
)
_RESULTS = (
    number("untuned_us", "unscheduled (µs)", ",.2f"),
    number("best_us", "tuned (µs)", ",.2f"),
    number("speedup", "times as fast", ".2f"),
    number("trials", "measured", "d"),
    number("failures", "failed", "d"),
    number("seconds", "search (s)", ".1f"),
)
_STAGES = (
    TableColumn("workload", "workload"),
    number("evolution", "evolution (s)", ".1f"),
    number("features", "features (s)", ".1f"),
    number("prediction", "prediction (s)", ".2f"),
    number("learning", "learning (s)", ".1f"),
    number("building", "building (s)", ".1f"),
    number("running", "running (s)", ".1f"),
    number("other", "other (s)", ".1f"),
    number("share", "prediction", ".1%"),
)
_FACTS = (TableColumn("fact", ""), TableColumn("value", ""))
_MILESTONES = (16, 32, 64, 128, 200, 256, 512, 1024, 2048)
"""Numbers of trials at which the progress of a search is shown."""


def tune_markdown(summary: Mapping[str, Any], *, plots: Sequence[str] = ()) -> str:
    """Renders a report in Markdown.

    Args:
        summary: `device`, `model` and `method` (text), `database` (path) and `workloads`, a list of rows
            with `workload`, `trials`, `failures`, `seconds`, `untuned_us` (None if it was not measured),
            `best_us` (None if every program failed) and `curve`, a list of (trial, ..., best latency in
            microseconds). Optional: `model_reason`, `machine`, `command`, `created`, `versions`, `networks`
            (`FinishedNetwork.to_json`), `estimate`, a list of (trials, latency of all kernels in us),
            `earlier` (see `costhub.cards.reports.tune_history.with_earlier`), and in a row `device`, `weight`,
            `share_before`, `share_after` and `stages`, seconds by stage.
        plots: Paths of pictures of the workloads, relative to the report.

    Raises:
        DataError: A field is missing.
    """
    return markdown_report(_title(summary), _blocks(summary, plots))


def tune_page(summary: Mapping[str, Any]) -> str:
    """Renders the same report as one HTML file for a browser; equal data give equal text.

    Raises:
        DataError: A field is missing.
    """
    return html_report(_title(summary), _blocks(summary, ()))


def _title(summary: Mapping[str, Any]) -> str:
    _require(summary, REQUIRED, "the summary")
    names = [network["network"] for network in summary.get("networks", ())]
    return f"{', '.join(names) or counted(len(summary['workloads']), 'workload')} on {summary['device']}"


def _require(mapping: Mapping[str, Any], keys: tuple[str, ...], what: str) -> None:
    missing = [key for key in keys if key not in mapping]
    if missing:
        raise DataError(f"A tuning report needs {', '.join(missing)}, which {what} lacks.")


def _blocks(summary: Mapping[str, Any], plots: Sequence[str]) -> Iterator[Block]:
    rows = sorted(map(_with_speedup, summary["workloads"]), key=lambda row: -(row.get("share_before") or 0.0))
    networks = summary.get("networks", ())
    earlier = summary.get("earlier", ())
    for search in earlier:
        _require(search, ("device", "model", "method", "workloads"), "an earlier search in it")
    for number_of, network in enumerate(networks):
        yield from _network(network, number_of)
    yield Heading("Result")
    yield Paragraph(_result(rows), is_strong=not networks)
    devices = {row.get("device") for row in rows}
    device = (TableColumn("device", "device"),) if len(devices) > 1 else ()
    if any(row.get("weight") for row in rows):
        yield Paragraph(
            "Share is latency times calls, of all kernels that were searched together. Unscheduled is the kernel "
            "without a schedule."
        )
        yield Table(rows, (TableColumn("workload", "kernel"), *device, *_SHARES, *_RESULTS))
    else:
        yield Table(rows, (TableColumn("workload", "workload"), *device, *_RESULTS))
    yield from _progress(rows, summary.get("estimate", ()), plots, is_last_of_several=bool(earlier))
    yield from _seconds(rows)
    yield Heading("Use it")
    yield Paragraph(f"The best schedule of each workload is in the TVM database in the folder {summary['database']}:")
    yield Code(compile_tir_usage(summary["database"]))
    yield Heading("How it was made")
    yield Table(_origin(summary), _FACTS)
    for search in earlier:
        yield Heading("An earlier search in the same folder", level=3)
        yield Table([{"fact": "Workloads", "value": ", ".join(search["workloads"])}, *_origin(search)], _FACTS)


def _with_speedup(row: Mapping[str, Any]) -> dict[str, Any]:
    _require(row, REQUIRED_ROW, f"the row of {row.get('workload', '?')}")
    return {**row, "speedup": speedup(row)}


def speedup(row: Mapping[str, Any]) -> float | None:
    """Untuned over best latency; None if one of them is unknown.

    Example:
        >>> speedup({"untuned_us": 300.0, "best_us": 100.0})
        3.0
    """
    untuned, best = row["untuned_us"], row["best_us"]
    return untuned / best if untuned and best else None


def _network(network: Mapping[str, Any], number_of: int) -> Iterator[Block]:
    """The result of a whole network: a sentence, latencies, and how to use the library."""
    yield Heading(network["network"])
    yield Paragraph(network_headline(network), is_strong=True)
    rows = _latency_rows(network)
    if rows:
        caption = "From call to output; the line is the middle half of the calls."
        yield Figure(partial(latencies_svg, rows, name=f"latencies-{number_of}"), caption)
        yield Table(rows, _LATENCIES)
        yield Paragraph(UNTUNED_NOTE, is_note=True)
    if not network["error"]:
        yield Paragraph(
            f"{network['kernels_tuned']} of its {network['kernels']} distinct kernels have a schedule from the "
            "search; the others are the plain loops that TVM generates, and large ones run in parallel. All "
            f"forms had {network['threads']} threads (set TVM_NUM_THREADS={network['threads']}; without it, TVM "
            "uses half of the CPUs)."
        )
    for note in network["notes"]:
        yield Paragraph(note, is_note=True)
    if network["library"]:
        yield Paragraph("To use it with TVM alone, without costhub:")
        yield Code(_network_usage(network))


def network_headline(network: Mapping[str, Any]) -> str:
    """One or two sentences: before, after, torch, and whether the outputs are right.

    Args:
        network: `FinishedNetwork.to_json`.

    Example:
        >>> times = {"untuned": {"median_us": 9000.0}, "tuned": {"median_us": 3000.0}}
        >>> network_headline({"network": "net", "error": None, "latencies": times, "reference": "untuned",
        ...                   "tolerance": 2e-4})
        "net: 9.00 ms before, 3.00 ms after, 3.0 times as fast. Its outputs equal the untuned network's ..."
    """
    if network["error"]:
        return str(network["error"])
    us = {form: latency["median_us"] for form, latency in network["latencies"].items()}
    if "tuned" not in us:
        return f"{network['network']}: compiled and checked, but it could not be timed."
    text = f"{network['network']}: {duration_text(us['tuned'])} after"
    if "untuned" in us:
        gain = f"{us['untuned'] / us['tuned']:.1f} times as fast"
        before, after = duration_text(us["untuned"]), duration_text(us["tuned"])
        text = f"{network['network']}: {before} before, {after} after, {gain}"
    for form in ("torch", "torch.compile"):
        if form in us:
            text += f"; {form} takes {duration_text(us[form])}"
    whose = "torch's" if network["reference"] == "torch" else "the untuned network's"
    return f"{text}. Its outputs equal {whose} (tolerance {network['tolerance']:g} of their size)."


def duration_text(us: float) -> str:
    """A time with three digits, in a unit that suits it.

    Example:
        >>> duration_text(12.34), duration_text(12340.0), duration_text(1.5e6)
        ('12.3 µs', '12.3 ms', '1.50 s')
    """
    unit, size = next(((unit, size) for unit, size in (("s", 1e6), ("ms", 1e3)) if us >= size), ("µs", 1.0))
    value = us / size
    return f"{value:.{max(0, 2 - (value >= 10) - (value >= 100))}f} {unit}"


def _latency_rows(network: Mapping[str, Any]) -> list[dict[str, Any]]:
    """A row of the table of latencies for each form that was timed."""
    timed = network["latencies"]
    tuned = timed["tuned"]["median_us"] if "tuned" in timed else None
    return [
        {**latency, "form": _FORMS.get(form, form), "ratio": latency["median_us"] / tuned if tuned else None}
        for form, latency in timed.items()
    ]


def _network_usage(network: Mapping[str, Any]) -> str:
    """Python that loads the library and calls it."""
    inputs = ", ".join(
        f"tvm.runtime.tensor(np.zeros({tuple(shape)!r}, {dtype!r}))" for dtype, shape in network["inputs"]
    )
    return (
        "import numpy as np, tvm\nfrom tvm import relax\n\n"
        f"library = tvm.runtime.load_module({network['library']!r})\n"
        'network = relax.VirtualMachine(library, tvm.cpu())["main"]\n'
        f"outputs = network({inputs})"
    )


def _result(rows: Sequence[Mapping[str, Any]]) -> str:
    """A sentence about the effort, one about the outcome, and one about workloads without a program."""
    trials, failures = sum(row["trials"] for row in rows), sum(row["failures"] for row in rows)
    seconds, what = sum(row["seconds"] for row in rows), counted(len(rows), "workload")
    text = f"{trials} programs of {what} were measured in {seconds:.0f} s, {failures} of them failed."
    gains = [row["speedup"] for row in rows if row["speedup"] is not None]
    if gains:
        text += f" The tuned code is {statistics.geometric_mean(gains):.2f} times as fast as the unscheduled" + (
            "." if len(gains) == 1 else f", in the geometric mean of {counted(len(gains), 'workload')}."
        )
    empty = [row["workload"] for row in rows if row["best_us"] is None]
    return text + (f" No program ran for {', '.join(empty)}." if empty else "")


def _progress(
    rows: Sequence[Mapping[str, Any]],
    estimate: Sequence[Sequence[float]],
    plots: Sequence[str],
    *,
    is_last_of_several: bool,
) -> Iterator[Block]:
    """How good the search was after some of its trials."""
    curves = sum(bool(row["curve"]) for row in rows)
    if curves:
        yield Heading("The search")
    if len(estimate) > 1:
        caption = "All kernels by their best programs so far, each as often as it is called."
        if is_last_of_several:
            caption += " Kernels of earlier searches are left out."
        yield Figure(partial(estimate_svg, estimate), caption)
    if curves:
        more = curves - MOST_CURVES
        rest = f" {more} kernels with smaller shares are in the table only." if more > 0 else ""
        yield Figure(partial(curves_svg, rows), f"Best latency so far; dashed: without a schedule.{rest}", plots)
    reached = [m for m in _MILESTONES if any(row["curve"] and row["trials"] >= m for row in rows)]
    if reached:
        yield Paragraph("Best latency after a number of measured programs:")
        table = [{"workload": row["workload"], **{str(m): _best_at(row, m) for m in reached}} for row in rows]
        yield Table(
            table, [TableColumn("workload", "workload"), *(number(str(m), f"{m} (µs)", ".2f") for m in reached)]
        )


def _best_at(row: Mapping[str, Any], trials: int) -> float | None:
    best: list[float] = [point[-1] for point in row["curve"] if point[0] <= trials]
    return best[-1] if best and row["trials"] >= trials else None


def _seconds(rows: Sequence[Mapping[str, Any]]) -> Iterator[Block]:
    """Where the seconds of the searches went."""
    timed = [row for row in rows if row.get("stages")]
    if not timed:
        return
    yield Heading("Where the time went")
    total = sum(row["seconds"] for row in timed)
    yield Figure(partial(stages_svg, timed), f"The {total:,.0f} s of the search by stage. Evolution is TVM's own part.")
    shares = [row["stages"].get("prediction", 0.0) / sum(row["stages"].values()) for row in timed]
    yield Table(
        [{"workload": row["workload"], **row["stages"], "share": s} for row, s in zip(timed, shares, strict=True)],
        _STAGES,
    )


def compile_tir_usage(database: str) -> str:
    """Python that compiles the first workload of a database."""
    return (
        "import tvm\n"
        "from tvm.s_tir import meta_schedule as ms\n\n"
        f"database = ms.database.JSONDatabase(work_dir={database!r})\n"
        "workload = database.get_all_tuning_records()[0].workload\n"
        "(best,) = database.get_top_k(workload, 1)\n"
        "schedule = ms.tir_integration.compile_tir(database, workload.mod, best.target)\n"
        "library = tvm.compile(schedule.mod, target=best.target)"
    )


def _origin(summary: Mapping[str, Any]) -> list[dict[str, str]]:
    machine = summary.get("machine")
    facts = {
        "Model": f"{summary['model']}. {summary.get('model_reason') or ''}".strip(". ") + ".",
        "Method": summary["method"],
        "Machine": f"{machine} ({summary['device']})" if machine else summary["device"],
        "Command": summary.get("command"),
        "Date": summary.get("created"),
        "Versions": ", ".join(f"{name} {text}" for name, text in sorted((summary.get("versions") or {}).items())),
    }
    return [{"fact": fact, "value": value} for fact, value in facts.items() if value]
