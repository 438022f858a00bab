"""Every strategy at TVM's seam: batches of new programs, until the trials are spent or the space is."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pytest
import tvm_ffi

from costhub.collector.workloads.suites import SuiteWorkload
from costhub.papers.autotvm import Annealing
from costhub.papers.release import Ppo
from costhub.search.strategies.search_space import SearchSpace
from costhub.search.strategies.strategy import Evolutionary, Exploration, Explorer, Random, RandomTopK


@dataclass(frozen=True)
class Own(Explorer):
    """As a stranger may write one."""

    name = "own"

    def begin(self, space: SearchSpace) -> Exploration:
        raise NotImplementedError


def test_an_explorer_becomes_a_strategy_of_tvm_each_time_a_new_one() -> None:
    from tvm.s_tir.meta_schedule.search_strategy import SearchStrategy

    one, two = Own().to_tvm(), Own().to_tvm()

    assert isinstance(one, SearchStrategy)
    assert not one.same_as(two)
    assert not one.clone().same_as(one)


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

    context.pre_tuning(trials, each, context.generate_design_space(), database or ms.database.MemoryDatabase(), model)
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
    tiny = SuiteWorkload("matmul.tiny", "matmul", (1, 1, 2)).module()
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

    from costhub.dataset.workload import parse_target

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

        def begin(self, space: Any) -> Any:
            seen.append(space)
            return Random().begin(space)

    again = next(batches(new_context(Spy().to_tvm()).clone(), wide, 8, 8, database))

    assert [p.structure for p in seen[0].fastest(8)] == structures(first)
    assert len(set(structures(again)) & set(structures(first))) < 4  # drawn anew, not as the first time


def test_it_is_tvms_own_with_the_sizes_of_a_search() -> None:
    from tvm.s_tir.meta_schedule.search_strategy import EvolutionarySearch

    made = Evolutionary(32, 1).to_tvm()
    assert isinstance(made, EvolutionarySearch)
    assert (made.population_size, made.genetic_num_iters) == (32, 1)


def test_the_best_of_a_pool_are_better_than_random_ones(
    new_space: Callable[..., SearchSpace], likes: Callable[[Any], float]
) -> None:
    space = new_space()
    RandomTopK(pool=64).begin(space).explore(8)
    best = [likes(program.schedule) for program in space.best_new(8)]

    assert space._cost_model.asked == [64]
    assert min(best) > np.mean([likes(program.schedule) for program in space.random(32)])


def test_random_asks_no_model(space: SearchSpace) -> None:
    Random().begin(space).explore(8)

    assert space._cost_model.asked == []
    assert space.best_new(8) == []
