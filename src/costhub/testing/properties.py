"""Provides check_cost_model and PROPERTIES: requirements for every cost model, and Subject, the model under test."""

from __future__ import annotations

import copy
import functools
import json
import tempfile
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np

from costhub.dataset.programs import Programs
from costhub.errors import ModelError
from costhub.models.metrics import pairwise
from costhub.models.protocol import CostModel, Scores
from costhub.testing.made_programs import (
    filled,
    first_rows,
    made_programs,
    none_of,
    partly_failed,
    rescaled,
    reversed_order,
    without_rows,
)


class Subject:
    """A cost model under test; it is fitted when a property first needs it.

    Args:
        make: Creates a new, unfitted model each time, with options that let it train in a second.
        columns: Width of the rows it reads, if costhub does not know its feature spec; 6 by default.
        programs: Programs to fit and to score, of two or more workloads; by default synthetic, see
            `made_programs`.

    Raises:
        ValueError: `programs` belong to a single workload.
    """

    def __init__(
        self, make: Callable[[], CostModel], *, columns: int | None = None, programs: Programs | None = None
    ) -> None:
        self.make = make
        model = make()
        self.feature_spec = model.feature_spec
        self.name = f"The model {type(model).__name__} ({model.arch}, {model.feature_spec})"
        """For messages."""
        if programs is None:
            self.train = made_programs(self.feature_spec, columns=columns)
            self.unseen = made_programs(self.feature_spec, columns=columns, workloads=2, seed=1)
        else:
            self.train, self.unseen = _divided(programs)

    @property
    def width(self) -> int:
        """Number of columns of a row."""
        return int(self.train.rows.shape[1])

    @functools.cached_property
    def fitted(self) -> CostModel:
        """The model after `fit` on `train`; properties must not change it."""
        return self.fit(self.train)

    def fit(self, programs: Programs) -> CostModel:
        """A new model, fitted on these programs with seed 0."""
        model = self.make()
        model.fit(programs, None, seed=0, progress=False)
        return model


