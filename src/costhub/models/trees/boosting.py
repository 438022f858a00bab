"""Provides boost_trees, which resumes interrupted training, and the file of the trees.

It also provides a loss on differences within a group.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import xgboost as xgb

from costhub.dataset.programs import IntArray
from costhub.errors import ModelError, first_line
from costhub.models.inputs import read_weights
from costhub.models.training_progress import other_training_error, write_progress
from costhub.models.trees.tree_check import TreeFault, check_booster
from costhub.models.trees.ubjson import read_ubjson

MAX_TREES_BYTES = 256 << 20
"""For comparison, the largest file of trees that costhub ships has 5 MB."""


def read_booster(path: Path, *, advice: str = "Fetch it again.") -> xgb.Booster:
    """Reads XGBoost's own binary JSON.

    XGBoost trusts what it reads: a child or a column out of range leads to a read out of bounds when it predicts.
    So the bytes are read once, by a reader in Python, and XGBoost gets them only after every node has been checked.

    Args:
        path: Path of the file.
        advice: What to do about a damaged file, as a sentence.

    Raises:
        ModelError: The file does not exist, is too large, damaged or cut short, or holds trees that no training grows.
    """
    data = read_weights(path, "the trees", limit=MAX_TREES_BYTES)
    booster = xgb.Booster()
    try:
        check_booster(read_ubjson(data))
        booster.load_model(bytearray(data))
    except TreeFault as error:
        raise ModelError(f"{path} holds trees that costhub did not train: {error}. {advice}") from error
    except (xgb.core.XGBoostError, ValueError, OSError) as error:
        raise ModelError(
            f"{path} cannot be read as an XGBoost model ({first_line(error)}): it is damaged or cut short. {advice}"
        ) from error
    return booster


SAVE_EVERY = 25
"""Trees between two saves, and between two times that unsaved trees are read back."""
_PROGRESS_ADVICE = "It is the progress of a training run; remove it to start over."


@dataclass(frozen=True)
class TreeCheckpoint:
    """One file with the trees of an unfinished training run, and their losses on the validation programs."""

    path: Path
    training: str
    """Which training run it is, see `training_id`; the trees of another one are refused."""

    def save(self, booster: xgb.Booster, history: list[float]) -> xgb.Booster:
        """Writes the trees; at any moment, the file is either the old or the new one.

        Returns:
            The trees as read back from the file. Their sums for the programs are then recomputed, which
            rounds differently from adding tree by tree; continuing with the trees read back therefore grows
            the same trees with and without a break.
        """
        booster.set_attr(training=self.training, history=json.dumps(history))
        write_progress(self.path, booster.save_model)
        return _read(self.path)[0]

    def restore(self, *, features: int) -> tuple[xgb.Booster, list[float]] | None:
        """The trees and their history; None if there is no file yet.

        Args:
            features: How many features the trees must read.

        Raises:
            ModelError: The file is damaged, or holds the trees of another training run.
        """
        if not self.path.is_file():
            return None
        booster, attributes = _read(self.path)
        if attributes["training"] != self.training or booster.num_features() != features:
            raise other_training_error(self.path)
        return booster, _history(self.path, attributes["history"] or "[]", trees=booster.num_boosted_rounds())


def _history(path: Path, text: str, *, trees: int) -> list[float]:
    """The losses in an attribute: one for each tree, or none without validation programs."""
    try:
        losses = json.loads(text)
    except (ValueError, RecursionError):
        losses = None
    if not isinstance(losses, list) or len(losses) not in (0, trees) or any(type(loss) is not float for loss in losses):
        raise ModelError(f"{path} has no loss for each of its trees. {_PROGRESS_ADVICE}")
    return losses


def _read(path: Path) -> tuple[xgb.Booster, dict[str, str | None]]:
    """The trees, and the attributes of the checkpoint, which are removed from them."""
    booster = read_booster(path, advice=_PROGRESS_ADVICE)
    attributes = {name: booster.attr(name) for name in ("training", "history")}
    booster.set_attr(training=None, history=None)
    return booster, attributes


def boost_trees(
    parameters: Mapping[str, Any],
    train: xgb.DMatrix,
    valid: xgb.DMatrix | None,
    *,
    rounds: int,
    patience: int,
    checkpoint: TreeCheckpoint | None = None,
    on_trees: Callable[[int], object] = lambda trees: None,
) -> xgb.Booster:
    """Grows trees; an interrupted training run continues with the random draws that it would have made.

    `xgboost.train` counts the trees from 0 again when it continues, and `seed_per_iteration` draws by that
    number, so the trees are requested one by one here. Trees that were read back draw different rows and columns from
    those that grew in one piece, by hundredths of a score. So all trees are read back after each `SAVE_EVERY`, with or
    without a checkpoint: one seed gives one model, from the command line and from Python.

    Args:
        parameters: Parameters as XGBoost names them.
        train: What to learn from.
        valid: Decides when to stop, by the metric of the objective.
        rounds: The most trees to grow.
        patience: Trees without a better figure for `valid` after which growing ends; the best ones are kept.
        checkpoint: Where the trees are kept as they grow.
        on_trees: Called with the number of new trees.

    Raises:
        ModelError: The checkpoint belongs to another training run.
    """
    kept = checkpoint.restore(features=train.num_col()) if checkpoint else None
    booster, history = kept or (xgb.Booster(dict(parameters), [train, *([valid] if valid else [])]), [])
    booster.set_param(dict(parameters))
    on_trees(booster.num_boosted_rounds())
    best = _best(history)
    for number in range(booster.num_boosted_rounds(), rounds):
        if valid is not None and number - 1 - best >= patience:
            break
        booster.update(train, number)
        if valid is not None:
            history.append(_loss(booster, valid, number))
            best = _best(history)
        if (number + 1) % SAVE_EVERY == 0 or number + 1 == rounds:
            booster = checkpoint.save(booster, history) if checkpoint else _read_back(booster)
            booster.set_param(dict(parameters))
        on_trees(1)
    return booster if valid is None else booster[: best + 1]


def _read_back(booster: xgb.Booster) -> xgb.Booster:
    """The trees as `TreeCheckpoint.save` returns them, but read back from memory."""
    return xgb.Booster(model_file=booster.save_raw("ubj"))


def _best(history: list[float]) -> int:
    """The first of the best; before there is any, the first to come."""
    return history.index(min(history)) if history else 0


def _loss(booster: xgb.Booster, valid: xgb.DMatrix, number: int) -> float:
    """The metric of the objective; lower is better."""
    name, value = booster.eval_set([(valid, "valid")], number).split("\t")[-1].rsplit(":", 1)
    return -float(value) if "ndcg" in name or "map" in name else float(value)


Floats = npt.NDArray[np.float64]
XgbObjective = Callable[[Floats, xgb.DMatrix], tuple[Floats, Floats]]


def centred_loss(label: Floats, group: IntArray) -> XgbObjective:
    """Half the squared error of scores, whatever their level in each group.

    It is the sum over groups of the squared errors of all differences within a group, divided by the size of
    the group. If only a few programs of a workload have been measured, its best program is not known, and a label
    that is normalised by the best has an arbitrary level; this loss does not depend on the level.

    Args:
        label: (n,) labels, whose differences the scores should have.
        group: (n,) group of each.

    Returns:
        A function of (n,) scores that returns (n,) first and second derivatives; a group of one gives zeros.

    Example:
        >>> loss = centred_loss(np.array([0.0, -1.0, 5.0]), np.array([0, 0, 1]))
        >>> [part.tolist() for part in loss(np.array([0.0, 1.0, 0.0]), None)]
        [[-1.0, 1.0, 0.0], [0.5, 0.5, 0.0]]
    """
    size = np.bincount(group)[group]
    curvature = 1.0 - 1.0 / size

    def derivatives(scores: Floats, _: xgb.DMatrix) -> tuple[Floats, Floats]:
        return centred(scores - label, group), curvature

    return derivatives


def centred(values: Floats, group: IntArray) -> Floats:
    """(n,) values minus the mean of their group.

    Example:
        >>> centred(np.array([1.0, 3.0, 5.0]), np.array([0, 0, 1])).tolist()
        [-1.0, 1.0, 0.0]
    """
    mean: Floats = np.bincount(group, values) / np.maximum(np.bincount(group), 1)
    return values - mean[group]
