"""Renders the results tables of README and docs from the JSON files that the benchmarks wrote."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from costhub.errors import DataError
from scripts.tables.benchmark import (
    BENCHMARK_TABLES,
    BENCHMARK_VIEWS,
    ESTIMATE_TABLES,
    ESTIMATE_VIEWS,
    MORE_TABLES,
)
from scripts.tables.collecting import COLLECTOR_TABLES, COLLECTOR_VIEWS
from scripts.tables.data import DATA_TABLES
from scripts.tables.engines.seconds import ENGINE_PAIRS, ENGINE_TABLES, ENGINE_VIEWS
from scripts.tables.figures import fill_figures, version_of
from scripts.tables.front import FRONT_TABLES
from scripts.tables.gpus import GPU_TABLES
from scripts.tables.models.ceilings import CEILING_TABLES, CEILING_VIEWS
from scripts.tables.models.comparison import MODEL_TABLES, MODEL_VIEWS, training_table
from scripts.tables.networks import NETWORK_TABLES, NETWORK_VIEWS
from scripts.tables.papers.ansor import ANSOR_MORE, ANSOR_TABLES
from scripts.tables.papers.autotvm import AUTOTVM_TABLES
from scripts.tables.papers.composition import composition_table
from scripts.tables.papers.queries import queries_table
from scripts.tables.reference import MISTAKE_TABLES, REFERENCE_TABLES
from scripts.tables.release import RELEASE_TABLES, RELEASE_VIEWS
from scripts.tables.search import SEARCH_TABLES, SEARCH_VIEWS, passes_table, picked_table, speed_table
from scripts.tables.security import SECURITY_TABLES, SECURITY_VIEWS
from scripts.tables.transfer import TRANSFER_TABLES

Result = Mapping[str, Any]


MOVED = {
    "bench_model_calibration": "scripts.bench calibration",
    "check_release": "scripts.release check",
    "compare_passes": "scripts.bench passes",
    "compare_ppo": "scripts.bench ppo",
    "fuzz_shards": "scripts.bench fuzz",
    "kill_collector": "scripts.bench kill",
    "model_report": "scripts.bench model-report",
    "picked_again": "scripts.bench picked-again",
    "reproduce": "scripts.release reproduce",
    "torture": "scripts.bench torture",
    "walk_package": "scripts.release walk",
}
"""Name of a script before it became a command -> the command. Results keep the words that ran; a reader of a page
needs those that run today. `bench_NAME` became `scripts.bench NAME`."""
_SCRIPT = re.compile(r"python (?:scripts/)?(?P<name>\w+)\.py")
_JOINS = ("scripts.bench model-report", " --summarise")
"""In the commands that only join rows, which were made on other machines."""
_KEEPS_ROWS = (" --rows docs/results/", "scripts.release check --model ")
"""In the commands that add their rows to those of earlier runs."""


def provenance(result: Result) -> str:
    """One line that says where a table comes from: the command as it is called today."""
    versions, command = result["versions"], todays_command(result["command"])
    machine = f"{result['machine']} ({result['device']}), {result['date'][:10]}"
    if any(words in command for words in _JOINS):
        machine = f"rows put together on {machine}"
    elif any(words in command for words in _KEEPS_ROWS):
        machine = f"rows of one or more runs, the last on {machine}"
    return f"`{command}`, {machine}, TVM {versions['tvm']}, costhub {version_of(result)}."


def todays_command(command: str) -> str:
    """The command that does today what `command` did when it ran."""

    def renamed(match: re.Match[str]) -> str:
        name = match["name"]
        if name in MOVED:
            return f"python -m {MOVED[name]}"
        benchmark = name.removeprefix("bench_")
        return match[0] if benchmark == name else f"python -m scripts.bench {benchmark.replace('_', '-')}"

    return _SCRIPT.sub(renamed, command)


TABLES: dict[str, Callable[[Result], str]] = {
    **ANSOR_TABLES,
    **AUTOTVM_TABLES,
    **BENCHMARK_TABLES,
    **CEILING_TABLES,
    **COLLECTOR_TABLES,
    **DATA_TABLES,
    **ENGINE_TABLES,
    **ESTIMATE_TABLES,
    **GPU_TABLES,
    **MISTAKE_TABLES,
    **MODEL_TABLES,
    **NETWORK_TABLES,
    **RELEASE_TABLES,
    **SEARCH_TABLES,
    **SECURITY_TABLES,
    **TRANSFER_TABLES,
    "composition": composition_table,
    "picked": picked_table,
    "queries": queries_table,
    "search_passes": passes_table,
    "speed": speed_table,
    "training": training_table,
}
"""Name of a result file without its suffix, and of its place in a page -> its renderer; views of one file
have names of their own, see `VIEWS`."""

VIEWS = {
    **BENCHMARK_VIEWS,
    **CEILING_VIEWS,
    **COLLECTOR_VIEWS,
    **ENGINE_VIEWS,
    **ESTIMATE_VIEWS,
    **MODEL_VIEWS,
    **NETWORK_VIEWS,
    **RELEASE_VIEWS,
    **SEARCH_VIEWS,
    **SECURITY_VIEWS,
}

_PLACE = re.compile(r"(<!-- results: (?P<name>[\w-]+) -->\n).*?(<!-- end of results -->)", re.DOTALL)


def fill(text: str, results: Path) -> str:
    """`text` with each of its places filled from ``results/NAME.json``, and its figures by `fill_figures`.

    A place is what stands between ``<!-- results: NAME -->`` and ``<!-- end of results -->``.

    Raises:
        DataError: A place names no table, or its file is missing or lacks a figure.
    """
    filled = _PLACE.sub(lambda match: f"{match[1]}\n{_render(match['name'], results)}\n\n{match[3]}", text)
    return fill_figures(filled, results)


def _render(name: str, results: Path) -> str:
    path = results / f"{VIEWS.get(name, name)}.json"
    several = {**ANSOR_MORE, **ENGINE_PAIRS, **FRONT_TABLES, **MORE_TABLES, **REFERENCE_TABLES}
    if name not in {**TABLES, **several}:
        raise DataError(f"There is no results table named {name!r}; there are {', '.join([*TABLES, *several])}.")
    try:
        if name in several:
            return several[name](results)
        result = json.loads(path.read_text())
        return f"{TABLES[name](result)}\n\n{provenance(result)}"
    except FileNotFoundError as error:
        raise DataError(
            f"{path} is missing; run the benchmark that writes it; `python -m scripts.bench` lists them."
        ) from error
    except (LookupError, TypeError, ValueError, ArithmeticError, StopIteration) as error:
        raise DataError(f"{path} lacks what its table shows: {error!r}. Run its benchmark again.") from error
