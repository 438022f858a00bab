"""Provides tune_page: the report of a search as one HTML file to show to others."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from html import escape
from typing import Any

from costhub.cards.gains import geometric
from costhub.cards.network_text import (
    LATENCIES,
    UNTUNED_NOTE,
    coverage,
    headline,
    latency_rows,
    usage,
)
from costhub.cards.page import html_figure, html_page, html_table
from costhub.cards.tables import Column, counted, number
from costhub.cards.tune_plots import MOST_CURVES, curves_svg, estimate_svg, latencies_svg, stages_svg
from costhub.cards.tune_report import compile_tir_usage, speedup

_WORKLOADS = (
    Column("workload", "kernel"),
    number("weight", "calls", "g"),
    number("share_before", "share before", ".1%"),
    number("share_after", "after", ".1%"),
    number("untuned_us", "unscheduled (µs)", ",.1f"),
    number("best_us", "after (µs)", ",.1f"),
    number("speedup", "faster by", ".1f"),
    number("trials", "measured", "d"),
    number("failures", "failed", "d"),
)


def tune_page(summary: Mapping[str, Any]) -> str:
    """Renders a page for a browser; equal data give equal text.

    Args:
        summary: What `render_report` takes, with `machine`, `networks` (`FinishedNetwork.to_json`),
            `estimate`, a list of (trials, latency of all kernels in us), and in each workload `weight`,
            `share_before`, `share_after` and `stages`.
    """
    names = [network["network"] for network in summary["networks"]]
    what = ", ".join(names) or counted(len(summary["workloads"]), "workload")
    return html_page(f"{what} on {summary['device']}", _sections(summary))


def _sections(summary: Mapping[str, Any]) -> Iterator[str]:
    rows = sorted(
        ({**row, "speedup": speedup(row)} for row in summary["workloads"]),
        key=lambda row: -(row["share_before"] or 0.0),
    )
    if not summary["networks"]:
        yield f"<p><strong>{escape(_of_workloads(rows))}</strong></p>"
    for place, network in enumerate(summary["networks"]):
        yield from _network(network, place)
    yield "<h2>Kernels</h2>"
    yield (
        "<p>Share is latency times calls, of all kernels that were searched. Unscheduled is the kernel as it "
        "stands, without a schedule.</p>"
    )
    yield html_table(rows, _WORKLOADS)
    if len(summary["estimate"]) > 1:
        yield "<h2>The search</h2>"
        yield html_figure(
            estimate_svg(summary["estimate"]),
            "All kernels by their best programs so far, each as often as it is called.",
        )
    curves = sum(bool(row["curve"]) for row in rows)
    if curves:
        more = curves - MOST_CURVES
        rest = f" {more} kernels with smaller shares are in the table only." if more > 0 else ""
        yield html_figure(curves_svg(rows), f"Best latency so far; dashed: without a schedule.{rest}")
    yield from _seconds(rows)
    yield from _about(summary)


def _network(network: Mapping[str, Any], place: int) -> Iterator[str]:
    yield f"<p><strong>{escape(headline(network))}</strong></p>"
    rows = latency_rows(network)
    if rows:
        yield html_figure(
            latencies_svg(rows, name=f"latencies-{place}"),
            f"From call to output; the line is the middle half of the calls. {UNTUNED_NOTE}",
        )
        yield html_table(rows, LATENCIES)
    if not network["error"]:
        yield f"<p>{escape(coverage(network))}</p>"
    for note in network["notes"]:
        yield f'<p class="note">{escape(note)}</p>'
    if network["library"]:
        yield "<p>To use it with TVM alone, without costhub:</p>"
        yield f'<pre class="scroll">{escape(usage(network))}</pre>'


def _seconds(rows: Sequence[Mapping[str, Any]]) -> Iterator[str]:
    timed = [row for row in rows if row.get("stages")]
    if timed:
        total = sum(row["seconds"] for row in timed)
        caption = f"Where the {total:,.0f} s of the search went. Evolution is TVM's own part."
        yield html_figure(stages_svg(timed), caption)


def _about(summary: Mapping[str, Any]) -> Iterator[str]:
    yield "<h2>How it was made</h2>"
    versions = ", ".join(f"{name} {version}" for name, version in sorted(summary["versions"].items()))
    facts = {
        "Model": f"{summary['model']}. {summary['model_reason']}",
        "Method": summary["method"],
        "Machine": f"{summary['machine']} ({summary['device']})",
        "Command": summary["command"],
        "Date": summary["created"],
        "Versions": versions,
    }
    yield html_table(
        [{"what": what, "is": text} for what, text in facts.items()], (Column("what", ""), Column("is", ""))
    )
    yield "<p>The best schedule of each kernel is in a TVM database:</p>"
    yield f'<pre class="scroll">{escape(compile_tir_usage(summary["database"]))}</pre>'


def _of_workloads(rows: Sequence[Mapping[str, Any]]) -> str:
    gains = [row["speedup"] for row in rows if row["speedup"]]
    what = counted(len(rows), "workload")
    if (mean := geometric(gains)) is None:
        return f"No program of {what} ran."
    middle = "" if len(gains) == 1 else " in the geometric mean"
    return f"{what}: {mean:.1f} times as fast as without a schedule{middle}."
