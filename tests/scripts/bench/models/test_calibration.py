from __future__ import annotations

import json

import numpy as np
import pytest

from costhub.dataset.programs import Programs
from costhub.errors import DataError, ScoreError
from scripts.bench.models.calibration import LEVELS, calibrate


def drawn(scale: float = 1.0, n: int = 4000) -> tuple[np.ndarray, np.ndarray, Programs]:
    """Means that miss the throughput by normal errors of known sizes, times `scale`."""
    rng = np.random.default_rng(0)
    throughput = rng.uniform(0.2, 1.0, n)
    throughput[0] = 1.0
    programs = Programs.from_list([np.ones((1, 1))] * n, np.zeros(n, np.int64), ("w",), 1e-3 / throughput)
    std = rng.uniform(0.01, 0.1, n)
    return throughput + scale * std * rng.standard_normal(n), std, programs


def test_an_honest_spread_covers_what_it_says_and_grows_with_the_error() -> None:
    found = calibrate(*drawn())

    assert [found.covered[level] for level in LEVELS] == pytest.approx(LEVELS, abs=0.03)
    assert found.ratio == pytest.approx(1.0, abs=0.05)
    assert found.rank_correlation > 0.3
    spread, error = np.array(found.bins).T
    assert len(found.bins) == 10
    np.testing.assert_allclose(error, spread, rtol=0.2)


def test_a_model_too_sure_of_itself_is_shown_up() -> None:
    found = calibrate(*drawn(3.0))

    assert found.ratio == pytest.approx(3.0, rel=0.1)
    assert found.covered[0.95] < 0.6


def test_alignment_gives_scores_without_a_unit_one() -> None:
    mean, std, programs = drawn()

    plain, moved = (calibrate(m, s, programs, align=True) for m, s in ((mean, std), (5 * mean - 7, 5 * std)))

    assert moved.ratio == pytest.approx(plain.ratio)
    assert moved.covered == pytest.approx(plain.covered, abs=1e-3)
    assert calibrate(5 * mean - 7, 5 * std, programs).covered[0.95] < 0.5


def test_a_constant_spread_correlates_with_nothing_and_is_json() -> None:
    mean, std, programs = drawn(n=20)

    found = calibrate(mean, np.full_like(std, 0.1), programs).to_json()

    assert found["rank_correlation"] is None
    assert json.loads(json.dumps(found, allow_nan=False))["covered"]["0.5"] == found["covered"]["0.5"]


def test_constant_scores_can_be_aligned() -> None:
    _, std, programs = drawn(n=20)

    assert calibrate(np.ones(20), std, programs, align=True).covered[0.5] == 0.0


def test_what_cannot_be_calibrated_is_a_sentence() -> None:
    mean, std, programs = drawn(n=5)

    with pytest.raises(ScoreError, match="a spread is negative"):
        calibrate(mean, -std, programs)
    with pytest.raises(DataError, match="no programs"):
        calibrate(np.zeros(0), np.zeros(0), programs.select(np.zeros(0, np.int64)))
