"""TVM's own cost models as they are after some rounds of a search."""

from __future__ import annotations

import logging
from collections.abc import Sequence
from typing import Any

import numpy as np
from tvm.s_tir import meta_schedule as ms
from tvm.s_tir.meta_schedule.cost_model.mlp_model import MLPModel, SegmentSumMLPTrainer, extract_features
from tvm.s_tir.meta_schedule.runner import RunnerResult

LEARNT = 256
"""Candidates the models learn from: four rounds of a search with TVM's defaults."""


class WorkingTrainer(SegmentSumMLPTrainer):  # type: ignore[misc]
    """TVM 0.27's trainer with a working `train_full`, which every first update calls and which fails.

    TVM's holds out a fifth of the tasks for testing, none of fewer than five, and concatenates them; and it
    passes ``verbose`` to torch's StepLR, which no longer takes it. Here it is the incremental training over
    all data, for as many epochs.
    """

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
