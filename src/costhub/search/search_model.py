"""Provides SearchModel: a costhub model that learns, task by task, from what a search measures."""

from __future__ import annotations

import logging
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any, Protocol

import numpy as np

from costhub.dataset.features.spec import Features
from costhub.dataset.features.specs import find_spec
from costhub.dataset.programs import FloatArray, IntArray, Programs
from costhub.errors import ScoreError
from costhub.models.protocol import CostModel, Scores
from costhub.search.result import Health
from costhub.transfer.methods.method import Brief, Frozen, TransferMethod

log = logging.getLogger("costhub")

# exp stays far from overflow and from zero; a score so many spreads above or below the mean is an outlier either way.
MAX_SPREADS, MIN_SPREADS = 100.0, -20.0


class PositiveScores:
    """Maps raw scores to positive ones, in the same order.

    TVM clamps scores at zero and uses them as weights when it samples parents: negative or NaN scores silently turn
    its search into a random one (search_strategy/evolutionary_search.cc). It also keeps the best of
    several generations in one heap, scored by several calls, so the mapping must not depend on the batch:
    mean and spread are those of the first batch after `reset` and stay fixed until the next `reset`.

    Args:
        pressure: How strongly TVM prefers parents with high scores: a parent that is one spread ahead of another
            has exp(pressure) times as many children.

    Example:
        >>> scores = PositiveScores()
        >>> first = scores(np.array([-3.0, -1.0]))
        >>> bool((first > 0).all()), bool(scores(np.array([-1.0]))[0] == first[1])
        (True, True)
    """

    def __init__(self, pressure: float = 1.0) -> None:
        self._pressure = pressure
        self._mean: float | None = None
        self._spread = 1.0

    def reset(self) -> None:
        """Makes the next batch set mean and spread; call this when the model has changed."""
        self._mean = None

    def __call__(self, raw: Scores) -> Scores:
        """Positive scores for (n,) finite raw ones."""
        if self._mean is None and len(raw):
            self._mean = float(raw.mean())
            self._spread = float(raw.std()) or 1.0
        standard = (raw - (self._mean or 0.0)) / self._spread
        positive: Scores = np.exp(np.clip(self._pressure * standard, MIN_SPREADS, MAX_SPREADS))
        return positive


@dataclass
class _TaskState:
    """One task under search: its model and its measurements."""

    model: CostModel
    scores: PositiveScores
    features: list[FloatArray] = field(default_factory=list)
    latency_s: list[float] = field(default_factory=list)
    constant: bool = False
    """Whether the candidates of this round all scored the same; a round has several calls of `predict`."""


