"""Renders the result of a compilation without measurements, for a terminal."""

from __future__ import annotations

import textwrap
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from costhub.cards.reports.tune_facts import outputs_text
from costhub.cards.tables import TableColumn, number, one_line, plain_table
from costhub.terminal_text import counted

_WIDTH = 80
_COLUMNS = (
    TableColumn("workload", "kernel"),
    TableColumn("source", "schedule"),
    TableColumn("known", "measured on"),
    number("known_us", "there (us)", ",.1f"),
    TableColumn("rank", "rank", align="right"),
    TableColumn("check", "checked"),
)


def compile_text(summary: Mapping[str, Any]) -> str:
    """The result of a compilation: the origin of each kernel's schedule, the expected latency, and the files.

    Args:
        summary: The content of `report.json`, as written by `costhub.compile`.

    Example:
        >>> row = {"workload": "matmul", "source": "measured", "known_workload": "matmul", "known_device": "cpu-2c",
        ...     "known_us": 12.5, "rank": 3, "counts": {"measured": 4}, "check": "compared", "error": None,
        ...     "failed": [], "library": None}
        >>> text = compile_text({"device": "cpu-2c", "model": "m", "runs_here": True, "database": "out",
        ...     "workloads": [row], "networks": []})
        >>> print(text.splitlines()[1])
        matmul  measured  cpu-2c           12.5  3 of 4  compared
    """
    rows = summary["workloads"]
    parts = [plain_table([_row(row) for row in rows], _COLUMNS)]
    compared = bool(summary["runs_here"])
    parts += ["\n".join(map(_filled, _network_lines(each, compared=compared))) for each in summary["networks"]]
    parts.append("\n".join(map(_filled, _sentences(summary, rows))))
    parts.append("\n".join(_places(summary, rows)))
    return "\n\n".join(part for part in parts if part)


def _row(row: Mapping[str, Any]) -> dict[str, Any]:
    total = sum(row["counts"].values())
    same = row["known_workload"] in (None, row["workload"])
    return {
        **row,
        "source": row["source"] or "none",
        "known": row["known_device"] if same else f"{row['known_workload']} on {row['known_device']}",
        "rank": f"{row['rank']} of {total}" if row["rank"] else None,
        "check": row["check"] or "no",
    }


def _network_lines(network: Mapping[str, Any], *, compared: bool) -> Iterator[str]:
    if network["error"]:
        yield network["error"]
    else:
        kernels = f"{network['kernels_tuned']} of {counted(network['kernels'], 'kernel')} have a schedule of the table"
        yield f"{network['network']}, {counted(network['threads'], 'thread')}: {kernels}."
        if compared:
            yield outputs_text(network)
    yield from network["notes"]


def _sentences(summary: Mapping[str, Any], rows: Sequence[Mapping[str, Any]]) -> Iterator[str]:
    came = Counter(row["source"] for row in rows if row["source"])
    listed = ", ".join(f"{count} {source}" for source, count in came.most_common())
    yield f"Nothing was measured. Of {counted(len(rows), 'schedule')} for {summary['device']}: {listed or 'none'}."
    known = "; latencies were measured before, on the device and for the workload that the table names"
    has_known = any(row.get("known_us") is not None for row in rows)
    yield f"Ranks are the order of {summary['model']} among all programs of a kernel{known if has_known else ''}."
    if not summary["runs_here"]:
        yield "The target is another machine, so libraries were built and not run."
    for row in rows:
        if row["error"]:
            yield f"{row['workload']}: {row['error']}"
        for problem in row["failed"] if not row["error"] else ():
            yield f"{row['workload']}: {problem}"


def _places(summary: Mapping[str, Any], rows: Sequence[Mapping[str, Any]]) -> Iterator[str]:
    libraries = [each["library"] for each in (*summary["networks"], *rows) if each["library"]]
    out = Path(summary["database"])
    places = [*(("library ", path) for path in libraries), ("database", out), ("report  ", out / "report.json")]
    yield from (f"{what}  {one_line(str(where))}" for what, where in places)


def _filled(text: str) -> str:
    return textwrap.fill(one_line(text), _WIDTH, break_long_words=False, break_on_hyphens=False)