def _divided(programs: Programs) -> tuple[Programs, Programs]:
    """The programs of the first two thirds of the workloads, and those of the others."""
    used = [programs.workload_ids[number] for number in np.unique(programs.workload)]
    if len(used) < 2:
        raise ValueError(f"Programs of two workloads or more are needed, got {len(used)}.")
    last = set(used[-max(1, len(used) // 3) :])
    return programs.of_workloads(set(used) - last), programs.of_workloads(last)


def require(condition: object, sentence: str) -> None:
    """Raises AssertionError with the sentence unless the condition holds, even under `python -O`."""
    if not condition:
        raise AssertionError(sentence)


def require_equal(scores: Scores, expected: Scores, what: str, *, tolerance: float = 1e-4) -> None:
    """Rejects scores that differ by more than rounding.

    Args:
        scores: (n,) scores.
        expected: (n,) scores.
        what: Says which scores must be equal to which, for the message.
        tolerance: Largest difference, as a share of the standard deviation of the scores. At 0 they must be
            equal to the last digit.
    """
    if not len(expected):
        return
    # Single precision has seven digits, so scores far from 0 differ by more.
    most = tolerance * float(expected.std()) + bool(tolerance) * 1e-6 * float(np.abs(expected).max())
    distance = np.abs(scores - expected)
    count = int((distance > most).sum())
    require(not count, f"{what}, but {count} of {len(expected)} scores differ by up to {distance.max():.3g}.")


def require_model_error(use: Callable[[], object], what: str) -> None:
    """Rejects a call that does not raise a `ModelError`.

    Args:
        use: Makes the call.
        what: Describes the call, for the message.
    """
    try:
        use()
    except ModelError:
        return
    except Exception as error:
        raise AssertionError(f"{what} must raise ModelError, but raised {type(error).__name__}.") from error
    raise AssertionError(f"{what} must raise ModelError, but did not.")


def checked_scores(model: CostModel, programs: Programs) -> Scores:
    """(n,) scores, after checking that they are a finite double for each program."""
    scores: Any = model.predict(programs.rows, programs.counts)
    actual = f"{getattr(scores, 'dtype', type(scores).__name__)} of shape {getattr(scores, 'shape', None)}"
    good = isinstance(scores, np.ndarray) and scores.shape == (programs.n,) and scores.dtype == np.float64
    require(good, f"predict must return float64 of shape {(programs.n,)}, got {actual}.")
    count = int((~np.isfinite(scores)).sum())
    require(not count, f"{count} of {programs.n} scores are NaN or infinite.")
    checked: Scores = scores
    return checked


def agreement(model: CostModel, programs: Programs) -> float:
    """Share of the measured pairs within a group that the model orders correctly; 0.5 is chance."""
    programs = programs.measured()
    scores = checked_scores(model, programs)
    groups = [programs.group == number for number in np.unique(programs.group)]
    shares = [
        pairwise(scores[own], programs.latency_s[own], noise_floor=0.0)
        for own in groups
        if np.ptp(programs.latency_s[own]) > 0.0
    ]
    return float(np.mean(shares))


Property = Callable[[Subject], None]

PROPERTIES: list[Property] = []
"""All properties; those whose failure explains others come first."""


def _property(sentence: str) -> Callable[[Property], Property]:
    """Registers a function in `PROPERTIES`, and describes its failures with the sentence."""

    def enter(check: Property) -> Property:
        @functools.wraps(check)
        def worded(subject: Subject) -> None:
            try:
                check(subject)
            except Exception as error:  # anyone's model may raise anything, and all of it is a finding
                reason = str(error) if isinstance(error, AssertionError) else f"{type(error).__name__}: {error}"
                first_line = reason.strip().partition("\n")[0].rstrip(".")
                raise AssertionError(f"{subject.name} breaks the property {sentence!r}: {first_line}.") from error

        PROPERTIES.append(worded)
        return worded

    return enter


@_property("higher scores are for faster programs")
def higher_is_faster(subject: Subject) -> None:
    """After `fit`, the programs it was fitted on are ranked better than by chance."""
    share = agreement(subject.fitted, subject.train)
    require(share > 0.55, f"it has {share:.0%} of the pairs it was fitted on in the right order.")


@_property("a model without weights refuses to score, learn and save")
def without_weights(subject: Subject) -> None:
    """With `ModelError`, so that callers can tell it from a defect."""
    train = subject.train
    require_model_error(lambda: subject.make().predict(train.rows, train.counts), "predict before fit")
    require_model_error(lambda: subject.make().update(train, seed=0), "update before fit")
    with tempfile.TemporaryDirectory() as folder:
        require_model_error(lambda: subject.make().save_weights(Path(folder)), "save_weights before fit")


@_property("rows of another width are refused")
def other_width(subject: Subject) -> None:
    """Features of another spec are an error and must not pass for a score."""
    for width in (subject.width - 1, subject.width + 1):
        rows = np.ones((1, width), np.float32)
        require_model_error(
            functools.partial(subject.fitted.predict, rows, np.array([1])),
            f"predict of rows with {width} columns in place of {subject.width}",
        )


@_property("no programs have no scores")
def no_programs(subject: Subject) -> None:
    """A search may have nothing to score."""
    checked_scores(subject.fitted, none_of(subject.unseen))


@_property("a program without rows has a score")
def no_rows(subject: Subject) -> None:
    """Always the same one, whether other programs have rows or not."""
    mixed = without_rows(subject.unseen, every=2)
    without = checked_scores(subject.fitted, mixed)[mixed.counts == 0]
    alone = checked_scores(subject.fitted, without_rows(subject.unseen, every=1))
    require_equal(without, np.full(len(without), alone[0]), "Programs without rows must score the same")


@_property("a program of one row has a score")
def one_row(subject: Subject) -> None:
    """There may be no spread over rows to divide by."""
    checked_scores(subject.fitted, first_rows(subject.unseen))


@_property("features beyond anything seen have finite scores")
def extreme_rows(subject: Subject) -> None:
    """A NaN would silently turn a search into a random one."""
    for value in (1e30, -1e30, 1e-30, 0.0):
        checked_scores(subject.fitted, filled(subject.unseen, value, feature_spec=subject.feature_spec))


@_property("a score does not depend on the other programs of the batch")
def batch_independence(subject: Subject) -> None:
    """A search scores batches of all sizes and keeps the best of several."""
    unseen = subject.unseen
    places = np.split(np.arange(unseen.n), [1, 2, 3, unseen.n // 2])
    apart = [checked_scores(subject.fitted, unseen.select(own)) for own in places]
    together = checked_scores(subject.fitted, unseen)
    require_equal(np.concatenate(apart), together, "A program must score alone as it does among others")


@_property("scores follow their programs into another order")
def permutation(subject: Subject) -> None:
    """The order of the programs is irrelevant."""
    order = np.random.default_rng(0).permutation(subject.unseen.n)
    permuted = checked_scores(subject.fitted, subject.unseen.select(order))
    expected = checked_scores(subject.fitted, subject.unseen)[order]
    require_equal(permuted, expected, "Permuted programs must have permuted scores")


@_property("rows and latencies are only read")
def only_read(subject: Subject) -> None:
    """Callers continue to use the arrays they pass."""
    passed = copy.deepcopy(subject.unseen)
    model = subject.fit(passed)
    checked_scores(model, passed)
    model.update(passed, seed=0)
    for name in ("rows", "counts", "workload", "latency_s"):
        same = np.array_equal(getattr(passed, name), getattr(subject.unseen, name))
        require(same, f"fit, predict or update has changed {name} in place.")


@_property("equal seeds give equal models")
def determinism(subject: Subject) -> None:
    """Only the seed determines random choices."""
    again, first = (
        checked_scores(subject.fit(subject.train), subject.unseen),
        checked_scores(subject.fitted, subject.unseen),
    )
    require_equal(again, first, "Two fits with one seed must score alike", tolerance=1e-3)


@_property("latencies are compared within a workload only")
def monotone_relabelling(subject: Subject) -> None:
    """Multiplying all latencies of a workload by a constant keeps the ranking, so the model is the same."""
    actual = checked_scores(subject.fit(rescaled(subject.train)), subject.unseen)
    expected = checked_scores(subject.fitted, subject.unseen)
    what = "Latencies scaled by a constant for each workload must give the same model"
    require_equal(actual, expected, what, tolerance=1e-2)


@_property("a failed program can be learned from")
def failed_programs(subject: Subject) -> None:
    """Its latency is infinite, its throughput 0."""
    checked_scores(subject.fit(partly_failed(subject.train, every=4)), subject.unseen)


@_property("a saved model comes back as it was")
def save_and_load(subject: Subject) -> None:
    """Through files and JSON."""
    loaded = subject.make()
    with tempfile.TemporaryDirectory() as folder:
        subject.fitted.save_weights(Path(folder))
        loaded.load_weights(Path(folder), json.loads(json.dumps(subject.fitted.config(), allow_nan=False)))
    expected = checked_scores(subject.fitted, subject.unseen)
    require_equal(checked_scores(loaded, subject.unseen), expected, "A loaded model must score as the saved one")
    require(loaded.config() == subject.fitted.config(), "config() differs after loading.")


@_property("updating a copy leaves the original as it was")
def independent_copies(subject: Subject) -> None:
    """A search updates a `copy.deepcopy` for each of its tasks."""
    model = subject.fit(subject.train)
    before = checked_scores(model, subject.unseen)
    copy.deepcopy(model).update(reversed_order(subject.unseen), seed=0)
    require_equal(checked_scores(model, subject.unseen), before, "The original must score as before", tolerance=0.0)


@_property("an update with nothing to learn changes nothing")
def update_with_nothing(subject: Subject) -> None:
    """No program, one program, and programs that are equally fast."""
    before = checked_scores(subject.fitted, subject.unseen)
    one = subject.unseen.select(np.array([0]))
    equally_fast = replace(subject.unseen, latency_s=np.full(subject.unseen.n, 1e-3))
    for programs in (none_of(subject.unseen), one, equally_fast):
        model = copy.deepcopy(subject.fitted)
        model.update(programs, seed=0)
        what = f"{programs.n} programs that do not differ must leave the scores as they are"
        require_equal(checked_scores(model, subject.unseen), before, what)


@_property("an update learns the order of what was measured")
def update_learns(subject: Subject) -> None:
    """On a device where the slow programs are the fast ones, the scores are reversed."""
    measured = reversed_order(subject.unseen)
    model = copy.deepcopy(subject.fitted)
    before = agreement(model, measured)
    for seed in range(3):
        model.update(measured, seed=seed)
    after = agreement(model, measured)
    shares = f"of the measured pairs {before:.1%} were in the right order before three updates, {after:.1%} after."
    require(after > before + 0.02, shares)


@_property("the search of TVM can use the scores")
def positive_at_the_seam(subject: Subject) -> None:
    """TVM clamps scores at zero, so they are made positive for it, see `search.search_model`."""
    from costhub.search.search_model import PositiveScores

    raw = checked_scores(subject.fitted, subject.unseen)
    with np.errstate(all="ignore"):
        positive = PositiveScores()(raw)
    good = np.isfinite(positive).all() and (positive > 0.0).all()
    require(good, "made positive, some scores are not finite or not above zero.")
    rises = np.diff(positive[np.argsort(raw, kind="stable")]) >= 0.0
    require(rises.all(), "made positive, some scores have another order.")
    require(np.ptp(raw) == 0.0 or np.ptp(positive) > 0.0, "made positive, scores that differ are all equal.")


def properties() -> tuple[Property, ...]:
    """All properties, as functions of a `Subject`, for `pytest.mark.parametrize`.

    Example:
        >>> "batch_independence" in [check.__name__ for check in properties()]
        True
    """
    return tuple(PROPERTIES)


def check_cost_model(
    make: Callable[[], CostModel], *, columns: int | None = None, programs: Programs | None = None
) -> None:
    """Tests a cost model against all properties.

    Args:
        make: Creates a new, unfitted model each time, with options that let it train in a second.
        columns: Width of the rows it reads, if costhub does not know its feature spec; 6 by default.
        programs: Programs to fit and to score, of two or more workloads; by default synthetic, see
            `made_programs`.

    Raises:
        AssertionError: The message has a line for each property that the model breaks, with the details.
        ValueError: `programs` belong to a single workload.

    Example:
        >>> from costhub.models.trees.gbt import Gbt, GbtOptions
        >>> check_cost_model(lambda: Gbt(feature_spec="demo@1", options=GbtOptions(rounds=20)))
    """
    subject = Subject(make, columns=columns, programs=programs)
    broken: list[str] = []
    for check in PROPERTIES:
        try:
            check(subject)
        except AssertionError as error:
            broken.append(str(error))
    if broken:
        raise AssertionError("\n".join(broken))
