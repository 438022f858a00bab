"""A source device and a target that differs from it in one column, and models of the source."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest

from costhub.dataset.programs import Programs
from costhub.models.architectures import new_model
from costhub.models.protocol import CostModel

TREES = "gbt(objective=log,rounds=40,learning_rate=0.2)"
NETWORK = {"hidden": 16, "bins": 0, "epochs": 30, "learning_rate": 5e-3}


def made(workloads: int, each: int, *, seed: int, changed: float) -> Programs:
    """Programs of 1 to 3 rows; `changed` is how much the device dislikes a column that the source ignores."""
    rng = np.random.default_rng(seed)
    counts = rng.integers(1, 4, size=workloads * each)
    rows = rng.normal(size=(int(counts.sum()), 5)).astype(np.float32)
    cost = np.tanh(rows[:, 0]) + 0.5 * np.maximum(rows[:, 1], 0.0) + changed * rows[:, 2]
    total = np.bincount(np.repeat(np.arange(len(counts)), counts), weights=cost)
    workload = np.repeat(np.arange(workloads), each)
    return Programs(rows, counts, workload, tuple(f"{seed}-{i}" for i in range(workloads)), np.exp(total))


@pytest.fixture(scope="session")
def source_programs() -> Programs:
    return made(8, 40, seed=0, changed=0.0)


@pytest.fixture(scope="session")
def measured_here() -> Programs:
    """A few programs of other workloads, measured on the target."""
    return made(8, 16, seed=1, changed=0.7)


@pytest.fixture(scope="session")
def unseen() -> Programs:
    """Programs of the target to be ranked."""
    return made(5, 60, seed=2, changed=0.7)


MAKE: dict[str, Callable[[], CostModel]] = {
    "gbt": lambda: new_model(
        "gbt",
        feature_spec="demo@1",
        options={
            "objective": "log",
            "rounds": 40,
            "learning_rate": 0.2,
        },
    ),
    "mlp": lambda: new_model("mlp", feature_spec="demo@1", options=NETWORK),
    "blend": lambda: new_model(
        "blend",
        feature_spec="demo@1",
        options={
            "members": f"{TREES} mlp(hidden=16,bins=0,epochs=30,learning_rate=0.005)",
        },
    ),
}


@pytest.fixture(scope="session")
def sources(source_programs: Programs) -> dict[str, CostModel]:
    """Fitted models of the source device, by architecture; nobody may change them."""
    found = {}
    for arch, make in MAKE.items():
        found[arch] = make()
        found[arch].fit(source_programs, None, seed=0, progress=False)
    return found
