"""Renders the result of a search for a terminal."""

from __future__ import annotations

import textwrap
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from costhub.cards.reports.tune_facts import (
    REQUIRED,
    TUNED,
    busy_text,
    disturbed_peak_text,
    duration_text,
    effort_text,
    end_text,
    forms,
    gain_text,
    headline,
    kernel_rows,
    no_result_text,
    on_gpu,
    outputs_text,
    own_rows,
    peak_text,
    require,
    sum_text,
)
from costhub.cards.tables import TableColumn, number, one_line, plain_table
from costhub.terminal_text import counted

_WIDTH = 80
_MOST_KERNELS = 10
"""Maximum number of network kernels in the table; the report has all of them."""


def summary_text(summary: Mapping[str, Any], *, networks: int | None = None) -> str:
    """The result of a search for a terminal of 80 columns or more: networks or workloads, effort, and files.

    Args:
        summary: The report, see `costhub.cards.reports.tune.tune_markdown`; for a folder with several searches,
            the last one is shown.
        networks: Number of its networks that are from the last search; they come first. By default all of them.

    Raises:
        DataError: A field is missing.
    """
    require(summary, REQUIRED, "the summary")
    rows = own_rows(summary, kernel_rows(summary))
    last = summary.get("networks", ())[:networks]
    parts = [_network(network, summary) for network in last] or [_filled(no_result_text(summary))]
    parts.append(_kernels(rows, is_network=bool(last)))
    parts.append("\n".join(map(_filled, (*_effort(rows, summary, is_network=bool(last)), *_notes(rows)))))
    parts.append(_places(summary, last))
    return "\n\n".join(part for part in parts if part)


def _network(network: Mapping[str, Any], summary: Mapping[str, Any]) -> str:
    """The forms of a network, and whether its outputs are correct."""
    where = "GPU" if on_gpu(network) else counted(network["threads"], "thread")
    lines = [f"{network['network']}, {where}. {headline(network, summary)}"]
    us = {form: latency["median_us"] for form, latency in network["latencies"].items()}
    rows = [
        {
            "form": name,
            "latency": duration_text(latency["median_us"]),
            "ratio": "" if form == TUNED or TUNED not in us else _ratio(latency["median_us"] / us[TUNED]),
        }
        for form, name, latency in forms(network)
    ]
    if rows:
        columns = (TableColumn("form", ""), number("latency", ""), TableColumn("ratio", ""))
        lines += [f"  {line}" for line in plain_table(rows, columns).split("\n")[1:]]  # no titles needed
    if not network["error"]:
        lines.append(outputs_text(network))
    return "\n".join([*map(_filled, lines[:1]), *lines[1:], *map(_filled, network["notes"])])


def _ratio(ratio: float) -> str:
    """How much faster the tuned form is than another."""
    return f"costhub is {ratio:,.{2 if ratio < 20 else 0}f} times as fast"


def _kernels(rows: Sequence[Mapping[str, Any]], *, is_network: bool) -> str:
    shown = rows[:_MOST_KERNELS] if is_network else rows
    left = rows[len(shown) :]
    columns = (
        TableColumn("workload", "kernel" if is_network else "workload"),
        *([number("share", "share", ".0%"), number("weight", "calls", ".0f")] if is_network else []),
        number("best_us", "tuned (us)", ",.1f"),
        *([number("gflops", "GFLOP/s", ",.0f")] if any(row["gflops"] for row in rows) else []),
        *([number("of_peak", "of peak", ".0%")] if any(row["of_peak"] for row in rows) else []),
        *([number("untuned_us", "unscheduled (us)", ",.1f")] if any(row["untuned_us"] for row in rows) else []),
        number("trials", "programs", ",d"),
        *([number("failures", "failed", ",d")] if any(row["failures"] for row in rows) else []),
    )
    table = plain_table(shown, columns)
    if left:
        share = sum(row["share"] or 0.0 for row in left)
        table += f"\nand {counted(len(left), 'more kernel')} ({share:.0%} of the time)"
    return table


def _effort(rows: Sequence[Mapping[str, Any]], summary: Mapping[str, Any], *, is_network: bool) -> Iterator[str]:
    what = "kernel" if is_network else "workload"
    yield f"{effort_text(rows, what)}. {gain_text(rows, what)}".strip()
    if any(row["of_peak"] for row in rows):
        disturbed = disturbed_peak_text(rows, summary)
        yield f"Peak: {peak_text(summary)}. {disturbed}".rstrip()
    ended, busy = end_text(summary, rows), busy_text(summary, is_network=is_network)
    yield from filter(None, (ended, sum_text(summary, rows, always=False), busy))


def _notes(rows: Sequence[Mapping[str, Any]]) -> Iterator[str]:
    """What went wrong in the search of each workload."""
    for row in rows:
        name = row["workload"]
        constant = (row.get("health") or {}).get("constant_rounds")
        if constant:
            yield f"{name}: in {constant} rounds all candidates got the same score, so the search was random there."
        if row.get("failed_as"):
            yield f"{name}, failed: {', '.join(f'{count} x {kind}' for kind, count in row['failed_as'].items())}."


def _places(summary: Mapping[str, Any], networks: Sequence[Mapping[str, Any]]) -> str:
    out = Path(summary["database"])
    places = [
        *(("library ", network["library"]) for network in networks if network["library"]),
        ("report  ", out / "report.html"),
        ("database", out),
    ]
    return "\n".join(f"{what}  {one_line(str(where))}" for what, where in places)


def _filled(text: str) -> str:
    return textwrap.fill(one_line(text), _WIDTH, break_long_words=False, break_on_hyphens=False)
