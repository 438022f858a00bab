"""Candidates of the first evolved generation of TVM's evolutionary search."""

from __future__ import annotations

from typing import Any

import numpy as np
import tvm
from tvm.ir.utils import derived_object
from tvm.s_tir import meta_schedule as ms

from costhub.collector.device.local import local_target
from costhub.collector.workloads.suites import find_workload
from costhub.dataset.intrinsics import load_intrinsics


def held_candidates(workload: str, *, count: int, seed: int = 1) -> tuple[Any, list[Any]]:
    """A ``TuneContext`` and `count` ``MeasureCandidate``s with their schedules."""
    generations: list[list[Any]] = []

    @derived_object
    class Onlooker(ms.cost_model.PyCostModel):  # type: ignore[misc]
        def predict(self, context: Any, candidates: list[Any]) -> Any:
            generations.append(list(candidates))
            return np.random.default_rng(len(generations)).uniform(0.1, 1.0, len(candidates))

        def update(self, context: Any, candidates: list[Any], results: list[Any]) -> None:
            pass

    load_intrinsics("llvm")
    mod = find_workload(workload).module()
    strategy = ms.search_strategy.EvolutionarySearch(population_size=count, genetic_num_iters=1)
    context = ms.TuneContext(
        mod,
        target=tvm.target.Target(local_target()),
        space_generator="post-order-apply",
        search_strategy=strategy,
        rand_state=seed,
    ).clone()
    designs = context.generate_design_space()
    context.pre_tuning(64, 64, designs, ms.database.MemoryDatabase(), Onlooker())
    context.generate_measure_candidates()
    context.post_tuning()
    return context, generations[-1]
