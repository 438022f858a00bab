"""Every strategy at TVM's seam: batches of new programs, until the trials are spent or the space is."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Any

import numpy as np
import pytest
import tvm_ffi

from costhub.collector.suite import Workload
from costhub.transfer.strategies.annealing import Annealing
from costhub.transfer.strategies.ppo import Ppo
from costhub.transfer.strategies.random_top_k import Random, RandomTopK
from costhub.transfer.strategies.strategy import Explorer

SMALL = [RandomTopK(pool=24), Random(), Annealing(chains=8, steps=3), Ppo(programs=8, steps=3, episodes=2)]


@pytest.fixture
def wide() -> Any:
    """`LikesWideTiles` as a model of TVM's."""
    from tvm.ir.utils import derived_object
    from tvm.s_tir.meta_schedule.cost_model import PyCostModel

    @derived_object
    class Wide(PyCostModel):  # type: ignore[misc]
        def predict(self, context: Any, candidates: Sequence[Any]) -> Any:
            sizes = [
                [int(d[-1]) for i, d in c.sch.trace.decisions.items() if i.kind.name == "SamplePerfectTile"]
                for c in candidates
            ]
            return np.array([float(np.prod(own)) for own in sizes])

        def update(self, context: Any, candidates: Sequence[Any], results: Sequence[Any]) -> None: ...

    return Wide()


def batches(context: Any, model: Any, trials: int, each: int, database: Any = None) -> Iterator[list[Any]]:
    from tvm.s_tir import meta_schedule as ms

    context.pre_tuning(
        trials, each, context.generate_design_space(), database or ms.database.MemoryDatabase(), model
    )
    while found := context.generate_measure_candidates():
        yield list(found)
        context.notify_runner_results(found, [ms.runner.RunnerResult([1e-3], None)] * len(found))
    context.post_tuning()


def structures(candidates: Sequence[Any]) -> list[int]:
    return [int(tvm_ffi.structural_hash(candidate.sch.mod)) for candidate in candidates]


@pytest.mark.parametrize("explorer", SMALL, ids=lambda explorer: explorer.name)
def test_a_strategy_gives_different_programs_until_the_trials_are_spent(
    new_context: Callable[..., Any], wide: Any, explorer: Explorer
) -> None:
    context = new_context(explorer.to_tvm()).clone()

    found = list(batches(context, wide, 20, 8))

    assert [len(batch) for batch in found] == [8, 8, 4]
    assert len(set(structures([c for batch in found for c in batch]))) == 20
    assert all(len(c.args_info) == 3 for c in found[0])


@pytest.mark.parametrize("explorer", SMALL, ids=lambda explorer: explorer.name)
def test_a_small_space_is_used_up(new_context: Callable[..., Any], wide: Any, explorer: Explorer) -> None:
    tiny = Workload("matmul.tiny", "matmul", (1, 1, 2)).module()
    context = new_context(explorer.to_tvm(), mod=tiny).clone()

    found = [c for batch in batches(context, wide, 400, 16) for c in batch]

    assert 0 < len(found) < 400
    assert len(set(structures(found))) == len(found)


def test_tasks_with_clones_of_one_strategy_know_nothing_of_each_other(
    new_context: Callable[..., Any], wide: Any
) -> None:
    strategy = RandomTopK(pool=16).to_tvm()
    found = [structures(next(batches(new_context(strategy).clone(), wide, 8, 8))) for _ in range(2)]

    assert found[0] == found[1]


def test_a_search_that_goes_on_begins_with_what_the_database_holds(
    new_context: Callable[..., Any], target: str, wide: Any
) -> None:
    from tvm.s_tir import meta_schedule as ms

    from costhub.dataset.target import parse_target

    database = ms.database.MemoryDatabase()
    first = next(batches(new_context(Random().to_tvm()).clone(), wide, 8, 8))
    workload = database.commit_workload(new_context().mod)
    for number, candidate in enumerate(first):
        database.commit_tuning_record(
            ms.database.TuningRecord(
                candidate.sch.trace,
                workload,
                [1e-3 * (number + 1)],
                parse_target(target),
                candidate.args_info,
            )
        )
    seen: list[Any] = []

    class Spy(Explorer):
        name = "spy"

        def begin(self, ground: Any) -> Any:
            seen.append(ground)
            return Random().begin(ground)

    again = next(batches(new_context(Spy().to_tvm()).clone(), wide, 8, 8, database))

    assert [p.structure for p in seen[0].fastest(8)] == structures(first)
    assert len(set(structures(again)) & set(structures(first))) < 4  # drawn anew, not as the first time
