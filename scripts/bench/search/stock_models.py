"""TVM's own cost models as they are after some rounds of a search, and candidates that a search scores."""

from __future__ import annotations

import logging
from collections.abc import Sequence
from typing import Any

import numpy as np
import tvm
from tvm.ir.utils import derived_object
from tvm.s_tir import meta_schedule as ms
from tvm.s_tir.meta_schedule.cost_model.mlp_model import MLPModel, SegmentSumMLPTrainer, extract_features
from tvm.s_tir.meta_schedule.runner import RunnerResult

from costhub.collector.device.local import local_target
from costhub.collector.workloads.suites import find_workload
from costhub.dataset.intrinsics import load_intrinsics

LEARNT = 256
"""Candidates the models learn from: four rounds of a search with TVM's defaults."""


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


class WorkingTrainer(SegmentSumMLPTrainer):  # type: ignore[misc]
    """TVM 0.27's trainer with a working `train_full`, which every first update calls and which fails.

    TVM's holds out a fifth of the tasks for testing, none of fewer than five, and concatenates them; and it
    passes ``verbose`` to torch's StepLR, which no longer takes it. Here it is the incremental training over
    all data, for as many epochs.
    """

    num_epoch_incremental: int

    def train_full(self) -> None:
        """Trains on everything; for one task it differs from TVM's only in the steps of the learning rate."""
        groups = self.state.data.values()
        features = [f for group in groups for f in group.features]
        epochs, self.num_epoch_incremental = self.num_epoch_incremental, self.num_epoch_full
        self.train_incremental(features, np.concatenate([group.costs for group in groups]))
        self.num_epoch_incremental = epochs


def trained(context: Any, candidates: Sequence[Any], latency_s: Sequence[float]) -> dict[str, Any]:
    """TVM's XGBModel, and its MLPModel with a trainer that works, updated once on measured candidates."""
    logging.getLogger("tvm.s_tir.meta_schedule").setLevel(logging.ERROR)
    models = {"tvm-xgb": ms.cost_model.XGBModel(), "tvm-mlp": MLPModel(trainer=WorkingTrainer())}
    results = [RunnerResult([seconds], None) for seconds in latency_s]
    for model in models.values():
        model.update(context, candidates, results)
    return models


def features(name: str, model: Any, context: Any, candidates: Sequence[Any]) -> list[Any]:
    """The first half of the model's `predict`: the features."""
    if name == "tvm-mlp":
        rows, _ = extract_features(context, candidates, None, model.trainer.state.extractor)
        return list(rows)
    return [x.numpy().astype("float32") for x in model.extractor.extract_from(context, candidates)]


def scores(name: str, model: Any, rows: list[Any]) -> Any:
    """The second half of `predict`: the scores."""
    return model.trainer.predict_incremental(rows) if name == "tvm-mlp" else model._predict(rows)
