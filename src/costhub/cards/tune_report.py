"""Renders the report of a tuning run: what was searched, with which model, and how much faster it became."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from costhub.cards.gains import geometric
from costhub.cards.network_text import LATENCIES, UNTUNED_NOTE, coverage, headline, latency_rows, usage
from costhub.cards.tables import Column, counted, markdown_table, number
from costhub.errors import DataError

REQUIRED = ("device", "model", "method", "database", "workloads")
REQUIRED_ROW = ("workload", "trials", "failures", "seconds", "untuned_us", "best_us", "curve")

_COLUMNS = (
    Column("workload", "workload"),
    number("trials", "measured programs", "d"),
    number("failures", "of them failed", "d"),
    number("seconds", "search (s)", ".1f"),
    number("untuned_us", "unscheduled (µs)", ".2f"),
    number("best_us", "tuned (µs)", ".2f"),
    number("speedup", "speedup", ".2f"),
)
_STAGES = (
    Column("workload", "workload"),
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
        *_networks(summary.get("networks", ())),
        "## Result",
        _result(rows),
        markdown_table(rows, _COLUMNS),
        *(f"![{name}]({name})" for name in plots),
        *_progress(rows),
        *_seconds(rows),
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
    versions = ", ".join(
        f"{name} {version}" for name, version in sorted((summary.get("versions") or {}).items())
    )
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
    columns = [Column("workload", "workload"), *(number(str(m), f"{m} (µs)", ".2f") for m in reached)]
    return ["## Best latency after so many measured programs", markdown_table(table, columns)]


def _seconds(rows: Sequence[Mapping[str, Any]]) -> list[str]:
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


def _networks(networks: Sequence[Mapping[str, Any]]) -> list[str]:
    """What became of whole networks: a sentence, latencies, and how to use the library."""
    parts = []
    for network in networks:
        parts += [f"## {network['network']}", headline(network)]
        rows = latency_rows(network)
        parts += [markdown_table(rows, LATENCIES), UNTUNED_NOTE] if rows else []
        parts += [] if network["error"] else [coverage(network)]
        parts += list(network["notes"])
        parts += [f"```python\n{usage(network)}\n```"] if network["library"] else []
    return parts
