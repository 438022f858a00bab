"""A small design space, and a model whose likes are known."""

from __future__ import annotations

import json
import logging
import math
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import pytest

from costhub.collector.suite import Workload
from costhub.dataset.intrinsics import load_intrinsics
from costhub.dataset.target import parse_target
from costhub.transfer.strategies.ground import Ground

SILENT = logging.getLogger("costhub.tests.silent")
SILENT.setLevel(logging.ERROR)


def matmul() -> Any:
    return Workload("matmul.64", "matmul", (64, 64, 64)).module()


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
            mod if mod is not None else matmul(), target=parse_target(target),
            space_generator="post-order-apply", search_strategy=strategy, rand_state=seed, logger=SILENT,
        )  # fmt: skip

    return made


@pytest.fixture
def new_ground(new_context: Callable[..., Any]) -> Callable[..., Ground]:
    def made(model: Any = None, *, mod: Any = None, seed: int = 0) -> Ground:
        context = new_context(mod=mod)
        sketches = list(context.generate_design_space())
        return Ground(context, sketches, model or LikesWideTiles(), seed=seed)

    return made


@pytest.fixture
def ground(new_ground: Callable[..., Ground]) -> Ground:
    return new_ground()


@pytest.fixture
def likes() -> Callable[[Any], float]:
    return liking
