"""Asks what a search gains once its model has learned from more measurements."""

from __future__ import annotations

import tempfile
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, Protocol

import click

from costhub.collector.device.local import find_local
from costhub.collector.measurer import local_measurer
from scripts.bench.common import machine, options
from scripts.bench.common.remeasure import ROUNDS
from scripts.bench.common.rows import RowFile
from scripts.bench.evolving.searches import KEY, Searches, with_latencies
from scripts.bench.search.held_out import WORKLOADS, UnseenModels
from scripts.tables.strategies import more_data_summary, more_data_table

BEFORE, AFTER = "learned before", "learned from more"
"""The `method` of a search's row: what its model has learned from. The other is compared with the first one."""
DEFAULT = "population 128, one generation, pressure 3"
"""A method of `proposals`, as a search proposes by default."""
WARM_UP = 4
"""Trials of a search that counts nowhere: the first one would pay for the start of the processes."""
Key = tuple[str, str, int, int]


class Searching(Protocol):
    """What searches with one of the models, as `Searches` does."""

    def row(self, key: Key) -> dict[str, Any]:
        """The row of a search: workload, method of `proposals`, seed, trials."""


def missing_rows(kept: RowFile, searches: Mapping[str, Searching], keys: Sequence[Key]) -> Iterator[dict[str, Any]]:
    """Searches for the rows that are not there, and keeps each.

    Args:
        kept: The rows.
        searches: What a model has learned from -> what searches with it.
        keys: Workload, what the model has learned from, seed and trials; those that are compared follow one another.
    """
    waiting = [key for key in keys if key not in kept]
    if waiting:
        workload, learned, seed, _ = waiting[0]
        searches[learned].row((workload, DEFAULT, seed, WARM_UP))
    for workload, learned, seed, trials in waiting:
        row = {**searches[learned].row((workload, DEFAULT, seed, trials)), "method": learned}
        kept.add(row)
        yield row


@click.command()
@click.option("--before", required=True, type=options.PATH, help="Data folder.")
@click.option("--after", required=True, type=options.PATH, help="Data folder with the same measurements and more.")
@click.option("--models", required=True, type=options.PATH, help="Where the two models are kept.")
@options.workloads(WORKLOADS)
@options.trials(32)
@options.seeds(3)
@click.option("--rounds", default=ROUNDS, show_default=True, help="In which all programs of a workload are timed.")
@options.rows_file()
@options.json_file()
def main(
    before: Path,
    after: Path,
    models: Path,
    workloads: tuple[str, ...],
    trials: int,
    seeds: int,
    rounds: int,
    rows_path: Path | None,
    path: Path | None,
) -> None:
    """Searches with a model of each folder, neither of which has seen the workloads.

    Run it with nothing else on the machine.
    """
    kept = RowFile(rows_path, KEY)
    keys = [(w, learned, seed, trials) for seed in range(seeds) for w in workloads for learned in (BEFORE, AFTER)]
    if any(key not in kept for key in keys):
        with tempfile.TemporaryDirectory() as scratch, local_measurer(find_local(["auto"])) as measurer:
            searches = {}
            for learned, data in {BEFORE: before, AFTER: after}.items():
                own = models / learned.replace(" ", "-")
                own.mkdir(parents=True, exist_ok=True)
                model = UnseenModels(data, own, scratch, workloads).bound("costhub")
                searches[learned] = Searches(measurer, model, workloads)
            for row in missing_rows(kept, searches, keys):
                about = ", ".join(str(row[name]) for name in KEY)
                click.echo(f"{about}: {sum(row['stages'].values()):.0f} s")
    rows = with_latencies([row for row in kept.all if kept.key_of(row) in set(keys)], rounds)
    result = {"rows": rows, **more_data_summary(rows)}
    machine.write_result(path, result)
    click.echo(more_data_table(result))
