"""Renders the report of a search, as Markdown and as one HTML file."""

from __future__ import annotations

import statistics
from collections.abc import Iterator, Mapping, Sequence
from html import escape
from typing import Any

from costhub.cards.html import html_figure, html_page, html_table
from costhub.cards.reports.tune_plots import MOST_CURVES, curves_svg, estimate_svg, latencies_svg, stages_svg
from costhub.cards.tables import TableColumn, counted, markdown_table, number
from costhub.errors import DataError


def geometric(values: Sequence[float]) -> float | None:
    """The geometric mean; None of no values."""
    return statistics.geometric_mean(values) if values else None


NETWORK_LATENCIES = (
    TableColumn("form", "form"),
    number("median_us", "latency (µs)", ",.1f"),
    number("low_us", "a quarter below", ",.1f"),
    number("high_us", "a quarter above", ",.1f"),
    number("calls", "calls", "d"),
    number("ratio", "tuned is faster by", ".2f"),
)
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


def network_headline(network: Mapping[str, Any]) -> str:
    """One or two sentences: before, after, torch, and whether the outputs are right.

    Args:
        network: `FinishedNetwork.to_json`.

    Example:
        >>> times = {"untuned": {"median_us": 9000.0}, "tuned": {"median_us": 3000.0}}
        >>> headline({"network": "net", "error": None, "latencies": times, "reference": "untuned",
        ...           "tolerance": 2e-4})
        "net: 9.00 ms before, 3.00 ms after, 3.0 times as fast. Its outputs equal the untuned network's ..."
    """
    if network["error"]:
        return str(network["error"])
    us = {form: latency["median_us"] for form, latency in network["latencies"].items()}
    if "tuned" not in us:
        return f"{network['network']}: compiled and checked, but it could not be timed."
    text = f"{network['network']}: {duration(us['tuned'])} after"
    if "untuned" in us:
        gain = f"{us['untuned'] / us['tuned']:.1f} times as fast"
        text = f"{network['network']}: {duration(us['untuned'])} before, {duration(us['tuned'])} after, {gain}"
    for form in ("torch", "torch.compile"):
        if form in us:
            text += f"; {form} takes {duration(us[form])}"
    whose = "torch's" if network["reference"] == "torch" else "the untuned network's"
    return f"{text}. Its outputs equal {whose} (tolerance {network['tolerance']:g} of their size)."


def duration(us: float) -> str:
    """A time with three digits, in a unit that suits it.

    Example:
        >>> duration(12.34), duration(12340.0), duration(1.5e6)
        ('12.3 µs', '12.3 ms', '1.50 s')
    """
    for unit, size in (("s", 1e6), ("ms", 1e3)):
        if us >= size:
            return f"{_three(us / size)} {unit}"
    return f"{_three(us)} µs"


def _three(value: float) -> str:
    return f"{value:.{max(0, 2 - (value >= 10) - (value >= 100))}f}"


def latency_rows(network: Mapping[str, Any]) -> list[dict[str, Any]]:
    """A row for `LATENCIES` of each form that was timed."""
    found = network["latencies"]
    tuned = found["tuned"]["median_us"] if "tuned" in found else None
    return [
        {**latency, "form": _FORMS.get(form, form), "ratio": latency["median_us"] / tuned if tuned else None}
        for form, latency in found.items()
    ]


def network_usage(network: Mapping[str, Any]) -> str:
    """Python that loads the library and calls it; empty where there is none."""
    if not network["library"]:
        return ""
    inputs = ", ".join(
        f"tvm.runtime.tensor(np.zeros({tuple(shape)!r}, {dtype!r}))" for dtype, shape in network["inputs"]
    )
    return (
        "import numpy as np, tvm\nfrom tvm import relax\n\n"
        f"library = tvm.runtime.load_module({network['library']!r})\n"
        'network = relax.VirtualMachine(library, tvm.cpu())["main"]\n'
        f"outputs = network({inputs})"
    )


def network_coverage(network: Mapping[str, Any]) -> str:
    """Which of its kernels have a schedule of the search, and on how many threads all were timed."""
    return (
        f"{network['kernels_tuned']} of its {network['kernels']} distinct kernels have a schedule from the "
        "search; the others are the plain loops that TVM generates, and large ones run in parallel. All "
        f"forms had {network['threads']} threads (set TVM_NUM_THREADS={network['threads']}; without it, TVM "
        "uses half of the CPUs)."
    )


