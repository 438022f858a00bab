"""What a search proposes: the size of TVM's evolution, known schedules, and neighbours of the fastest programs."""

from __future__ import annotations

import tempfile
from pathlib import Path

import click

from costhub.collector.device.local import find_local
from costhub.collector.measurer import local_measurer
from scripts.bench.common import machine, options
from scripts.bench.common.remeasure import ROUNDS
from scripts.bench.common.rows import RowFile
from scripts.bench.evolving.searches import KEY, METHODS, Searches, add_missing, with_latencies
from scripts.bench.search.held_out import WORKLOADS, UnseenModels
from scripts.tables.strategies import proposals_summary, proposals_table


@click.command()
@options.data()
@options.models_folder()
@options.workloads(WORKLOADS)
@click.option("--method", "methods", multiple=True, type=click.Choice(list(METHODS)), default=tuple(METHODS))
@options.trials(64)
@options.seeds(2)
@click.option("--rounds", default=ROUNDS, show_default=True, help="In which all programs of a workload are timed.")
@options.quick("One workload, one seed, 16 trials.")
@options.rows_file()
@options.json_file()
def main(
    data: Path | None,
    models: Path | None,
    workloads: tuple[str, ...],
    methods: tuple[str, ...],
    trials: int,
    seeds: int,
    rounds: int,
    quick: bool,
    rows_path: Path | None,
    path: Path | None,
) -> None:
    """Compares latencies after equal trials and after equal seconds; run it with nothing else on the machine."""
    if quick:
        workloads, trials, seeds, rounds = workloads[:1], 16, 1, 2
    kept = RowFile(rows_path, KEY)
    with tempfile.TemporaryDirectory() as folder, local_measurer(find_local(["auto"])) as measurer:
        searches = Searches(measurer, UnseenModels(data, models, folder, workloads).bound("costhub"), workloads)
        for seed in range(seeds):
            # Workload by workload, so that searches which are compared follow one another closely.
            keys = [(w, method, seed, trials) for w in workloads for method in methods]
            add_missing(kept, searches.row, keys)
    rows = with_latencies([row for row in kept.all if row["trials"] == trials], rounds)
    result = {"rows": rows, "summary": proposals_summary(rows)}
    machine.write_result(path, result)
    click.echo(proposals_table(result))
