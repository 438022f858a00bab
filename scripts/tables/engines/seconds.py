"""Tables of the seconds until a network runs, and every table of engines by the name of its place in a page."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import partial
from pathlib import Path
from typing import Any

from costhub.cards.tables import TableColumn, markdown_table, number
from scripts.tables.engines.kernels import (
    NONE,
    SEARCHED,
    beside_stock_table,
    engine_kernels_table,
    titled,
    two_dates_table,
)
from scripts.tables.networks import ENGINE_CHIPS, ENGINE_TITLES


def engine_seconds_table(result: Mapping[str, Any]) -> str:
    """One line per network: the seconds from the start of an empty process until the first call has returned.

    Engines that search have three columns: one for what happens once, from the file of the network to a library, and
    two for loading that, with and without torch, which TVM imports where it is installed.

    Args:
        result: `rows` of the benchmark `engines`.
    """
    rows = [row for row in result["rows"] if row.get("ready_s") is not None]
    if not rows:
        return NONE
    engines = [engine for engine in ENGINE_TITLES if any(row["engine"] == engine for row in rows)]
    lines: dict[str, dict[str, Any]] = {}
    for row in rows:
        line = lines.setdefault(row["network"], {"network": row["network"]})
        line[row["engine"]] = row["ready_s"]
        line[f"{row['engine']} alone"] = row.get("ready_without_torch_s")
        if row.get("compile_s") is not None:
            line[f"{row['engine']} once"] = row["reading_s"] + row["seconds"] + row["compile_s"]
    columns = [TableColumn("network", "seconds")]
    for engine in engines:
        title = titled(engine)
        if engine in SEARCHED:
            columns.append(number(f"{engine} once", f"{title}: search and compilation, once", ",.0f"))
            columns.append(number(engine, f"{title}: loading", ",.1f"))
            columns.append(number(f"{engine} alone", f"{title}: loading without PyTorch", ",.1f"))
        else:
            columns.append(number(engine, title, ",.1f"))
    table = markdown_table(list(lines.values()), columns)
    if result.get("empty_s") is None:
        return table
    text = f"A process that imports only NumPy took {result['empty_s']:.1f} s; starting one is part of every figure."
    return f"{table}\n\n{text}"


_ENGINE_VIEWS = {
    "_seconds": engine_seconds_table,
    "_kernels": engine_kernels_table,
    "_kernels_stock": beside_stock_table,
}
ENGINE_TABLES: dict[str, Callable[[Mapping[str, Any]], str]] = {
    f"{chip}{end}": table for chip in ENGINE_CHIPS for end, table in _ENGINE_VIEWS.items()
}
ENGINE_VIEWS = {f"{chip}{end}": chip for chip in ENGINE_CHIPS for end in _ENGINE_VIEWS}
"""Views of one file, see `scripts.tables.results`."""
ENGINE_PAIRS: dict[str, Callable[[Path], str]] = {
    f"{before}_kernels_beside": partial(two_dates_table, (before, after))
    for before, after in (("engines_emeraldrapids", "engines_emeraldrapids_now"),)
}
"""Tables of two files: the same chip before and after."""
