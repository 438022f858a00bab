"""Pruner: momentum transfer, and a cheap model that drafts what the full model verifies.

Qiao et al., *Pruner: A Draft-then-Verify Exploration Mechanism*, ASPLOS 2025.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

from costhub.dataset.features.spec import Features
from costhub.dataset.programs import IntArray, Programs
from costhub.models.networks.gradient import StepRule
from costhub.models.networks.neural import NeuralModel
from costhub.models.options import check_ranges
from costhub.models.protocol import CostModel, Scores
from costhub.search.search_model import SearchModel
from costhub.transfer.methods.method import adapt_sub_models


@dataclass(frozen=True)
class Momentum:
    """Fine-tunes networks, and moves a slow copy a little towards them after every step.

    The slow copy, which starts as the source, is the result: Pruner's momentum (MoA-Pruner)
    keeps 0.99 of it in each step. Trees continue from the source's trees.
    """

    name = "momentum"
    keep: float = 0.99
    """Weight of the slow copy when a step averages it with the networks."""
    epochs: int = 30
    """Passes over the programs of the target."""
    learning_rate: float = 1e-3
    """Peak learning rate; it rises over the first tenth of the steps, and then falls as a cosine."""

    def __post_init__(self) -> None:
        check_ranges(
            {
                "keep": (self.keep, 0.0, 1.0),
                "epochs": (self.epochs, 1, 10_000),
                "learning_rate": (self.learning_rate, 0.0, 1.0),
            }
        )

    def adapt(
        self, source: CostModel, target: Programs, *, seed: int, source_programs: Programs | None = None
    ) -> CostModel:
        """See `TransferMethod`."""
        return adapt_sub_models(source, target, seed=seed, network=self.tune)

    def tune(self, part: NeuralModel[Any], own: Programs, seed: int) -> None:
        """Adapts one network; the programs are in the form it reads."""
        part.fine_tune(own, epochs=self.epochs, learning_rate=self.learning_rate, seed=seed, rule=SlowCopy(self.keep))


@dataclass
class SlowCopy(StepRule):
    """Keeps a slow copy of the weights, which replaces them at the end."""

    keep: float
    _slow: dict[str, Tensor] = field(default_factory=dict)

    def begin(self, network: nn.Module) -> None:
        """Starts the slow copy as a copy of the network."""
        self._slow = {name: weight.detach().clone() for name, weight in network.named_parameters()}

    def after_step(self, network: nn.Module, rate: float) -> None:
        """Moves the slow copy towards the network."""
        for name, weight in network.named_parameters():
            self._slow[name].lerp_(weight.detach(), 1.0 - self.keep)

    def end(self, network: nn.Module) -> None:
        """Makes the slow copy the result."""
        with torch.no_grad():
            for name, weight in network.named_parameters():
                weight.copy_(self._slow[name])


MIN_VERIFIED = 16
"""The full model scores at least this many candidates of a batch."""
_FIT_STEP = 16


@dataclass(frozen=True)
class _ScoreLine:
    """A line that predicts the full model's score from the draft's."""

    slope: float
    intercept: float
    models: tuple[CostModel, CostModel]
    """The draft and the full model it was fitted to; not valid for others."""

    @classmethod
    def fit(cls, guess: Scores, raw: Scores, weight: Scores, models: tuple[CostModel, CostModel]) -> _ScoreLine:
        """Weighted least squares over the candidates scored by both; the line never falls."""
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


class DraftModel:
    """Scores candidates with two models: all with a cheap one, and the best of them with the full one as well.

    Lowering a candidate takes longer than the rest of a prediction; a model that reads only the
    trace (`trace_decisions@1`) does not need it. In the paper the draft is a formula; here it is a model like
    any other.

    All scores of a task are comparable, regardless of the model and call they come from (see
    docs/adr/0002): a candidate that the full model has not seen gets the score that the full model is
    expected to give it, using a line fitted on the first batch after either model has changed. To fit the line,
    the full model also scores some of the other candidates, evenly spaced over the draft's ranks.

    Args:
        full: The model whose scores the search asks for.
        draft: The cheap model; both learn from the measurements.
        share: Share of a batch's candidates that the full model scores, in (0, 1].
    """

    def __init__(self, full: SearchModel, draft: SearchModel, *, share: float = 0.125) -> None:
        if not 0.0 < share <= 1.0:
            raise ValueError(f"share must be above 0 and at most 1, got {share}.")
        self.full = full
        self.draft = draft
        self.share = share
        self._lines: dict[str, _ScoreLine] = {}

    def predict(self, task_id: str, drafts: Features, features_of: Callable[[IntArray], Features]) -> Scores:
        """See `DraftScorer`.

        Raises:
            ScoreError: Even a pretrained model returns NaN or infinity.
        """
        guess = self.draft.raw(task_id, drafts)
        line = self._line(task_id)
        chosen, weight = self._choose(guess, spread=line is None)
        raw = np.full(len(guess), np.nan)
        raw[chosen] = self.full.raw(task_id, features_of(chosen))
        line = self._line(task_id)  # a model that returned NaN has been replaced meanwhile
        if line is None:
            line = self._lines[task_id] = _ScoreLine.fit(guess[chosen], raw[chosen], weight, self._models(task_id))
        unseen = np.ones(len(guess), dtype=bool)
        unseen[chosen] = False
        raw[unseen] = line(guess[unseen])
        return self.full.positive(task_id, raw)

    def _choose(self, guess: Scores, *, spread: bool) -> tuple[IntArray, Scores]:
        """Positions for the full model to score, and how many candidates each stands for."""
        best_first = np.argsort(-guess, kind="stable")  # NaN comes last
        count = max(MIN_VERIFIED, math.ceil(self.share * len(guess)))
        chosen, others = best_first[:count], best_first[count::_FIT_STEP] if spread else best_first[:0]
        weight = np.repeat([1.0, float(_FIT_STEP)], [len(chosen), len(others)])
        return np.concatenate([chosen, others]), weight

    def _line(self, task_id: str) -> _ScoreLine | None:
        line = self._lines.get(task_id)
        now = self._models(task_id)
        return line if line and line.models[0] is now[0] and line.models[1] is now[1] else None

    def _models(self, task_id: str) -> tuple[CostModel, CostModel]:
        return self.draft.model_of(task_id), self.full.model_of(task_id)
