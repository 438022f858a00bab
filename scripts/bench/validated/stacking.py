"""Blends whose weights, penalty or trees are fitted to scores out of fold, beside today's blend of equal weights.

A member's scores of the programs that it learned from say nothing about its errors. So the training side of a split is
divided into folds: members that learned from the other folds score the programs of each. What is fitted to these scores
then combines members that learned from the whole training side, on workloads that nothing has seen.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import click
import numpy as np
import xgboost as xgb

from costhub.cards.tables import plain_table
from costhub.dataset.programs import Programs
from costhub.models.compound.blend import fitted_weights
from costhub.models.evaluate import evaluate_scores
from costhub.models.protocol import Scores
from scripts.bench.common import machine, options
from scripts.bench.common.data import SplitPart, folds, own_copy
from scripts.bench.common.rows import Row, RowFile
from scripts.bench.models.grid import TILES, GridEntry
from scripts.bench.models.tasks import DeviceData
from scripts.bench.validated.validation import (
    COLUMNS,
    FOLDS,
    KEY,
    TEST,
    VALIDATION,
    add,
    named,
    scores_of,
    standardised,
    summary_line,
)

MEMBERS = (
    GridEntry("gbt", TILES, "log"),
    GridEntry("mlp", TILES, "gap"),
    GridEntry("gbt", TILES, "rank"),
    GridEntry("mlp", TILES, "rank"),
)
"""Learners to combine; the first two are today's blend."""
TODAY, EQUAL, WEIGHTED = "today's blend, two members", "four members, equal weights", "four members, fitted weights"
PENALISED, TREES = "four members, less a share of their spread", "four members, combined by trees"
WAYS = (TODAY, EQUAL, WEIGHTED, PENALISED, TREES)
PENALTIES = (0.0, 0.25, 0.5, 1.0)
"""Shares of the members' spread that may be taken from their mean: where they disagree, a high score is often luck."""
TREE_OPTIONS, ROUNDS = {"max_depth": 3, "eta": 0.1, "nthread": 1}, 100
LOWEST = -4.0
"""Of the logarithms that the combining trees learn: how slow the slowest are does not matter."""
Combination = Callable[[Scores], Scores]
"""Gives (n,) scores from the (m, n) standardised ones of the members."""


@dataclass(frozen=True)
class Fold:
    """Some workloads of the training side."""

    scores: Scores
    """(m, n) standardised scores by members that learned from the other folds."""
    programs: Programs

    @classmethod
    def join(cls, parts: Sequence[Fold]) -> Fold:
        """Several folds as one."""
        return cls(np.concatenate([part.scores for part in parts], axis=1), Programs.join([p.programs for p in parts]))


def penalised(share: float, scores: Scores) -> Scores:
    """(n,) means of the members' scores, less a share of their standard deviation.

    Example:
        >>> penalised(0.5, np.array([[1.0, 1.0], [1.0, 3.0]])).tolist()
        [1.0, 1.5]
    """
    found: Scores = scores.mean(axis=0) - share * scores.std(axis=0)
    return found


def quality(scores: Scores, programs: Programs) -> float:
    """What decides between combinations: the sum of top-1 and pairs, as for the weights of a blend."""
    found = evaluate_scores(scores, programs)
    return found.top_1 + found.pairwise


def combining_trees(scores: Scores, programs: Programs, seed: int) -> Combination:
    """Trees that predict the logarithm of optimum / latency from the members' scores, their mean and their spread."""
    target = np.maximum(np.log(programs.throughput()), LOWEST)
    data = xgb.DMatrix(_columns(scores), target)
    model = xgb.train({**TREE_OPTIONS, "seed": seed}, data, num_boost_round=ROUNDS)
    return lambda other: np.asarray(model.predict(xgb.DMatrix(_columns(other))), np.float64)


def _columns(scores: Scores) -> Scores:
    return np.stack([*scores, scores.mean(axis=0), scores.std(axis=0)], axis=1)


