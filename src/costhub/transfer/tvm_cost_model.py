"""Provides TvmCostModel: any costhub model as a MetaSchedule cost model, for `ms.tune_tir` and its kin."""

from __future__ import annotations

import statistics
from pathlib import Path
from typing import Any

import numpy as np
import tvm_ffi
from tvm.ir.utils import derived_object
from tvm.s_tir.meta_schedule.cost_model import PyCostModel

from costhub.dataset.features.spec import Features, find_spec
from costhub.models.folder import load_model
from costhub.transfer.search_model import SearchModel


@derived_object
class TvmCostModel(PyCostModel):  # type: ignore[misc]  # TVM's base is untyped
    """A costhub model at TVM's seam.

    Args:
        search_model: the model that scores and learns; keep a reference to read its `health` afterwards.
    """

    def __init__(self, search_model: SearchModel) -> None:
        super().__init__()
        self.search_model = search_model

    def load(self, path: str) -> None:
        """Replaces the pretrained model by the model folder `path`."""
        base, _ = load_model(Path(path))
        self.search_model = SearchModel(base, adapt=self.search_model.adapt, seed=self.search_model.seed)

    def save(self, path: str) -> None:
        """Refuses: what a search learned of one task is no model of a device."""
        raise NotImplementedError("Save the pretrained model with costhub.models.folder.save_model.")

    def predict(self, context: Any, candidates: list[Any]) -> Any:
        """(n,) positive scores, higher for candidates expected to be faster."""
        return self.search_model.predict(_task_id(context), self._features(context, candidates))

    def update(self, context: Any, candidates: list[Any], results: list[Any]) -> None:
        """Learns from the runner's results; a failed run is not a latency."""
        if not len(candidates):
            return
        latency_s = np.array([_latency_s(result) for result in results])
        self.search_model.update(_task_id(context), self._features(context, candidates), latency_s)

    def _features(self, context: Any, candidates: list[Any]) -> Features:
        spec = find_spec(self.search_model.base.feature_spec)
        return spec.extract_candidates(context, candidates)


def _task_id(context: Any) -> str:
    """Workload and target: the same workload on two devices is two tasks."""
    return f"{tvm_ffi.structural_hash(context.mod)} {context.target}"


def _latency_s(result: Any) -> float:
    if result.error_msg is not None or not result.run_secs:
        return float("inf")
    return statistics.median(float(s) for s in result.run_secs)
