from __future__ import annotations

import numpy as np
import pytest

from costhub.models.trees.gbt import Gbt, GbtOptions
from costhub.testing.made_programs import made_programs
from costhub.testing.subject import Subject


def make(spec: str = "demo@1") -> Gbt:
    return Gbt(feature_spec=spec, options=GbtOptions(rounds=3))


def test_programs_are_made_for_the_spec_of_the_model() -> None:
    assert Subject(lambda: make("relation@1")).width == 123
    assert Subject(make, columns=4).width == 4
    assert Subject(make).name == "The model Gbt (gbt, demo@1)"


def test_programs_to_score_are_of_other_workloads() -> None:
    subject = Subject(make, programs=made_programs("demo@1", workloads=6))
    fitted, scored = (
        {p.workload_ids[number] for number in p.workload} for p in (subject.train, subject.unseen)
    )

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
