"""Each property passes on a sound model and fails on one that breaks it, and the failure is a sentence."""

from __future__ import annotations

import copy
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import pytest

from costhub.dataset.programs import FloatArray, IntArray, Programs
from costhub.errors import ModelError
from costhub.models.protocol import Scores
from costhub.testing import Subject, properties

Values = npt.NDArray[np.float64]


class Linear:
    """Ridge regression of throughput on the sum of a program's rows, within groups; sound in all respects."""

    arch = "linear"
    feature_spec = "demo@1"

    def __init__(self) -> None:
        self.weight: Values | None = None

    def fit(self, train: Programs, valid: Programs | None, *, seed: int, progress: bool = True) -> None:
        columns = train.rows.shape[1]
        self.gram, self.moment = np.eye(columns), np.zeros(columns)
        self.weight = np.zeros(columns)
        self.learn(train)

    def update(self, programs: Programs, *, seed: int) -> None:
        self.check(programs.rows)
        if programs.informative().any():
            self.learn(programs)

    def learn(self, programs: Programs) -> None:
        features = centred(self.summed(programs.rows, programs.counts), programs.group)
        target = centred(self.target(programs)[:, None], programs.group)[:, 0]
        self.gram += features.T @ features
        self.moment += features.T @ target
        self.weight = np.linalg.solve(self.gram, self.moment)

    def target(self, programs: Programs) -> Values:
        return programs.throughput()

    def summed(self, rows: FloatArray, counts: IntArray) -> Values:
        total = np.zeros((len(counts), rows.shape[1]))
        np.add.at(total, np.repeat(np.arange(len(counts)), counts), rows)
        return total

    def predict(self, rows: FloatArray, counts: IntArray) -> Scores:
        scores: Scores = self.summed(rows, counts) @ self.check(rows)
        return scores

    def config(self) -> dict[str, Any]:
        return {"columns": 0 if self.weight is None else len(self.weight)}

    def save_weights(self, folder: Path) -> None:
        self.check(np.zeros((0, 0), np.float32))
        np.savez(folder / "model.npz", gram=self.gram, moment=self.moment)

    def load_weights(self, folder: Path, config: Mapping[str, Any]) -> None:
        with np.load(folder / "model.npz") as file:
            self.gram, self.moment = file["gram"], file["moment"]
        self.weight = np.linalg.solve(self.gram, self.moment)

    def check(self, rows: FloatArray) -> Values:
        if self.weight is None:
            raise ModelError("The model has no weights yet.")
        if len(rows) and rows.shape[1] != len(self.weight):
            raise ModelError("The rows have another width.")
        return self.weight


def centred(values: Values, group: IntArray) -> Values:
    sums = np.zeros((int(group.max()) + 1, values.shape[1]))
    np.add.at(sums, group, values)
    result: Values = values - (sums / np.bincount(group)[:, None])[group]
    return result


class Negated(Linear):
    def predict(self, rows: FloatArray, counts: IntArray) -> Scores:
        return -super().predict(rows, counts)


class ScoresUnfitted(Linear):
    def check(self, rows: FloatArray) -> Values:
        return np.zeros(6) if self.weight is None else super().check(rows)


class TakesAnyWidth(Linear):
    def predict(self, rows: FloatArray, counts: IntArray) -> Scores:
        width = len(self.check(rows[:0]))
        fitting = np.zeros((len(rows), width), np.float32)
        fitting[:, : rows.shape[1]] = rows[:, :width]
        return super().predict(fitting, counts)


class NeedsAProgram(Linear):
    def predict(self, rows: FloatArray, counts: IntArray) -> Scores:
        self.check(rows)
        assert counts.max() >= 0
        return super().predict(rows, counts)


class ReducesEmptySegments(Linear):
    """np.add.reduceat gives an empty segment the row after it."""

    def summed(self, rows: FloatArray, counts: IntArray) -> Values:
        if not len(rows):
            return super().summed(rows, counts)
        starts = np.minimum(np.cumsum(counts) - counts, len(rows) - 1)
        total: Values = np.add.reduceat(rows.astype(np.float64), starts, axis=0)
        return total


class DividesBySpreadOfRows(Linear):
    def predict(self, rows: FloatArray, counts: IntArray) -> Scores:
        scores = super().predict(rows, counts)
        ends = np.cumsum(counts)
        for i in np.flatnonzero(counts):
            own = rows[ends[i] - counts[i] : ends[i], 0]
            scores[i] += 0.0 / (len(own) - 1.0) if len(own) > 1 else np.nan
        return scores


class SquaresInSinglePrecision(Linear):
    def summed(self, rows: FloatArray, counts: IntArray) -> Values:
        with np.errstate(over="ignore", invalid="ignore"):
            return super().summed(rows + (rows * rows - rows * rows), counts)


