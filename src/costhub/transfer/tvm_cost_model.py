"""Provides TvmCostModel: any costhub model as a MetaSchedule cost model, for `ms.tune_tir` and its kin."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import tvm_ffi
from tvm.ir.utils import derived_object
from tvm.s_tir.meta_schedule.cost_model import PyCostModel

from costhub.dataset.features.spec import Features, find_spec
from costhub.models.folder import load_model
from costhub.models.protocol import Scores
from costhub.transfer.draft import Draft
from costhub.transfer.search_model import SearchModel
from costhub.transfer.stages import FEATURES, LEARNING, PREDICTION, Stages
from costhub.transfer.tvm_measure import latency_of


@derived_object
class TvmCostModel(PyCostModel):  # type: ignore[misc]  # TVM's base is untyped
    """A costhub model at TVM's seam.

    Args:
        search_model: the model that scores and learns; keep a reference to read its `health` afterwards.
        draft: scores all candidates cheaply, so that `search_model` need see only the best of them.
        stages: told how long features, prediction and learning take.
    """

    def __init__(
        self, search_model: SearchModel, *, draft: Draft | None = None, stages: Stages | None = None
    ) -> None:
        super().__init__()
        self.search_model = search_model
        self.draft = draft
        self.stages = stages or Stages()

    def load(self, path: str) -> None:
        """Replaces the pretrained model by the model folder `path`; there is no draft of the new one."""
        base, _ = load_model(Path(path))
        self.search_model = SearchModel(base, method=self.search_model.method, seed=self.search_model.seed)
        self.draft = None

    def save(self, path: str) -> None:
        """Refuses: what a search learned of one task is no model of a device."""
        raise NotImplementedError("Save the pretrained model with costhub.models.folder.save_model.")

    def predict(self, context: Any, candidates: Sequence[Any]) -> Any:
        """(n,) positive scores, higher for candidates expected to be faster."""
        task_id, draft = _task_id(context), self.draft
        with self.stages.during(PREDICTION):
            if draft is None:
                features = self._features(self.search_model, context, candidates)
                return self.search_model.predict(task_id, features)
            return draft.predict(
                task_id,
                self._features(draft.draft, context, candidates),
                lambda chosen: self._features(draft.full, context, [candidates[int(i)] for i in chosen]),
            )

    def raw(self, context: Any, candidates: Sequence[Any]) -> Scores:
        """(n,) scores as the task's model gives them; one without features gets the lowest of them."""
        with self.stages.during(PREDICTION):
            features = self._features(self.search_model, context, candidates)
            scores = self.search_model.raw(_task_id(context), features)
        known = scores[~np.isnan(scores)]
        return np.where(np.isnan(scores), known.min() if len(known) else 0.0, scores)

    def update(self, context: Any, candidates: Sequence[Any], results: Sequence[Any]) -> None:
        """Learns from the runner's results; a failed run is not a latency."""
        if not len(candidates):
            return
        task_id, latency_s = _task_id(context), np.array([latency_of(result) for result in results])
        with self.stages.during(LEARNING):
            for model in (self.search_model, *([self.draft.draft] if self.draft else [])):
                model.update(task_id, self._features(model, context, candidates), latency_s)

    def _features(self, model: SearchModel, context: Any, candidates: Sequence[Any]) -> Features:
        with self.stages.during(FEATURES):
            return find_spec(model.base.feature_spec).extract_candidates(context, candidates)


def _task_id(context: Any) -> str:
    """Workload and target: the same workload on two devices is two tasks."""
    return f"{tvm_ffi.structural_hash(context.mod)} {context.target}"
