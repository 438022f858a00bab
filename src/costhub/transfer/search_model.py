"""Provides SearchModel: a costhub model that learns, task by task, from what a search measures."""

from __future__ import annotations

import logging
from dataclasses import dataclass, field

import numpy as np
import numpy.typing as npt

from costhub.dataset.programs import FloatArray, Programs
from costhub.errors import ScoreError
from costhub.models.protocol import CostModel
from costhub.transfer.methods.brief import Brief
from costhub.transfer.methods.frozen import Frozen
from costhub.transfer.methods.method import TransferMethod
from costhub.transfer.positive import MOST_SPREADS, PositiveScores, Scores

log = logging.getLogger("costhub")


@dataclass
class Health:
    """What a search should know about the scores it was given; shown in its report."""

    constant_rounds: int = 0
    """Rounds in which all candidates scored the same: the search was a random one there."""
    diverged_updates: int = 0
    """Updates whose model gave NaN or infinity and was thrown away."""
    updates: int = 0


@dataclass
class _Task:
    """What is known of one task under search."""

    model: CostModel
    features: list[FloatArray] = field(default_factory=list)
    latency_s: list[float] = field(default_factory=list)
    scores: PositiveScores = field(default_factory=PositiveScores)
    constant: bool = False
    """Whether candidates of this round all scored the same; a round has several calls of `predict`."""


class SearchModel:
    """Scores candidates with a pretrained model, carried over to each task by its own measurements.

    Every update starts from the pretrained weights and uses all of the task's measurements, so that a few
    noisy ones are outweighed later instead of being built upon.

    Args:
        base: the pretrained model; it is never changed.
        method: how the model learns from what is measured; by default `Brief`.
        seed: of the learning.
    """

    def __init__(self, base: CostModel, *, method: TransferMethod | None = None, seed: int = 0) -> None:
        self.base = base
        self.method = method or Brief()
        self.seed = seed
        self.health = Health()
        self._tasks: dict[str, _Task] = {}

    def predict(self, task_id: str, features: list[FloatArray | None]) -> Scores:
        """(n,) positive scores of candidates; one without features gets the lowest of the batch.

        Raises:
            ScoreError: even the pretrained model gives NaN or infinity.
        """
        return self.positive(task_id, self.raw(task_id, features))

    def raw(self, task_id: str, features: list[FloatArray | None]) -> Scores:
        """(n,) scores as the task's model gives them, NaN for a candidate without features.

        Raises:
            ScoreError: even the pretrained model gives NaN or infinity.
        """
        raw = np.full(len(features), np.nan)
        known = np.array([f is not None for f in features], dtype=bool)
        raw[known] = self._raw(self._task(task_id), [f for f in features if f is not None])
        return raw

    def positive(self, task_id: str, raw: Scores) -> Scores:
        """(n,) raw scores of the task's model as TVM needs them; NaN becomes the lowest of the batch."""
        task, known = self._task(task_id), ~np.isnan(raw)
        self._note_constant(task, raw[known])
        scores = np.full(len(raw), np.exp(-MOST_SPREADS))
        scores[known] = task.scores(raw[known])
        if known.any():
            scores[~known] = scores[known].min()
        return scores

    def model_of(self, task_id: str) -> CostModel:
        """The model that scores a task now: the pretrained one, or what became of it."""
        return self._task(task_id).model

    def update(
        self, task_id: str, features: list[FloatArray | None], latency_s: npt.NDArray[np.float64]
    ) -> None:
        """Learns from measured candidates; a failed one has an infinite latency and is left out."""
        task = self._task(task_id)
        task.constant = False
        for rows, latency in zip(features, latency_s, strict=True):
            if rows is not None and np.isfinite(latency):
                task.features.append(rows)
                task.latency_s.append(float(latency))
        if isinstance(self.method, Frozen) or len(task.latency_s) < 2:
            return
        programs = Programs.from_list(
            task.features, np.zeros(len(task.features), np.int64), (task_id,), np.array(task.latency_s)
        )
        adapted = self.method.adapt(self.base, programs, seed=self.seed)
        self.health.updates += 1
        if np.isfinite(adapted.predict(programs.rows, programs.counts)).all():
            task.model = adapted
            task.scores.reset()
        else:
            self._give_up(task, "Fine-tuning diverged (NaN or infinity)")

    def _task(self, task_id: str) -> _Task:
        return self._tasks.setdefault(task_id, _Task(self.base))

    def _raw(self, task: _Task, features: list[FloatArray]) -> Scores:
        if not features:
            return np.zeros(0)
        counts = np.array([len(f) for f in features], dtype=np.int64)
        raw = task.model.predict(np.concatenate(features), counts)
        if not np.isfinite(raw).all():
            if task.model is self.base:
                odd = int((~np.isfinite(raw)).sum())
                raise ScoreError(
                    f"The {self.base.arch} model scores {odd} of {len(raw)} candidates with NaN or infinity. "
                    "It does not fit these programs; pull another model or train one on this device."
                )
            self._give_up(task, "The fine-tuned model gives NaN or infinity")
            return self._raw(task, features)
        return raw

    def _note_constant(self, task: _Task, raw: Scores) -> None:
        if len(raw) > 1 and np.ptp(raw) == 0 and not task.constant:
            task.constant = True
            self.health.constant_rounds += 1
            log.warning(
                "All %d candidates score the same: this round of the search is a random one.", len(raw)
            )

    def _give_up(self, task: _Task, what: str) -> None:
        """Returns to the pretrained model, whose scores have another scale."""
        log.warning("%s; the search goes on with the pretrained model.", what)
        self.health.diverged_updates += 1
        task.model = self.base
        task.scores.reset()