class StandardisesTheBatch(Linear):
    def predict(self, rows: FloatArray, counts: IntArray) -> Scores:
        scores = super().predict(rows, counts)
        return scores - scores.mean() if len(scores) else scores


class CountsPlaces(Linear):
    def predict(self, rows: FloatArray, counts: IntArray) -> Scores:
        return super().predict(rows, counts) + 0.01 * np.arange(len(counts))


class ScalesInPlace(Linear):
    def predict(self, rows: FloatArray, counts: IntArray) -> Scores:
        scores = super().predict(rows, counts)
        rows *= 0.5
        return scores


class IgnoresTheSeed(Linear):
    def learn(self, programs: Programs) -> None:
        self.moment = self.moment + np.random.default_rng().normal(size=len(self.moment))
        super().learn(programs)


class LearnsSeconds(Linear):
    def target(self, programs: Programs) -> Values:
        return -1e3 * np.where(programs.is_ok, programs.latency_s, 1.0)


class LearnsInfinity(Linear):
    def target(self, programs: Programs) -> Values:
        fastest = np.full(len(programs.workload_ids), np.inf)
        np.minimum.at(fastest, programs.workload, programs.latency_s)
        with np.errstate(invalid="ignore"):
            return -np.log(programs.latency_s / fastest[programs.workload])

    def learn(self, programs: Programs) -> None:
        with np.errstate(invalid="ignore"):
            super().learn(programs)


class SavesHalf(Linear):
    def save_weights(self, folder: Path) -> None:
        super().save_weights(folder)
        np.savez(folder / "model.npz", gram=self.gram.round(1), moment=self.moment.round(1))


class SharesItsCopies(Linear):
    def __deepcopy__(self, memo: dict[int, Any]) -> SharesItsCopies:
        return self


class DecaysOnUpdate(Linear):
    def update(self, programs: Programs, *, seed: int) -> None:
        super().update(programs, seed=seed)
        self.weight = 0.9 * self.check(programs.rows)


class NeverUpdates(Linear):
    def update(self, programs: Programs, *, seed: int) -> None:
        self.check(programs.rows)


class HugeScores(Linear):
    def predict(self, rows: FloatArray, counts: IntArray) -> Scores:
        return 1e307 * np.tanh(super().predict(rows, counts))


BROKEN: dict[str, type[Linear]] = {
    "higher_is_faster": Negated,
    "without_weights": ScoresUnfitted,
    "other_width": TakesAnyWidth,
    "no_programs": NeedsAProgram,
    "no_rows": ReducesEmptySegments,
    "one_row": DividesBySpreadOfRows,
    "extreme_rows": SquaresInSinglePrecision,
    "batch_independence": StandardisesTheBatch,
    "permutation": CountsPlaces,
    "only_read": ScalesInPlace,
    "determinism": IgnoresTheSeed,
    "monotone_relabelling": LearnsSeconds,
    "failed_programs": LearnsInfinity,
    "save_and_load": SavesHalf,
    "independent_copies": SharesItsCopies,
    "update_with_nothing": DecaysOnUpdate,
    "update_learns": NeverUpdates,
    "positive_at_the_seam": HugeScores,
}
BY_NAME = {check.__name__: check for check in properties()}


def test_every_property_has_a_model_that_breaks_it() -> None:
    assert set(BROKEN) == set(BY_NAME)


@pytest.mark.parametrize("name", BY_NAME)
def test_a_sound_model_keeps_the_property(name: str) -> None:
    BY_NAME[name](Subject(Linear))


@pytest.mark.parametrize(("name", "kind"), BROKEN.items())
def test_a_model_that_breaks_the_property_is_told_so(name: str, kind: type[Linear]) -> None:
    with pytest.raises(AssertionError) as error:
        BY_NAME[name](Subject(kind))

    said = str(error.value)
    assert said.startswith(f"The model {kind.__name__} (linear, demo@1) breaks the property '")
    assert said.endswith(".")
    assert "\n" not in said


def test_what_a_model_raises_becomes_a_sentence() -> None:
    class Crashes(Linear):
        def predict(self, rows: FloatArray, counts: IntArray) -> Scores:
            raise IndexError("index 7 is out of bounds")

    with pytest.raises(
        AssertionError, match=r"programs have no scores.*: IndexError: index 7 is out of bounds"
    ):
        BY_NAME["no_programs"](Subject(Crashes))


def test_the_suite_leaves_the_fitted_model_as_it_is() -> None:
    subject = Subject(Linear)
    before = copy.deepcopy(subject.fitted.predict(subject.unseen.rows, subject.unseen.counts))

    for check in properties():
        check(subject)

    np.testing.assert_array_equal(subject.fitted.predict(subject.unseen.rows, subject.unseen.counts), before)
