"""Provides Draft: a cheap model ranks all candidates, so that the full one need see only the best of them."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from costhub.dataset.features.spec import Features
from costhub.dataset.programs import IntArray
from costhub.models.protocol import CostModel
from costhub.transfer.positive import Scores
from costhub.transfer.search_model import SearchModel

LEAST = 16
"""Candidates of a batch that the full model scores at the least."""
_STEP = 16


@dataclass(frozen=True)
class _Line:
    """A line that predicts the full model's score from the draft's."""

    slope: float
    intercept: float
    models: tuple[CostModel, CostModel]
    """The draft and the full model that it was fitted to; it does not hold for others."""

    @classmethod
    def fit(cls, guess: Scores, raw: Scores, weight: Scores, models: tuple[CostModel, CostModel]) -> _Line:
        """Weighted least squares over the candidates that both have scored; never a falling line."""
        known = np.isfinite(guess) & np.isfinite(raw)
        guess, raw, weight = guess[known], raw[known], weight[known]
        if not len(raw):
            return cls(0.0, 0.0, models)
        x, y = (float(np.average(values, weights=weight)) for values in (guess, raw))
        variance = float(np.average((guess - x) ** 2, weights=weight))
        covariance = float(np.average((guess - x) * (raw - y), weights=weight))
        slope = max(0.0, covariance / variance) if variance > 0 else 0.0
        return cls(slope, y - slope * x, models)

    def __call__(self, guess: Scores) -> Scores:
        return self.intercept + self.slope * guess


class Draft:
    """Scores candidates by two models: all by a cheap one, the best of them by the full one as well.

    Lowering a candidate takes longer than everything else that a prediction needs; a model that reads the
    trace alone (`trace_decisions@1`) does without it. After *Pruner: A Draft-then-Verify Exploration
    Mechanism* (Qiao et al., ASPLOS 2025), whose draft is a formula; here it is a model like any other.

    All scores of a task can be compared, whichever model and whichever call they come from (see
    docs/adr/0002): a candidate that the full model has not seen gets the score that the full model is
    expected to give it, by a line fitted on the first batch after either model has changed. To fit the line,
    the full model also scores some of the other candidates, evenly spaced over the draft's ranks.

    Args:
        full: The model whose scores are wanted.
        draft: The cheap model; both learn from what is measured.
        share: Share of a batch's candidates that the full model scores, in (0, 1].
    """

    def __init__(self, full: SearchModel, draft: SearchModel, *, share: float = 0.125) -> None:
        if not 0.0 < share <= 1.0:
            raise ValueError(f"share must be above 0 and at most 1, got {share}.")
        self.full = full
        self.draft = draft
        self.share = share
        self._lines: dict[str, _Line] = {}

    def predict(self, task_id: str, drafts: Features, features_of: Callable[[IntArray], Features]) -> Scores:
        """(n,) positive scores; a candidate without features gets the lowest of the batch.

        Args:
            task_id: The workload and target of the candidates.
            drafts: Features of the n candidates for the draft.
            features_of: Computes the features for the full model of the candidates at given positions.

        Raises:
            ScoreError: Even a pretrained model gives NaN or infinity.
        """
        guess = self.draft.raw(task_id, drafts)
        line = self._line(task_id)
        chosen, weight = self._choose(guess, spread=line is None)
        raw = np.full(len(guess), np.nan)
        raw[chosen] = self.full.raw(task_id, features_of(chosen))
        line = self._line(task_id)  # a model that gave NaN has changed meanwhile
        if line is None:
            line = self._lines[task_id] = _Line.fit(guess[chosen], raw[chosen], weight, self._models(task_id))
        unseen = np.ones(len(guess), dtype=bool)
        unseen[chosen] = False
        raw[unseen] = line(guess[unseen])
        return self.full.positive(task_id, raw)

    def _choose(self, guess: Scores, *, spread: bool) -> tuple[IntArray, Scores]:
        """Positions for the full model to score, and how many candidates each stands for."""
        best_first = np.argsort(-guess, kind="stable")  # NaN comes last
        count = max(LEAST, math.ceil(self.share * len(guess)))
        chosen, others = best_first[:count], best_first[count::_STEP] if spread else best_first[:0]
        weight = np.repeat([1.0, float(_STEP)], [len(chosen), len(others)])
        return np.concatenate([chosen, others]), weight

    def _line(self, task_id: str) -> _Line | None:
        line = self._lines.get(task_id)
        now = self._models(task_id)
        return line if line and line.models[0] is now[0] and line.models[1] is now[1] else None

    def _models(self, task_id: str) -> tuple[CostModel, CostModel]:
        return self.draft.model_of(task_id), self.full.model_of(task_id)
