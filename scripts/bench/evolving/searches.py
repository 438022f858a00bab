"""Searches that propose programs in different ways, and the latencies of what they found, measured side by side."""

from __future__ import annotations

import tempfile
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

import click

from costhub.api.compile_inputs import data_folders, known_rows
from costhub.collector.measurer import Measurer
from costhub.collector.workloads.suites import find_workload
from costhub.models.protocol import CostModel
from costhub.search.options import Search
from costhub.search.strategies.strategy import Evolutionary
from costhub.search.tune import tune
from costhub.search.zero_trials.known import KnownSchedules
from scripts.bench.common.remeasure import best_trace, remeasure, replayed
from scripts.bench.common.rows import RowFile
from scripts.bench.search.held_out import WORKLOADS, held_out
from scripts.bench.search.once import seconds_at
from scripts.tables.strategies import LARGE

MILESTONES = (16, 32, 48, 64, 96)
"""Numbers of trials after which the best program so far is measured again."""
KEY = ("workload", "method", "seed", "trials")
Key = tuple[str, str, int, int]
WARM_UP = 4
"""Trials of a search that counts nowhere: the first one would pay for the start of the processes."""


@dataclass(frozen=True)
class Proposals:
    """What a search measures."""

    population: int
    """Of TVM's evolutionary search."""
    generations: int
    pressure: float = 1.0
    """How strongly it prefers parents with high scores."""
    is_known: bool = False
    """Whether its first batch has schedules of near workloads."""
    descends: bool = False
    """Whether later batches have neighbours of the fastest programs."""
    batch: int = 16
    """Programs that are measured before the model learns."""


METHODS = {
    LARGE: Proposals(256, 2),
    "population 128, one generation": Proposals(128, 1),
    "population 128, one generation, batches of 8": Proposals(128, 1, batch=8),
    "population 128, one generation, pressure 3": Proposals(128, 1, pressure=3.0),
    "population 128, one generation, pressure 3, near schedules": Proposals(128, 1, pressure=3.0, is_known=True),
    "population 64, three generations, pressure 3": Proposals(64, 3, pressure=3.0),
    "population 128, two generations, pressure 3": Proposals(128, 2, pressure=3.0),
    "population 64, one generation": Proposals(64, 1),
    "that, and known schedules": Proposals(64, 1, is_known=True),
    "that, and neighbours of the fastest": Proposals(64, 1, descends=True),
    "population 256, and neighbours of the fastest": Proposals(256, 2, descends=True),
}


class Searches:
    """Searches by one model to which all workloads are new, as they are to the known schedules."""

    def __init__(self, measurer: Measurer, model: CostModel, workloads: Sequence[str]) -> None:
        self.measurer, self.model = measurer, model
        self.folders = data_folders()
        self.without = {each for folder in self.folders for each in held_out(folder, {*WORKLOADS, *workloads})}

    @cached_property
    def _known(self) -> KnownSchedules:
        return KnownSchedules(known_rows(self.measurer.device, self.folders), without=self.without)

    def row(self, key: Key) -> dict[str, Any]:
        """The row of the search with the values of KEY, and the best program after each milestone."""
        workload, method, seed, trials = key
        proposals = METHODS[method]
        with tempfile.TemporaryDirectory() as folder:
            result = tune(
                find_workload(workload).module(),
                workload,
                Search(
                    self.model,
                    strategy=Evolutionary(proposals.population, proposals.generations, proposals.pressure),
                    known=self._known if proposals.is_known else None,
                    known_sources=("measured", "carried"),
                    descends=proposals.descends,
                    trials_per_round=proposals.batch,
                    seed=seed,
                ),
                self.measurer,
                out=Path(folder),
                trials=trials,
            )
            traces = {n: best_trace(Path(folder), n) for n in MILESTONES if n <= trials}
        rounds = [(done, seconds) for done, seconds, _ in result.curve]
        return {
            **dict(zip(KEY, key, strict=True)),
            "measured": result.trials,
            "failures": result.failures,
            "stages": result.stages,
            "curve": [{"trials": n, "seconds": seconds_at(rounds, n), "trace": trace} for n, trace in traces.items()],
        }


def add_missing(kept: RowFile, search: Callable[[Key], dict[str, Any]], keys: Sequence[Key]) -> None:
    """Searches for the rows that are not there, and keeps each.

    Args:
        kept: The rows.
        search: Gives the row of a search with the values of KEY.
        keys: Those of searches that are compared follow one another closely.
    """
    waiting = [key for key in keys if key not in kept]
    for workload, method, seed, _ in waiting[:1]:
        search((workload, method, seed, WARM_UP))
    for key in waiting:
        row = search(key)
        kept.add(row)
        click.echo(f"{', '.join(map(str, key))}: {sum(row['stages'].values()):.0f} s")


def with_latencies(rows: Sequence[dict[str, Any]], rounds: int) -> list[dict[str, Any]]:
    """The rows with `best_us` for each milestone, all programs of a workload measured in turn."""
    programs = {(row["workload"], point["trace"]) for row in rows for point in row["curve"]}
    best_us: dict[tuple[str, str], float] = {}
    for workload in dict.fromkeys(row["workload"] for row in rows):
        best_us |= remeasure(replayed({each for each in programs if each[0] == workload}), rounds)
    return [
        {
            **row,
            "curve": [
                {
                    "trials": point["trials"],
                    "seconds": point["seconds"],
                    "best_us": best_us[row["workload"], point["trace"]],
                }
                for point in row["curve"]
            ],
        }
        for row in rows
    ]
