"""Rows of models on validation and tested workloads, and what they come to; shared by the benchmarks beside it."""

from __future__ import annotations

import statistics
import time
from collections.abc import Mapping, Sequence
from typing import Any

import click
import numpy as np
import numpy.typing as npt

from costhub.cards.tables import TableColumn, number
from costhub.dataset.programs import Programs
from costhub.models.evaluate import METRICS, evaluate_scores
from scripts.bench.common.rows import RowFile
from scripts.bench.models.grid import GridEntry
from scripts.tables.gains import mean_with_error

Scores = npt.NDArray[np.float64]
Row = dict[str, Any]
FOLDS = 3
"""Parts into which the workloads to learn from are divided."""
VALIDATION, TEST = "validation", "test"
KEY = ("device", "split", "part", "model", "seed")
COLUMNS = (
    *(TableColumn(name, name) for name in ("part", "model", "base")),
    *(part for name in METRICS for part in (number(name, name), number(f"{name}_se", "se"))),
    *(part for name in METRICS for part in (number(f"{name}_gain", "gain"), number(f"{name}_gain_se", "se"))),
)


def named(entry: GridEntry) -> str:
    """What a table calls it."""
    return " ".join(filter(None, (entry.model, entry.objective, entry.variant)))


def scores_of(entry: GridEntry, train: Programs, test: Programs, seed: int) -> tuple[Scores, Scores, float]:
    """Scores of the programs of both sides, and the seconds that training took."""
    model, began = entry.make(), time.perf_counter()
    model.fit(train, None, seed=seed, progress=False)
    seconds = time.perf_counter() - began
    own, held_out = (np.asarray(model.predict(side.rows, side.counts), np.float64) for side in (train, test))
    return own, held_out, seconds


def add(kept: RowFile, about: Row, scores: Scores, programs: Programs) -> None:
    """Adds a row with the figures of every workload."""
    row = evaluate_scores(scores, programs).row(about)
    kept.add(row)
    click.echo(f"{about['part']} seed {about['seed']} {about['model']}: top_1 {row['top_1']:.3f}")


def figures(rows: Sequence[Row], part: str, model: str, base: str) -> Row:
    """Of a model on a part: metrics as means over workloads, and gains over the base, with their standard errors."""
    found: Row = {}
    for metric in METRICS:
        own, other = (by_workload(rows, part, name, metric) for name in (model, base))
        found[metric], found[f"{metric}_se"] = mean_with_error(list(own.values()))
        gains = [value - other[workload] for workload, value in own.items() if workload in other]
        found[f"{metric}_gain"], found[f"{metric}_gain_se"] = mean_with_error(gains)
        found["workloads"] = len(own)
    return found


def by_workload(rows: Sequence[Row], part: str, model: str, metric: str) -> Mapping[str, float]:
    """Workload -> mean over the seeds that have it."""
    seen: dict[str, list[float]] = {}
    for row in rows:
        if (row["part"], row["model"]) == (part, model):
            for workload, value in zip(row["workload_ids"], row["by_workload"][metric], strict=True):
                seen.setdefault(workload, []).append(value)
    return {workload: statistics.fmean(values) for workload, values in seen.items()}
