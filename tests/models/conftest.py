"""Programs with a known structure: what is fast depends on the rows in one way for all workloads."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest

from costhub.dataset.programs import Programs

COLUMNS = 6

MakePrograms = Callable[..., Programs]


def make(workloads: int = 6, each: int = 40, *, seed: int = 0, noise: float = 0.0) -> Programs:
    """Programs of 0 to 4 rows whose log latency is a sum over their rows, shifted per workload."""
    rng = np.random.default_rng(seed)
    counts = rng.integers(0, 5, size=workloads * each)
    rows = rng.normal(size=(int(counts.sum()), COLUMNS)).astype(np.float32)
    rows[:, -1] = 3.0  # a column that never varies
    workload = np.repeat(np.arange(workloads), each)
    cost = np.tanh(rows[:, 0]) + 0.5 * np.maximum(rows[:, 1], 0.0) - 0.3 * rows[:, 2]
    total = np.bincount(np.repeat(np.arange(len(counts)), counts), weights=cost, minlength=len(counts))
    shift = rng.normal(size=workloads)[workload] * 2.0
    latency_s = 1e-3 * np.exp(0.5 * total + shift + noise * rng.normal(size=len(counts)))
    return Programs(rows, counts, workload, tuple(f"{seed}-{i}" for i in range(workloads)), latency_s)


@pytest.fixture(scope="session")
def make_programs() -> MakePrograms:
    return make


@pytest.fixture(scope="session")
def train() -> Programs:
    return make(6, seed=0)


@pytest.fixture(scope="session")
def unseen() -> Programs:
    """Programs of other workloads."""
    return make(4, seed=1)
