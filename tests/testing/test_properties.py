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
from costhub.models.protocol import CostModel, Scores
from costhub.models.trees.gbt import Gbt, GbtOptions
from costhub.testing import Subject, properties
from costhub.testing.made_programs import made_programs
from costhub.testing.properties import agreement, checked_scores, require, require_equal, require_model_error


def make(spec: str = "demo@1") -> Gbt:
    return Gbt(feature_spec=spec, options=GbtOptions(rounds=3))


def test_programs_are_made_for_the_spec_of_the_model() -> None:
    assert Subject(lambda: make("relation@1")).width == 123
    assert Subject(make, columns=4).width == 4
    assert Subject(make).name == "The model Gbt (gbt, demo@1)"


def test_programs_to_score_are_of_other_workloads() -> None:
    subject = Subject(make, programs=made_programs("demo@1", workloads=6))
    fitted, scored = ({p.workload_ids[number] for number in p.workload} for p in (subject.train, subject.unseen))

    assert (len(fitted), len(scored), fitted & scored) == (4, 2, set())


def test_programs_of_one_workload_are_refused() -> None:
    with pytest.raises(ValueError, match="two workloads or more are needed, got 1"):
        Subject(make, programs=made_programs("demo@1", workloads=1))


def test_the_model_is_fitted_once() -> None:
    subject = Subject(make)

    assert subject.fitted is subject.fitted
    assert subject.fit(subject.train) is not subject.fitted
    unseen = subject.unseen
    np.testing.assert_array_equal(
        subject.fit(subject.train).predict(unseen.rows, unseen.counts),
        subject.fitted.predict(unseen.rows, unseen.counts),
    )


class Fixed(Gbt):
    """Returns what it is told to."""

    def __init__(self, scores: object) -> None:
        super().__init__(feature_spec="demo@1", options=GbtOptions(rounds=1))
        self.scores = scores

    def predict(self, rows: object, counts: object) -> object:  # type: ignore[override]
        return self.scores


def test_a_condition_that_does_not_hold_is_said() -> None:
    require(True, "never said")
    with pytest.raises(AssertionError, match=r"^said$"):
        require(np.False_, "said")


def test_scores_may_differ_by_rounding_of_their_spread_and_size() -> None:
    scores = np.array([1.0, 2.0, 3.0])

    require_equal(scores + 1e-5, scores, "equal")
    require_equal(1e6 + scores + 0.1, 1e6 + scores, "equal")
    require_equal(np.zeros(0), np.zeros(0), "equal")
    with pytest.raises(AssertionError, match=r"^A must be B, but 1 of 3 scores differ by up to 0\.001"):
        require_equal(scores + np.array([0.0, 1e-3, 0.0]), scores, "A must be B")
    with pytest.raises(AssertionError, match="3 of 3"):
        require_equal(np.nextafter(scores, 9.0), scores, "A must be B", tolerance=0.0)


def test_the_right_error_is_asked_for() -> None:
    def fail(error: Exception) -> None:
        raise error

    require_model_error(lambda: fail(ModelError("x")), "the call")
    with pytest.raises(AssertionError, match="the call must raise ModelError, but did not"):
        require_model_error(lambda: None, "the call")
    with pytest.raises(AssertionError, match="the call must raise ModelError, but raised IndexError"):
        require_model_error(lambda: fail(IndexError("x")), "the call")


@pytest.mark.parametrize(
    ("scores", "sentence"),
    [
        (np.zeros(96, np.float32), r"must return float64 of shape \(96,\), got float32 of shape \(96,\)"),
        (np.zeros((96, 1)), r"got float64 of shape \(96, 1\)"),
        ([0.0] * 96, "got list of shape None"),
        (np.full(96, np.nan), "96 of 96 scores are NaN or infinite"),
        (np.r_[np.zeros(95), np.inf], "1 of 96 scores"),
    ],
)
def test_what_is_no_score_is_refused(scores: object, sentence: str) -> None:
    with pytest.raises(AssertionError, match=sentence):
        checked_scores(Fixed(scores), made_programs("demo@1"))


def test_agreement_counts_measured_pairs_within_groups() -> None:
    programs = Programs.from_list(
        [np.ones((1, 2))] * 5,
        np.array([0, 0, 0, 1, 1]),
        ("a", "b"),
        np.array([1e-3, 2e-3, np.inf, 5.0, 4.0]),
    )

    assert agreement(Fixed(np.array([2.0, 1.0, 9.0, 1.0, 2.0])[[0, 1, 3, 4]]), programs) == 1.0
    assert agreement(Fixed(np.array([2.0, 1.0, 2.0, 1.0])), programs) == 0.5


Values = npt.NDArray[np.float64]


class Linear(CostModel):
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

    with pytest.raises(AssertionError, match=r"programs have no scores.*: IndexError: index 7 is out of bounds"):
        BY_NAME["no_programs"](Subject(Crashes))


def test_the_suite_leaves_the_fitted_model_as_it_is() -> None:
    subject = Subject(Linear)
    before = copy.deepcopy(subject.fitted.predict(subject.unseen.rows, subject.unseen.counts))

    for check in properties():
        check(subject)

    np.testing.assert_array_equal(subject.fitted.predict(subject.unseen.rows, subject.unseen.counts), before)
