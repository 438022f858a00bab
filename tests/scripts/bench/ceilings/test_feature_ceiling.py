"""The benchmark of what limits a model: programs of the very workload, and programs that features do not tell apart."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from costhub.dataset.programs import Programs
from scripts.bench.ceilings.feature_ceiling import alike, log_error, parted

RNG = np.random.default_rng(0)


def made(latency_s: np.ndarray, rows: np.ndarray, workloads: int = 2) -> Programs:
    """One row of features a program, programs of the workloads in turn."""
    ids = tuple(f"w{number}" for number in range(workloads))
    return Programs.from_list(list(rows[:, None, :]), np.arange(len(rows)) % workloads, ids, latency_s)


def test_the_known_programs_and_the_others_are_all_and_share_none() -> None:
    programs = made(np.arange(1.0, 21.0), RNG.normal(size=(20, 3)))
    known, test = parted(programs, 7, seed=0)

    assert np.bincount(known.workload).tolist() == [7, 7]
    assert sorted([*known.latency_s, *test.latency_s]) == programs.latency_s.tolist()


def test_the_error_is_that_within_workloads() -> None:
    programs = made(np.exp(RNG.normal(size=4_000)), RNG.normal(size=(4_000, 3)))
    level = np.array([5.0, -3.0])[programs.workload]  # of a workload, which no order depends on
    scores = -np.log(programs.latency_s) + level + 0.3 * RNG.normal(size=programs.n)

    assert log_error(scores, programs) == pytest.approx(0.3, abs=0.02)


def test_neighbours_are_as_far_apart_as_what_features_do_not_say() -> None:
    rows = RNG.normal(size=(2_000, 2)).astype(np.float32)
    seen, hidden = rows.sum(axis=1), 0.1 * RNG.normal(size=len(rows))
    programs = replace(made(np.exp(seen + hidden), rows), spec="made@1")
    found = alike(programs, "made@1")

    assert found["nearest_tenth"] == pytest.approx(0.1, abs=0.02)
    assert found["nearest_tenth"] <= found["nearest"] < 0.25
    assert found["random_pair"] == pytest.approx(found["spread"], rel=0.1)
