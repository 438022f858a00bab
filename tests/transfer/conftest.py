"""A cost model small enough to reason about: linear in the sums of a program's rows."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from costhub.collector.target import local_target
from costhub.dataset.programs import Programs


class LinearModel:
    """score = weights . (sum of rows); `update` adds `shift` to every weight."""

    arch = "linear"
    feature_spec = "per_store@1"

    def __init__(self, weights: np.ndarray, *, shift: float = 0.0) -> None:
        self.weights = np.asarray(weights, dtype=float)
        self.shift = shift
        self.updates: list[Programs] = []

    def fit(self, train: Programs, valid: Programs | None, *, seed: int, progress: bool = False) -> None:
        raise AssertionError("a search never trains from scratch")

    def predict(self, rows: np.ndarray, counts: np.ndarray) -> np.ndarray:
        owner = np.repeat(np.arange(len(counts)), counts)
        sums = np.zeros((len(counts), len(self.weights)))
        np.add.at(sums, owner, rows[:, : len(self.weights)])
        return sums @ self.weights

    def update(self, programs: Programs, *, seed: int) -> None:
        self.updates.append(programs)
        self.weights = self.weights + self.shift

    def save_weights(self, folder: Path) -> None:
        raise AssertionError("a search never saves")

    def load_weights(self, folder: Path, config: dict[str, Any]) -> None:
        raise AssertionError("a search never loads")


@pytest.fixture
def linear() -> type[LinearModel]:
    return LinearModel


@pytest.fixture(scope="session")
def target() -> str:
    return json.dumps(local_target())
