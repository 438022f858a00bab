"""Benchmark `trial-costs`: how long Ansor took to build and run a program on each GPU of its logs.

A record of Ansor holds the seconds of building and running its program (`all_cost`) and when it ended. The builds of a
batch run at the same time, so `all_cost` may be more than what a trial adds to a search. The time between two results,
in which Ansor's own search is included, shows by how much.
"""

from __future__ import annotations

import json
import statistics
from collections import defaultdict
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import click

from scripts.bench.ansor.ansor_logs import is_known, logs_option, operators
from scripts.bench.common import options
from scripts.bench.common.machine import write_result
from scripts.tables.papers.ansor import trial_costs_table

QUICK_RECORDS = 200


def costs_of(device: str, operator: str, lines: Sequence[bytes]) -> dict[str, Any]:
    """What the trials of some records took; failed programs only count for the time between two results."""
    ran_s, ended_s = [], defaultdict(list)
    for line in lines:
        record = json.loads(line)
        _, error, all_cost_s, timestamp_s = record["r"]
        ended_s[record["i"][0][0]].append(timestamp_s)
        if not error:
            ran_s.append(all_cost_s)
    between_s = [(max(ends) - min(ends)) / (len(ends) - 1) for ends in ended_s.values() if len(ends) > 1]
    return {
        "device": device,
        "operator": operator,
        "ran": len(ran_s),
        "failed": len(lines) - len(ran_s),
        "median_s": statistics.median(ran_s) if ran_s else None,
        "mean_s": statistics.fmean(ran_s) if ran_s else None,
        "between_s": statistics.median(between_s) if between_s else None,
    }


def rows_of(log: Path, device: str, records: int | None = None) -> list[dict[str, Any]]:
    """A row for each operator that costhub imports, and one for all of them."""
    known = {name: lines[:records] for name, lines in operators(log).items() if is_known(lines[0])}
    together = [line for lines in known.values() for line in lines]
    rows = [costs_of(device, name, lines) for name, lines in known.items()]
    return [*rows, costs_of(device, "all", together)] if rows else []


@click.command()
@options.quick(f"The first {QUICK_RECORDS} records of each operator.")
@options.json_file()
@logs_option
def main(quick: bool, path: Path | None, logs: tuple[tuple[Path, str], ...]) -> None:
    """Reads from logs of Ansor how long building and running a program took."""
    rows = [row for log, device in logs for row in rows_of(log, device, QUICK_RECORDS if quick else None)]
    result = {"rows": rows}
    click.echo(trial_costs_table(result))
    write_result(path, result)
