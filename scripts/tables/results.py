"""Renders the results tables of README and docs from the JSON files that the benchmarks wrote."""

from __future__ import annotations

import json
import math
import re
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from costhub.cards.tables import TableColumn, markdown_table, number
from costhub.errors import DataError
from scripts.tables.collecting import COLLECTOR_TABLES
from scripts.tables.models import MODEL_TABLES, MODEL_VIEWS, training_table
from scripts.tables.networks import networks_table, operators_table
from scripts.tables.release import HUB_TABLES, RELEASE_TABLES, RELEASE_VIEWS
from scripts.tables.search import SEARCH_TABLES, SEARCH_VIEWS, passes_table, picked_table, speed_table
from scripts.tables.transfer import TRANSFER_TABLES

Result = Mapping[str, Any]


def dataset_table(result: Result) -> str:
    """One line per stage: seconds by number of rows, growth, and the peak memory with the most rows."""
    cells: dict[str, dict[int, Mapping[str, Any]]] = {}
    for row in result["rows"]:
        if row["stage"] in _STAGES:
            cells.setdefault(row["stage"], {})[row["rows"]] = row
    sizes = sorted({row["rows"] for row in result["rows"]})
    rows = [
        {
            "stage": _STAGES[stage],
            **{str(size): f"{by_size[size]['seconds']:.3g}" for size in sizes},
            "growth": _exponent(by_size[sizes[0]], by_size[sizes[-1]]),
            "peak": by_size[sizes[-1]]["peak_gib"],
        }
        for stage, by_size in cells.items()
    ]
    columns = [TableColumn("stage", "stage")]
    columns += [TableColumn(str(size), f"{size:,} rows (s)", align="right") for size in sizes]
    columns += [
        TableColumn("growth", "seconds ~ rows^", align="right"),
        number("peak", "peak memory (GiB)", ".2f"),
    ]
    return f"{markdown_table(rows, columns)}\n\n{formats_table(result)}"


def formats_table(result: Result) -> str:
    """One line per format: what a real measurement takes on disk, and how long all take to load."""
    rows = [{**row, "format": _REAL[row["stage"]]} for row in result["rows"] if row["stage"] in _REAL]
    columns = [
        TableColumn("format", "format"),
        number("found", "measurements", ",d"),
        number("bytes_per_row", "bytes each", ",.0f"),
        number("seconds", "load (s)", ".2f"),
    ]
    return markdown_table(rows, columns)


def features_table(result: Result) -> str:
    """One line per feature spec: programs featurised in a second, here and by a plain loop."""
    columns = [
        TableColumn("spec", "features"),
        number("per_s", "programs / s", ",.0f"),
        number("ratio_to_loop", "times the loop", ".2f"),
    ]
    cache = result["cache"]
    read = "Out of the cache: {gb_per_s:.2f} GB/s; bare pyarrow on the same files: {pyarrow_gb_per_s:.2f}."
    return f"{markdown_table(result['features'], columns)}\n\n{read.format(**cache)}"


def _exponent(first: Mapping[str, Any], last: Mapping[str, Any]) -> str:
    if first["rows"] == last["rows"]:
        return "-"
    return f"{math.log(last['seconds'] / first['seconds']) / math.log(last['rows'] / first['rows']):.2f}"


def provenance(result: Result) -> str:
    """One line that says where a table comes from."""
    versions = result["versions"]
    return (
        f"`{result['command']}`, {result['machine']} ({result['device']}), {result['date'][:10]}, "
        f"TVM {versions['tvm']}, costhub {versions['costhub']}."
    )


TABLES: dict[str, Callable[[Result], str]] = {
    **COLLECTOR_TABLES,
    **HUB_TABLES,
    **MODEL_TABLES,
    **RELEASE_TABLES,
    **SEARCH_TABLES,
    **TRANSFER_TABLES,
    "dataset": dataset_table,
    "features": features_table,
    "operators": operators_table,
    "picked": picked_table,
    "search_passes": passes_table,
    "speed": speed_table,
    "training": training_table,
    "networks_tuned": networks_table,
}
"""Name of a result file without its suffix, and of its place in a page -> its renderer; views of one file
have names of their own, see `VIEWS`."""

VIEWS = {**MODEL_VIEWS, **RELEASE_VIEWS, **SEARCH_VIEWS}

_REAL = {"shards": "costhub's shards", "tvm_json": "TVM's JSON database"}
_STAGES = {
    "write": "write",
    "check": "check, all rules but the deep ones",
    "stats": "stats",
    "filter_workload": "filter one workload",
    "filter_pyarrow": "the same with bare pyarrow",
    "load_features": "load the features of one device (a quarter of the rows)",
}
_PLACE = re.compile(r"(<!-- results: (?P<name>[\w-]+) -->\n).*?(<!-- end of results -->)", re.DOTALL)


def fill(text: str, results: Path) -> str:
    """`text` with each of its places filled from ``results/NAME.json``.

    A place is what stands between ``<!-- results: NAME -->`` and ``<!-- end of results -->``.

    Raises:
        DataError: a place names no table, or its file is missing or lacks a figure.
    """
    return _PLACE.sub(lambda match: f"{match[1]}\n{_render(match['name'], results)}\n\n{match[3]}", text)


def _render(name: str, results: Path) -> str:
    path = results / f"{VIEWS.get(name, name)}.json"
    if name not in TABLES:
        raise DataError(f"There is no results table named {name!r}; there are {', '.join(TABLES)}.")
    try:
        result = json.loads(path.read_text())
        return f"{TABLES[name](result)}\n\n{provenance(result)}"
    except FileNotFoundError as error:
        raise DataError(
            f"{path} is missing; run the benchmark that writes it; `python -m scripts.bench` lists them."
        ) from error
    except (LookupError, TypeError, ValueError, ArithmeticError, StopIteration) as error:
        raise DataError(f"{path} lacks what its table shows: {error!r}. Run its benchmark again.") from error
