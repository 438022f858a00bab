"""A cost model small enough to reason about: linear in the sums of a program's rows."""

from __future__ import annotations

import json
import logging
import math
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from costhub.collector.device.local import find_local, local_target
from costhub.collector.measurer import Measurer, local_measurer
from costhub.collector.workloads.suites import SuiteWorkload
from costhub.dataset.intrinsics import load_intrinsics
from costhub.dataset.programs import Programs
from costhub.dataset.workload import parse_target
from costhub.models.protocol import CostModel
from costhub.search.strategies.search_space import SearchSpace


class LinearModel(CostModel):
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

    def config(self) -> dict[str, Any]:
        raise AssertionError("a search never saves")

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


@pytest.fixture(scope="module")
def measurer() -> Iterator[Measurer]:
    with local_measurer(find_local(["auto"])) as found:
        yield found


SILENT = logging.getLogger("costhub.tests.silent")
SILENT.setLevel(logging.ERROR)


def matmul() -> Any:
    return SuiteWorkload("matmul.64", "matmul", (64, 64, 64)).module()


def liking(schedule: Any) -> float:
    """The mean logarithm of the innermost factors of a schedule's tiles."""
    decisions = schedule.trace.decisions
    tiles = [d for i, d in decisions.items() if i.kind.name == "SamplePerfectTile"]
    return sum(math.log2(int(tile[-1])) for tile in tiles) / len(tiles) if tiles else 0.0


class LikesWideTiles:
    """Scores by `liking`, as TVM wants scores: positive."""

    def __init__(self) -> None:
        self.asked: list[int] = []

    def predict(self, context: Any, candidates: Sequence[Any]) -> np.ndarray[Any, Any]:
        self.asked.append(len(candidates))
        return np.exp([liking(candidate.sch) for candidate in candidates])


@pytest.fixture(scope="session")
def new_context(target: str) -> Callable[..., Any]:
    """Makes a ``TuneContext``, for the small matmul unless told otherwise."""
    load_intrinsics(json.loads(target)["kind"])
    from tvm.s_tir import meta_schedule as ms

    def made(strategy: Any = None, *, mod: Any = None, seed: int = 3) -> Any:
        return ms.TuneContext(
            mod if mod is not None else matmul(),
            target=parse_target(target),
            space_generator="post-order-apply",
            search_strategy=strategy,
            rand_state=seed,
            logger=SILENT,
        )

    return made


@pytest.fixture
def new_space(new_context: Callable[..., Any]) -> Callable[..., SearchSpace]:
    def made(model: Any = None, *, mod: Any = None, seed: int = 0) -> SearchSpace:
        context = new_context(mod=mod)
        sketches = list(context.generate_design_space())
        return SearchSpace(context, sketches, model or LikesWideTiles(), seed=seed)

    return made


@pytest.fixture
def space(new_space: Callable[..., SearchSpace]) -> SearchSpace:
    return new_space()


@pytest.fixture
def likes() -> Callable[[Any], float]:
    return liking