class SearchModel:
    """Scores candidates with a pretrained model, carried over to each task by its own measurements.

    Every update starts from the pretrained weights and uses all of the task's measurements, so that a few
    noisy ones are outweighed later rather than built upon.

    Args:
        base: The pretrained model; it is never changed.
        method: How the model learns from what is measured; by default `Brief`.
        seed: Seed of the learning.
        pressure: See `PositiveScores`.
    """

    def __init__(
        self, base: CostModel, *, method: TransferMethod | None = None, seed: int = 0, pressure: float = 1.0
    ) -> None:
        self.base = base
        self.method = method or Brief()
        self.seed = seed
        self._pressure = pressure
        self.health = Health()
        self._tasks: dict[str, _TaskState] = {}

    def predict(self, task_id: str, features: Features) -> Scores:
        """(n,) positive scores of candidates; one without features gets the lowest of the batch.

        Raises:
            ScoreError: Even the pretrained model gives NaN or infinity.
        """
        return self.positive(task_id, self.raw(task_id, features))

    def raw(self, task_id: str, features: Features) -> Scores:
        """(n,) scores as the task's model gives them, NaN for a candidate without features.

        Raises:
            ScoreError: Even the pretrained model gives NaN or infinity.
        """
        raw = np.full(len(features), np.nan)
        usable = np.array([f is not None for f in features], dtype=bool)
        raw[usable] = self._raw(self._task(task_id), [f for f in features if f is not None])
        return raw

    def positive(self, task_id: str, raw: Scores) -> Scores:
        """(n,) raw scores of the task's model as TVM needs them; NaN becomes the lowest of the batch."""
        task, usable = self._task(task_id), ~np.isnan(raw)
        self._note_constant(task, raw[usable])
        scores = np.full(len(raw), np.exp(MIN_SPREADS))
        scores[usable] = task.scores(raw[usable])
        if usable.any():
            scores[~usable] = scores[usable].min()
        return scores

    def model_of(self, task_id: str) -> CostModel:
        """The model that currently scores a task: the pretrained one, or what it has become."""
        return self._task(task_id).model

    def update(self, task_id: str, features: Features, latency_s: Scores) -> None:
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

    def _task(self, task_id: str) -> _TaskState:
        return self._tasks.setdefault(task_id, _TaskState(self.base, PositiveScores(self._pressure)))

    def _raw(self, task: _TaskState, features: list[FloatArray]) -> Scores:
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

    def _note_constant(self, task: _TaskState, raw: Scores) -> None:
        if len(raw) > 1 and np.ptp(raw) == 0 and not task.constant:
            task.constant = True
            self.health.constant_rounds += 1
            log.warning("All %d candidates score the same: this round of the search is random.", len(raw))

    def _give_up(self, task: _TaskState, what: str) -> None:
        """Returns to the pretrained model, whose scores have another scale."""
        log.warning("%s; the search continues with the pretrained model.", what)
        self.health.diverged_updates += 1
        task.model = self.base
        task.scores.reset()


class DraftScorer(Protocol):
    """Scores candidates with two models: a cheap one decides what the full one scores; both learn."""

    full: SearchModel
    draft: SearchModel

    def predict(self, task_id: str, drafts: Features, features_of: Callable[[IntArray], Features]) -> Scores:
        """(n,) positive scores; a candidate without features gets the lowest of the batch.

        Args:
            task_id: The workload and target of the candidates.
            drafts: Features of the n candidates for the cheap model.
            features_of: Computes, for the candidates at given positions, the features for the full model.
        """


@dataclass(frozen=True)
class ScheduleScorer:
    """A `costhub.collector.propose.sampler.Scorer` made from a pretrained model, which it does not change.

    Unlike `SearchModel`, whose scores are scaled for one search, it gives the model's own scores: they go
    into the rows of a collection, where rows of the same workload and model can be compared.
    """

    model: CostModel

    def score(self, context: Any, schedules: Sequence[Any]) -> Scores:
        """(n,) scores; higher is faster. A schedule without features gets the lowest of the batch.

        Args:
            context: The ``TuneContext`` of the workload and target.
            schedules: The n ``Schedule`` objects.

        Raises:
            ScoreError: The model gives NaN or infinity.
        """
        from tvm.s_tir import meta_schedule as ms

        # No feature depends on the arguments, and determining them for each schedule is slow.
        arguments = ms.arg_info.ArgInfo.from_entry_func(context.mod, remove_preproc=False)
        candidates = [ms.MeasureCandidate(schedule, arguments) for schedule in schedules]
        features = find_spec(self.model.feature_spec).extract_candidates(context, candidates)
        usable = [rows for rows in features if rows is not None]
        scores = np.zeros(len(features))
        if not usable:
            return scores
        raw = self.model.predict(np.concatenate(usable), np.array([len(rows) for rows in usable]))
        if not np.isfinite(raw).all():
            odd = int((~np.isfinite(raw)).sum())
            raise ScoreError(
                f"The {self.model.arch} model scores {odd} of {len(raw)} programs with NaN or infinity. It "
                "does not fit them; pull another model, or collect without one (--shares random=1)."
            )
        scores[:] = raw.min()
        scores[[rows is not None for rows in features]] = raw
        return scores
