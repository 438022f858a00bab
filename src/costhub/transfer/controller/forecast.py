"""Provides Forecast: how much faster the next batch may make a task, judged by how right the model was."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from costhub.models.compound.acquisition import expected_improvement
from costhub.transfer.controller.batch import Batch, best_after

_FEWEST = 3
"""Programs that a line and the spread about it take."""


@dataclass(frozen=True)
class Forecast:
    """The expected gain of another batch: what the model foresees, and what it does not.

    *Foreseen* is the expected improvement (Jones et al., 1998, equation 15) of the best program that waits.
    Its log latency is read off a line fitted to the scores and measured log latencies of the last batches;
    their spread about the line is its uncertainty. The scores were given before measuring, so they show how
    right the model is about the programs it picks, which it always overrates. Any scale of scores will do.

    *Unforeseen* is a record by chance. Among n + 1 batches that are alike, the last is the best with
    probability 1 / (n + 1) (Renyi, 1962); `record_gain` is what a record gains. Without this part the
    forecast is too sure of itself, as it knows nothing of what the model will still learn, and rules and
    allotments based on it do worse than those that ask no model (scripts/bench_controller.py).

    Example:
        >>> scores, waiting = np.array([-0.1, -0.2, -0.3, -0.4]), (-0.05, -0.45)
        >>> told = [Batch(np.exp(-scores), scores, waiting=score) for score in waiting]
        >>> [round(Forecast(record_gain=0.0)([batch]), 3) for batch in told]
        [0.05, 0.0]
        >>> Forecast(record_gain=0.1)(told[1:])
        0.05
    """

    window: int = 2
    """Batches that show how right the model is."""
    record_gain: float = 0.1
    """Share of the latency."""

    def __post_init__(self) -> None:
        if self.window < 1 or self.record_gain < 0.0:
            raise ValueError(
                "window must be at least 1 and record_gain not negative, "
                f"got {self.window} and {self.record_gain}."
            )

    def __call__(self, batches: Sequence[Batch]) -> float:
        """The expected fall of the log latency, about the share of the latency saved; 0 if no program waits.

        Args:
            batches: All that was measured of a task, in the order of measuring.
        """
        if batches[-1].waiting == -np.inf:
            return 0.0
        return self._foreseen(batches) + self.record_gain / (len(batches) + 1)

    def _foreseen(self, batches: Sequence[Batch]) -> float:
        last = batches[-self.window :]
        ran = np.concatenate([batch.is_ok for batch in last])
        if ran.sum() < _FEWEST:
            return 0.0
        scores = np.concatenate([batch.scores for batch in last])[ran]
        speed = -np.log(np.concatenate([batch.latency_s for batch in last])[ran])
        variance = float(scores.var())
        # Never a falling line, and a level one where all scored the same.
        covariance = float(np.mean((scores - scores.mean()) * speed))
        slope = max(0.0, covariance / variance) if variance > 0.0 else 0.0
        spread = float(np.std(speed - slope * scores, ddof=1))
        mean = speed.mean() + slope * (batches[-1].waiting - scores.mean())
        best = -float(np.log(best_after(batches)[-1]))
        gain = expected_improvement(np.array([mean]), np.array([spread]), best)
        return float(ran.mean() * gain[0])
