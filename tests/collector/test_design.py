"""Drawing and changing schedules of a design space."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from functools import partial
from typing import Any

import numpy as np
import pytest

from costhub.collector.design import Design
from costhub.collector.sampler import _design_space
from costhub.collector.spaces import find_space
from costhub.collector.suite import find_workload


@pytest.fixture(scope="module")
def space(target: str) -> tuple[Any, list[Any]]:
    return _design_space(find_workload("matmul.128x128x128").module(), target, find_space("default"), 0)


@pytest.fixture(scope="module")
def design(space: tuple[Any, list[Any]]) -> Design:
    return Design(*space)


def structure(schedule: Any) -> int:
    import tvm_ffi

    return int(tvm_ffi.structural_hash(schedule.mod))


def drawn(design: Design, seed: int) -> Any:
    return design.finish(partial(design.random, np.random.default_rng(seed)), seed)


def test_threads_make_the_schedules_that_one_makes(design: Design) -> None:
    alone = [structure(drawn(design, seed)) for seed in range(1, 9)]
    with ThreadPoolExecutor(3) as pool:
        together = [structure(s) for s in pool.map(partial(drawn, design), range(1, 9))]

    assert together == alone
    assert len(set(alone)) > 4


def test_a_mutated_trace_can_be_replayed(design: Design) -> None:
    parent = drawn(design, 1)
    changed = 0
    for seed in range(1, 9):
        rng = np.random.default_rng(seed)
        child = design.finish(partial(design.mutated, parent.trace, rng, most=1), seed)
        changed += child is not None and structure(child) != structure(parent)

    assert changed >= 4


def test_what_a_stranger_raises_comes_out(design: Design) -> None:
    def broken() -> Any:
        raise ValueError("no such tile")

    with pytest.raises(ValueError, match="no such tile"):
        design.finish(broken, 1)


def test_a_space_without_mutators_says_so(space: tuple[Any, list[Any]]) -> None:
    class Bare:
        mod = space[0].mod

        class space_generator:  # noqa: N801
            mutator_probs = None
            postprocs = None

    assert not Design(Bare(), space[1]).mutates
