"""Provides a costhub model, builder and runner in the form that TVM's MetaSchedule calls."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import tvm_ffi
from tvm.ir.utils import derived_object
from tvm.s_tir.meta_schedule.builder import BuilderResult, PyBuilder
from tvm.s_tir.meta_schedule.cost_model import PyCostModel
from tvm.s_tir.meta_schedule.runner import PyRunner, PyRunnerFuture, RunnerResult

from costhub import errors
from costhub.collector.build.builder import Builder, BuildResult
from costhub.collector.measurer import BuiltProgram, Measurer
from costhub.collector.run.evaluator import Arguments
from costhub.dataset.features.spec import Features
from costhub.dataset.features.specs import find_spec
from costhub.dataset.programs import FloatArray
from costhub.dataset.workload import module_to_json
from costhub.models.folder import load_model
from costhub.models.protocol import Scores
from costhub.search.result import FEATURES, LEARNING, PREDICTION, StageTimer
from costhub.search.search_model import DraftScorer, SearchModel
from costhub.search.strategies.search_space import latency_of

MOST_REMEMBERED = 1024
"""Programs whose features a model keeps, at most some kilobytes each: more than a strategy proposes for a batch."""
ERROR_CLASSES = (
    KeyboardInterrupt,
    errors.DataError,
    errors.MeasureError,
    errors.ModelError,
    errors.ScoreError,
    errors.WorkloadError,
)


def register_errors() -> None:
    """Teaches TVM's foreign-function interface our errors, and ^C.

    TVM carries an exception through C++ as the name of its class and its message. A class that it does not
    know comes out as a RuntimeError: ^C during a search would look like a failure of the search.

    Safe to call again.
    """
    for kind in ERROR_CLASSES:
        tvm_ffi.register_error(kind)


@derived_object
class TvmBuilder(PyBuilder):  # type: ignore[misc]  # TVM's base is untyped
    """Builds in long-lived processes; see `costhub.collector.build.builder`."""

    def __init__(self, builder: Builder) -> None:
        super().__init__()
        self.builder = builder

    def build(self, build_inputs: list[Any]) -> list[Any]:
        """One result per input; a failed build carries its error text."""
        built = self.builder.build([module_to_json(i.mod) for i in build_inputs])
        return [BuilderResult(b.artifact, b.error) for b in built]


@derived_object
class _FinishedFuture(PyRunnerFuture):  # type: ignore[misc]
    """A result that already exists."""

    def __init__(self, outcome: Any) -> None:
        super().__init__()
        self.outcome = outcome

    def done(self) -> bool:
        return True

    def result(self) -> Any:
        return self.outcome


@derived_object
class TvmRunner(PyRunner):  # type: ignore[misc]
    """Measures programs while TVM waits, so that nothing computes during a measurement."""

    def __init__(self, measurer: Measurer) -> None:
        super().__init__()
        self.measurer = measurer

    def run(self, runner_inputs: list[Any]) -> list[Any]:
        """One finished future per input."""
        programs = [
            BuiltProgram(BuildResult("ok", str(each.artifact_path), 0.0, None), program_arguments(each.args_info))
            for each in runner_inputs
        ]
        results = dict(self.measurer.measure(programs))
        return [
            _FinishedFuture(RunnerResult(list(results[index].run_s) or None, results[index].error))
            for index in range(len(programs))
        ]


def program_arguments(args_info: Sequence[Any]) -> Arguments:
    """(dtype, shape) of each argument of a program."""
    return tuple((str(info.dtype), tuple(int(extent) for extent in info.shape)) for info in args_info)


@derived_object
class TvmCostModel(PyCostModel):  # type: ignore[misc]  # TVM's base is untyped
    """A costhub model at TVM's seam.

    Args:
        search_model: The model that scores and learns; keep a reference to read its `health` afterwards.
        draft: Scores all candidates cheaply, so that `search_model` needs to see only the best of them.
        stages: Counts the seconds of features, prediction and learning.
        remembers: Whether features are kept, since a search shows the model a program several times. False where each
            is shown once.
    """

    def __init__(
        self,
        search_model: SearchModel,
        *,
        draft: DraftScorer | None = None,
        stages: StageTimer | None = None,
        remembers: bool = True,
    ) -> None:
        super().__init__()
        self.search_model = search_model
        self.draft = draft
        self.stages = stages or StageTimer()
        self._remembers = remembers
        self._rows: dict[tuple[str, str, int], FloatArray | None] = {}

    def load(self, path: str) -> None:
        """Replaces the pretrained model with the one in the folder `path`, without a draft."""
        base, _ = load_model(Path(path))
        self.search_model = SearchModel(base, method=self.search_model.method, seed=self.search_model.seed)
        self.draft = None

    def save(self, path: str) -> None:
        """Refuses: what a search learned about one task is not a model of a device."""
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
        lowest = np.nanmin(scores) if not np.isnan(scores).all() else 0.0
        return np.where(np.isnan(scores), lowest, scores)

    def update(self, context: Any, candidates: Sequence[Any], results: Sequence[Any]) -> None:
        """Learns from the runner's results; a failed run is not a latency."""
        if not len(candidates):
            return
        task_id, latency_s = _task_id(context), np.array([latency_of(result) for result in results])
        with self.stages.during(LEARNING):
            for model in (self.search_model, *([self.draft.draft] if self.draft else [])):
                model.update(task_id, self._features(model, context, candidates), latency_s)

    def _features(self, model: SearchModel, context: Any, candidates: Sequence[Any]) -> Features:
        spec = find_spec(model.base.feature_spec)
        with self.stages.during(FEATURES):
            if not (self._remembers and spec.of_module):
                return spec.extract_candidates(context, candidates)
            task_id = _task_id(context)
            keys = [(spec.name, task_id, int(tvm_ffi.structural_hash(each.sch.mod))) for each in candidates]
            rows = {key: self._rows[key] for key in keys if key in self._rows}
            new = {key: each for key, each in zip(keys, candidates, strict=True) if key not in rows}
            if new:
                rows.update(zip(new, spec.extract_candidates(context, list(new.values())), strict=True))
            self._remember(rows)
            return [rows[key] for key in keys]

    def _remember(self, rows: Mapping[tuple[str, str, int], FloatArray | None]) -> None:
        """Keeps features, and forgets those that were used longest ago."""
        for key, own in rows.items():
            self._rows.pop(key, None)
            self._rows[key] = own
        for key in list(self._rows)[:-MOST_REMEMBERED]:
            del self._rows[key]


def _task_id(context: Any) -> str:
    """Workload and target: the same workload on two devices is two tasks."""
    return f"{tvm_ffi.structural_hash(context.mod)} {context.target}"
