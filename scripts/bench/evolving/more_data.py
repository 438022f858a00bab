"""Asks what a search gains once its model has learned from more measurements."""

from __future__ import annotations

import tempfile
from collections.abc import Mapping
from functools import partial
from pathlib import Path
from typing import Any, Protocol

import click

from costhub.collector.device.local import find_local
from costhub.collector.measurer import local_measurer
from scripts.bench.common import machine, options
from scripts.bench.common.remeasure import ROUNDS
from scripts.bench.common.rows import RowFile
from scripts.bench.evolving.searches import KEY, Key, Searches, add_missing, with_latencies
from scripts.bench.search.held_out import WORKLOADS, UnseenModels
from scripts.tables.strategies import more_data_summary, more_data_table

BEFORE, AFTER = "learned before", "learned from more"
"""The `method` of a search's row: what its model has learned from. The other is compared with the first one."""
DEFAULT = "population 128, one generation, pressure 3"
"""A method of `proposals`, as a search proposes by default."""


class Searching(Protocol):
    """What searches with one of the models, as `Searches` does."""

    def row(self, key: Key) -> dict[str, Any]:
        """The row of a search with the values of KEY."""


def searched(searches: Mapping[str, Searching], key: Key) -> dict[str, Any]:
    """The row of a search as a search proposes by default, by the model that has learned what the key says.

    Args:
        searches: What a model has learned from -> what searches with it.
        key: The values of KEY, with what the model has learned from as the method.
    """
    workload, learned, seed, trials = key
    return {**searches[learned].row((workload, DEFAULT, seed, trials)), "method": learned}


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
            add_missing(kept, partial(searched, searches), keys)
    rows = with_latencies([row for row in kept.all if kept.key_of(row) in keys], rounds)
    result = {"rows": rows, **more_data_summary(rows)}
    machine.write_result(path, result)
    click.echo(more_data_table(result))
