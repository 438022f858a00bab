"""Provides ScheduleScorer: a costhub model that tells a collection which programs are worth measuring."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from costhub.dataset.features.spec import find_spec
from costhub.errors import ScoreError
from costhub.models.protocol import CostModel


@dataclass(frozen=True)
class ScheduleScorer:
    """A `costhub.collector.sampler.Scorer` made of a pretrained model, which it leaves as it is.

    Unlike `SearchModel`, whose scores are scaled for one search, it gives the model's own scores: they go
    into the rows of a collection, where rows of the same workload and model can be compared.
    """

    model: CostModel

    def score(self, context: Any, schedules: Sequence[Any]) -> npt.NDArray[np.float64]:
        """(n,) scores, higher is faster; a schedule without features gets the lowest of the batch.

        Args:
            context: the ``TuneContext`` of the workload and target.
            schedules: n ``Schedule`` objects.

        Raises:
            ScoreError: the model gives NaN or infinity.
        """
        from tvm.s_tir import meta_schedule as ms

        # The arguments are of no consequence to any features, and costly to find for each schedule.
        arguments = ms.arg_info.ArgInfo.from_entry_func(context.mod, remove_preproc=False)
        candidates = [ms.MeasureCandidate(schedule, arguments) for schedule in schedules]
        features = find_spec(self.model.feature_spec).extract_candidates(context, candidates)
        known = [rows for rows in features if rows is not None]
        scores = np.zeros(len(features))
        if not known:
            return scores
        raw = self.model.predict(np.concatenate(known), np.array([len(rows) for rows in known]))
        if not np.isfinite(raw).all():
            odd = int((~np.isfinite(raw)).sum())
            raise ScoreError(
                f"The {self.model.arch} model scores {odd} of {len(raw)} programs with NaN or infinity. It "
                "does not fit them; pull another model, or collect without one (--shares random=1)."
            )
        scores[:] = raw.min()
        scores[[rows is not None for rows in features]] = raw
        return scores