def combinations(learned: Fold, seed: int) -> Mapping[str, Combination]:
    """Way -> how it combines members, fitted to their scores of programs that they have not seen."""
    scores, programs = learned.scores, learned.programs
    weight = fitted_weights(scores, programs)
    share = max(PENALTIES, key=lambda each: quality(penalised(each, scores), programs))
    click.echo(f"seed {seed}: weights {weight.round(2).tolist()}, share of the spread {share}")
    return {
        TODAY: lambda other: np.asarray(other[:2].mean(axis=0), np.float64),
        EQUAL: lambda other: np.asarray(other.mean(axis=0), np.float64),
        WEIGHTED: lambda other: np.asarray(weight @ other, np.float64),
        PENALISED: lambda other: penalised(share, other),
        TREES: combining_trees(scores, programs, seed),
    }


def out_of_fold(source: DeviceData, train: frozenset[str], seed: int) -> list[Fold]:
    """The folds of the workloads to learn from."""
    found = []
    for part in folds([row for row in source.about if row["workload_id"] in train], FOLDS, seed):
        learned, held_out = source.sides(part, MEMBERS[0], seed)
        fitted = [scores_of(entry, learned, held_out, seed)[:2] for entry in MEMBERS]
        found.append(Fold(standardised(fitted, learned), held_out))
    return found


def cross_fitted(parts: Sequence[Fold], seed: int) -> dict[str, Scores]:
    """Way -> (n,) scores of the programs of all folds, each by a combination that was fitted to the other folds."""
    found: dict[str, list[Scores]] = {}
    for number, part in enumerate(parts):
        others = Fold.join([*parts[:number], *parts[number + 1 :]])
        for way, combined in combinations(others, seed).items():
            found.setdefault(way, []).append(combined(part.scores))
    return {way: np.concatenate(scores) for way, scores in found.items()}


def add_rows(source: DeviceData, split: SplitPart, kept: RowFile, seed: int) -> None:
    """Adds the rows of one seed, unless they are there: of each way, out of fold and on the tested workloads."""
    about = {"device": source.device, "split": split.split, "seed": seed}
    names = [*WAYS, *map(named, MEMBERS)]
    if all(kept.key_of({**about, "part": TEST, "model": name}) in kept for name in names):
        return
    parts = out_of_fold(source, split.train, seed)
    whole = Fold.join(parts)
    for way, scores in cross_fitted(parts, seed).items():
        add(kept, {**about, "part": VALIDATION, "model": way}, scores, whole.programs)
    train, held_out = source.sides(split, MEMBERS[0], seed)
    tested = standardised([scores_of(entry, train, held_out, seed)[:2] for entry in MEMBERS], train)
    for way, combined in combinations(whole, seed).items():
        add(kept, {**about, "part": TEST, "model": way}, combined(tested), held_out)
    for name, own in zip(map(named, MEMBERS), tested, strict=True):
        add(kept, {**about, "part": TEST, "model": name}, own, held_out)


def summary(rows: Sequence[Row]) -> list[Row]:
    """Of each way and member: means over workloads of the means over seeds, and what they gain over today's blend."""
    pairs = dict.fromkeys((row["part"], row["model"]) for row in rows)
    ordered = sorted(pairs, key=lambda pair: (VALIDATION, TEST).index(pair[0]))
    return [summary_line(rows, part, model, TODAY) for part, model in ordered]


@click.command()
@options.data()
@click.option("--device", default="amd-epyc-zen5-2c", show_default=True)
@click.option("--split", "name", default="workload-40-seed0", show_default=True, help="Its test side is held out.")
@options.seeds(3)
@options.quick("One seed.")
@options.rows_file()
@options.json_file()
def main(
    data: Path | None, device: str, name: str, seeds: int, quick: bool, rows_path: Path | None, path: Path | None
) -> None:
    """Fits combinations of models to scores out of fold, and tests them on held-out workloads."""
    source, kept = DeviceData(data or own_copy(), device), RowFile(rows_path, KEY, device=device, split=name)
    (split,) = source.parts([name], 0)
    for seed in range(1 if quick else seeds):
        add_rows(source, split, kept, seed)
    table = summary(kept.all)
    validated = (line for line in table if line["part"] == VALIDATION)
    best = max(validated, key=lambda line: float(line["top_1"] + line["pairwise"]))
    click.echo(plain_table(table, COLUMNS))
    machine.write_result(path, {"chosen": best["model"], "summary": table})