REQUIRED = ("device", "model", "method", "database", "workloads")
REQUIRED_ROW = ("workload", "trials", "failures", "seconds", "untuned_us", "best_us", "curve")

_COLUMNS = (
    TableColumn("workload", "workload"),
    number("trials", "measured programs", "d"),
    number("failures", "of them failed", "d"),
    number("seconds", "search (s)", ".1f"),
    number("untuned_us", "unscheduled (µs)", ".2f"),
    number("best_us", "tuned (µs)", ".2f"),
    number("speedup", "speedup", ".2f"),
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
# Where a search stands is read off at these numbers of trials, as far as it got.
_MILESTONES = (16, 32, 64, 128, 200, 256, 512, 1024, 2048)


def render_report(summary: Mapping[str, Any], *, plots: Sequence[str] = ()) -> str:
    """Renders a report in Markdown.

    Args:
        summary: `device`, `model` and `method` (text), `database` (path) and `workloads`, a list of rows
            with `workload`, `trials`, `failures`, `seconds`, `untuned_us` (None where it was not measured),
            `best_us` (None where every program failed) and `curve`, a list of (trial, ..., best latency
            in microseconds). Optional: `model_reason`, `command`, `created`, `versions`, `networks`
            (`FinishedNetwork.to_json`), and in a row `stages`, seconds by stage.
        plots: Paths of pictures, relative to the report.

    Raises:
        DataError: A field is missing.
    """
    _require(summary, REQUIRED, "the summary")
    rows = [_with_speedup(row) for row in summary["workloads"]]
    parts = [
        f"# Tuned on {summary['device']}",
        _facts(summary),
        *_network_parts(summary.get("networks", ())),
        "## Result",
        _result(rows),
        markdown_table(rows, _COLUMNS),
        *(f"![{name}]({name})" for name in plots),
        *_progress(rows),
        *_stage_parts(rows),
        "## Use it",
        f"The best schedules are in the TVM database `{summary['database']}`:",
        f"```python\n{compile_tir_usage(summary['database'])}\n```",
    ]
    return "\n\n".join(part for part in parts if part) + "\n"


def speedup(row: Mapping[str, Any]) -> float | None:
    """Untuned over best latency, or None where one of them is not known.

    Example:
        >>> speedup({"untuned_us": 30.0, "best_us": 10.0})
        3.0
    """
    untuned, best = row.get("untuned_us"), row.get("best_us")
    return untuned / best if untuned and best else None


def _with_speedup(row: Mapping[str, Any]) -> dict[str, Any]:
    _require(row, REQUIRED_ROW, f"the row of {row.get('workload', 'a workload')}")
    return {**row, "speedup": speedup(row)}


def _require(mapping: Mapping[str, Any], keys: Sequence[str], what: str) -> None:
    missing = [key for key in keys if key not in mapping]
    if missing:
        raise DataError(f"A tuning report needs {', '.join(missing)}, which {what} lacks.")


def _facts(summary: Mapping[str, Any]) -> str:
    versions = ", ".join(f"{name} {version}" for name, version in sorted((summary.get("versions") or {}).items()))
    lines = {
        "model": f"{summary['model']}. {summary.get('model_reason') or ''}".strip(". ") + ".",
        "method": f"{summary['method']}",
        "command": f"`{summary['command']}`" if summary.get("command") else "",
        "date": summary.get("created") or "",
        "versions": versions,
    }
    return "\n".join(f"- {key}: {value}" for key, value in lines.items() if value)


def _result(rows: Sequence[Mapping[str, Any]]) -> str:
    """One sentence that says the outcome, and one for what went wrong."""
    trials, failures = sum(r["trials"] for r in rows), sum(r["failures"] for r in rows)
    seconds = sum(r["seconds"] for r in rows)
    what = counted(len(rows), "workload")
    text = f"{trials} programs of {what} were measured in {seconds:.0f} s, {failures} of them failed."
    gains = [row["speedup"] for row in rows if row["speedup"] is not None]
    if (mean := geometric(gains)) is not None:
        text += f" The tuned code is {mean:.2f} times as fast as the unscheduled" + (
            "." if len(gains) == 1 else f", in the geometric mean of {counted(len(gains), 'workload')}."
        )
    empty = [row["workload"] for row in rows if row["best_us"] is None]
    return text + (f" No program ran for {', '.join(empty)}." if empty else "")


def _progress(rows: Sequence[Mapping[str, Any]]) -> list[str]:
    """How good the search was after some of its trials, as a table."""
    reached = [m for m in _MILESTONES if any(row["curve"] and row["trials"] >= m for row in rows)]
    if not reached:
        return []
    table = [{"workload": row["workload"], **{str(m): _best_at(row, m) for m in reached}} for row in rows]
    columns = [TableColumn("workload", "workload"), *(number(str(m), f"{m} (µs)", ".2f") for m in reached)]
    return ["## Best latency after so many measured programs", markdown_table(table, columns)]


def _stage_parts(rows: Sequence[Mapping[str, Any]]) -> list[str]:
    """Where the seconds of the searches went, as a table."""
    table = [
        {
            "workload": row["workload"],
            **row["stages"],
            "share": row["stages"].get("prediction", 0.0) / sum(row["stages"].values()),
        }
        for row in rows
        if row.get("stages")
    ]
    return ["## Where the time went", markdown_table(table, _STAGES)] if table else []


def _best_at(row: Mapping[str, Any], trials: int) -> float | None:
    best: list[float] = [point[-1] for point in row["curve"] if point[0] <= trials]
    return best[-1] if best and row["trials"] >= trials else None


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


def _network_parts(networks: Sequence[Mapping[str, Any]]) -> list[str]:
    """What became of whole networks: a sentence, latencies, and how to use the library."""
    parts = []
    for network in networks:
        parts += [f"## {network['network']}", network_headline(network)]
        rows = latency_rows(network)
        parts += [markdown_table(rows, NETWORK_LATENCIES), UNTUNED_NOTE] if rows else []
        parts += [] if network["error"] else [network_coverage(network)]
        parts += list(network["notes"])
        parts += [f"```python\n{network_usage(network)}\n```"] if network["library"] else []
    return parts


_PAGE_WORKLOADS = (
    TableColumn("workload", "kernel"),
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
    return html_page(f"{what} on {summary['device']}", _page_sections(summary))


def _page_sections(summary: Mapping[str, Any]) -> Iterator[str]:
    rows = sorted(
        ({**row, "speedup": speedup(row)} for row in summary["workloads"]),
        key=lambda row: -(row["share_before"] or 0.0),
    )
    if not summary["networks"]:
        yield f"<p><strong>{escape(_page_result(rows))}</strong></p>"
    for place, network in enumerate(summary["networks"]):
        yield from _page_network(network, place)
    yield "<h2>Kernels</h2>"
    yield (
        "<p>Share is latency times calls, of all kernels that were searched. Unscheduled is the kernel as it "
        "stands, without a schedule.</p>"
    )
    yield html_table(rows, _PAGE_WORKLOADS)
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
    yield from _page_stages(rows)
    yield from _page_about(summary)


def _page_network(network: Mapping[str, Any], place: int) -> Iterator[str]:
    yield f"<p><strong>{escape(network_headline(network))}</strong></p>"
    rows = latency_rows(network)
    if rows:
        yield html_figure(
            latencies_svg(rows, name=f"latencies-{place}"),
            f"From call to output; the line is the middle half of the calls. {UNTUNED_NOTE}",
        )
        yield html_table(rows, NETWORK_LATENCIES)
    if not network["error"]:
        yield f"<p>{escape(network_coverage(network))}</p>"
    for note in network["notes"]:
        yield f'<p class="note">{escape(note)}</p>'
    if network["library"]:
        yield "<p>To use it with TVM alone, without costhub:</p>"
        yield f'<pre class="scroll">{escape(network_usage(network))}</pre>'


def _page_stages(rows: Sequence[Mapping[str, Any]]) -> Iterator[str]:
    timed = [row for row in rows if row.get("stages")]
    if timed:
        total = sum(row["seconds"] for row in timed)
        caption = f"Where the {total:,.0f} s of the search went. Evolution is TVM's own part."
        yield html_figure(stages_svg(timed), caption)


def _page_about(summary: Mapping[str, Any]) -> Iterator[str]:
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
        [{"what": what, "is": text} for what, text in facts.items()], (TableColumn("what", ""), TableColumn("is", ""))
    )
    yield "<p>The best schedule of each kernel is in a TVM database:</p>"
    yield f'<pre class="scroll">{escape(compile_tir_usage(summary["database"]))}</pre>'


def _page_result(rows: Sequence[Mapping[str, Any]]) -> str:
    gains = [row["speedup"] for row in rows if row["speedup"]]
    what = counted(len(rows), "workload")
    if (mean := geometric(gains)) is None:
        return f"No program of {what} ran."
    middle = "" if len(gains) == 1 else " in the geometric mean"
    return f"{what}: {mean:.1f} times as fast as without a schedule{middle}."
