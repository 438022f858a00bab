"""Provides centred_loss: squared error on differences within a group, as an objective of XGBoost."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import numpy.typing as npt
import xgboost as xgb

from costhub.dataset.programs import IntArray

Floats = npt.NDArray[np.float64]
Objective = Callable[[Floats, xgb.DMatrix], tuple[Floats, Floats]]


def centred_loss(label: Floats, group: IntArray) -> Objective:
    """Half the squared error of scores, whatever their level in each group.

    It is the sum over groups of the squared errors of all differences within a group, divided by the size of
    the group. When only a few programs of a workload are measured, its best program is not known, and a label
    that is normalised by the best has an arbitrary level; this loss does not depend on the level.

    Args:
        label: (n,) what the scores should differ by.
        group: (n,) group of each.

    Returns:
        A function of (n,) scores that gives (n,) first and second derivatives; a group of one gives zeros.

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
    """(n,) values less the mean of their group.

    Example:
        >>> centred(np.array([1.0, 3.0, 5.0]), np.array([0, 0, 1])).tolist()
        [-1.0, 1.0, 0.0]
    """
    mean: Floats = np.bincount(group, values) / np.maximum(np.bincount(group), 1)
    return values - mean[group]
