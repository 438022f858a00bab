"""Provides boosted: trees grown one after the other, from a break in the training on where there was one."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import xgboost as xgb

from costhub.models.training.progress_file import of_another_training, write_progress
from costhub.models.trees.booster_file import read_booster

SAVE_EVERY = 25
"""Trees between two savings."""


@dataclass(frozen=True)
class TreeCheckpoint:
    """One file with the trees of an unfinished training, and their losses on the validation programs."""

    path: Path
    training: str
    """Which training it is, see `training_id`; the trees of another one are refused."""

    def save(self, booster: xgb.Booster, history: list[float]) -> xgb.Booster:
        """Writes the trees; the file is the old one or the new one at any moment.

        Returns:
            The trees as read back from the file. Their sums for the programs are then computed anew, which
            rounds differently from adding tree by tree; continuing with the trees read back therefore grows
            the same trees with and without a break.
        """
        booster.set_attr(training=self.training, history=json.dumps(history))
        write_progress(self.path, booster.save_model)
        return _read(self.path)[0]

    def restore(self) -> tuple[xgb.Booster, list[float]] | None:
        """The trees and their history; None where there is no file yet.

        Raises:
            ModelError: The file is damaged, or holds the trees of another training.
        """
        if not self.path.is_file():
            return None
        booster, said = _read(self.path)
        if said["training"] != self.training:
            raise of_another_training(self.path)
        return booster, json.loads(said["history"] or "[]")


def _read(path: Path) -> tuple[xgb.Booster, dict[str, str | None]]:
    """The trees, and what was said of them, which they do not keep."""
    booster = read_booster(path, advice="It is the progress of a training; remove it to start over.")
    said = {name: booster.attr(name) for name in ("training", "history")}
    booster.set_attr(training=None, history=None)
    return booster, said


def boosted(
    parameters: Mapping[str, Any],
    train: xgb.DMatrix,
    valid: xgb.DMatrix | None,
    *,
    rounds: int,
    patience: int,
    checkpoint: TreeCheckpoint | None = None,
    shown: Callable[[int], object] = lambda trees: None,
) -> xgb.Booster:
    """Grows trees; an interrupted training goes on with the draws that it would have made.

    `xgboost.train` counts the trees from 0 again when it continues, and `seed_per_iteration` draws by that
    number; so the trees are asked for one by one here.

    Args:
        parameters: In XGBoost's words.
        train: What to learn from.
        valid: Tells when to stop, by the metric of the objective.
        rounds: Most trees.
        patience: Trees without a better figure of `valid` after which it ends; the best ones are kept.
        checkpoint: Where the trees are kept as they grow.
        shown: Called with the number of trees that are new.

    Raises:
        ModelError: The checkpoint is of another training.
    """
    kept = checkpoint.restore() if checkpoint else None
    booster, history = kept or (xgb.Booster(dict(parameters), [train, *([valid] if valid else [])]), [])
    booster.set_param(dict(parameters))
    shown(booster.num_boosted_rounds())
    best = _best(history)
    for number in range(booster.num_boosted_rounds(), rounds):
        if valid is not None and number - 1 - best >= patience:
            break
        booster.update(train, number)
        if valid is not None:
            history.append(_loss(booster, valid, number))
            best = _best(history)
        if checkpoint and ((number + 1) % SAVE_EVERY == 0 or number + 1 == rounds):
            booster = checkpoint.save(booster, history)
            booster.set_param(dict(parameters))
        shown(1)
    return booster if valid is None else booster[: best + 1]


def _best(history: list[float]) -> int:
    """The first of the best; before there is any, the first to come."""
    return history.index(min(history)) if history else 0


def _loss(booster: xgb.Booster, valid: xgb.DMatrix, number: int) -> float:
    """The metric of the objective, lower for better."""
    name, value = booster.eval_set([(valid, "valid")], number).split("\t")[-1].rsplit(":", 1)
    return -float(value) if "ndcg" in name or "map" in name else float(value)
