"""Rows of models on validation and tested workloads, and what they come to; shared by the benchmarks beside it."""

from __future__ import annotations

import statistics
import time
from collections.abc import Mapping, Sequence

import click
import numpy as np

from costhub.cards.tables import TableColumn, number
from costhub.dataset.programs import Programs
from costhub.models.compound.blend import ScoreScale
from costhub.models.evaluate import METRICS, evaluate_scores
from costhub.models.protocol import Scores
from scripts.bench.common.rows import Row, RowFile
from scripts.bench.models.grid import GridEntry
from scripts.tables.gains import mean_with_error

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


def standardised(members: Sequence[tuple[Scores, Scores]], train: Programs) -> Scores:
    """(m, n) scores of held-out programs on the common scale of a blend.

    Args:
        members: Of each, the scores of the programs that it learned from and of the held-out ones.
        train: The programs that they learned from.
    """
    scale = ScoreScale.of(np.stack([own for own, _ in members]), train.group)
    return scale(np.stack([held_out for _, held_out in members]))


def add(kept: RowFile, about: Row, scores: Scores, programs: Programs) -> None:
    """Adds a row with the figures of every workload, unless an interrupted run has left it."""
    if kept.key_of(about) in kept:
        return
    row = evaluate_scores(scores, programs).row(about)
    kept.add(row)
    click.echo(f"{about['part']} seed {about['seed']} {about['model']}: top_1 {row['top_1']:.3f}")


def summary_line(rows: Sequence[Row], part: str, model: str, base: str) -> Row:
    """A model on a part: means over workloads of the means over seeds, and gains over the base, with standard errors.

    A gain is the difference to the base on the same workloads.
    """
    these = [row for row in rows if (row["part"], row["model"]) == (part, model)]
    about = {"device": these[0]["device"], "split": these[0]["split"], "part": part, "model": model}
    found: Row = {**about, "base": base, "seeds": len(these)}
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
