from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from costhub.transfer.controller.batch import Batch
from costhub.transfer.controller.forecast import Forecast

FORESEEN = Forecast(record_gain=0.0)


def made(noise: float, *, waiting: float, seed: int = 0, scale: float = 1.0, each: int = 50) -> Batch:
    """A batch whose log speed is its score but for normal noise."""
    rng = np.random.default_rng(seed)
    speed = rng.normal(scale=0.2, size=each)
    return Batch(np.exp(-speed - rng.normal(scale=noise, size=each)), scale * speed, scale * waiting)


def test_a_model_that_is_right_is_taken_at_its_word() -> None:
    batch = made(1e-9, waiting=0.0)
    better = replace(batch, waiting=float(batch.scores.max()) + 0.07)

    assert FORESEEN([batch]) == pytest.approx(0.0, abs=1e-6)
    assert FORESEEN([better]) == pytest.approx(0.07, abs=1e-6)


def test_the_gain_is_the_mean_of_what_programs_like_it_would_gain() -> None:
    batch = made(0.1, waiting=0.5, each=4000)
    best = -np.log(batch.latency_s.min())
    speed = 0.5 + np.random.default_rng(1).normal(scale=0.1, size=100_000)

    assert FORESEEN([batch]) == pytest.approx(np.maximum(speed - best, 0.0).mean(), rel=0.1)


def test_promises_that_were_not_kept_are_discounted() -> None:
    # The picks of a batch are those that the model is most wrong about: all are slower than their scores.
    batch = made(0.01, waiting=0.0)
    kept = replace(batch, waiting=float(batch.scores.max()) + 0.05)
    broken = replace(kept, latency_s=batch.latency_s * np.exp(0.3))

    assert FORESEEN([replace(batch, latency_s=np.exp(-batch.scores)), broken]) < 0.5 * FORESEEN([kept])


@given(scale=st.floats(0.01, 100.0), seed=st.integers(0, 20), waiting=st.floats(-0.5, 0.5))
def test_the_scale_of_scores_does_not_matter(scale: float, seed: int, waiting: float) -> None:
    batches = [[made(0.1, waiting=waiting, seed=seed, scale=s, each=8)] for s in (1.0, scale)]

    assert FORESEEN(batches[0]) == pytest.approx(FORESEEN(batches[1]), abs=1e-9)


@given(seed=st.integers(0, 20), low=st.floats(-1.0, 1.0), more=st.floats(0.0, 1.0))
def test_a_better_program_that_waits_never_lowers_the_gain(seed: int, low: float, more: float) -> None:
    batch = made(0.1, waiting=low, seed=seed, each=8)

    assert FORESEEN([batch]) <= FORESEEN([replace(batch, waiting=low + more)]) + 1e-12


def test_a_model_that_is_always_wrong_promises_nothing() -> None:
    batch = made(1e-3, waiting=5.0)
    reversed_scores = replace(batch, scores=-batch.scores)
    level = replace(batch, scores=np.zeros(batch.n))

    assert FORESEEN([reversed_scores]) == pytest.approx(FORESEEN([level]), abs=1e-3)


def test_failures_make_a_gain_less_likely() -> None:
    batch = made(0.01, waiting=0.8)
    failed = Batch(np.full(50, np.inf), np.zeros(50), waiting=0.8)

    half = Batch(*(np.concatenate(parts) for parts in (
        (batch.latency_s, failed.latency_s), (batch.scores, failed.scores))), waiting=0.8)  # fmt: skip

    assert FORESEEN([half]) == pytest.approx(0.5 * FORESEEN([batch]))
    assert FORESEEN([failed]) == 0.0


def test_only_the_last_batches_show_how_right_the_model_is_but_the_best_is_of_all() -> None:
    last = [made(0.1, waiting=0.6, seed=seed) for seed in (2, 3)]
    noisy = made(0.5, waiting=0.0, seed=1)
    slow, fast = (replace(noisy, latency_s=factor * noisy.latency_s) for factor in (1e3, 1e-3))
    told = Forecast(window=2, record_gain=0.0)

    assert told([slow, *last]) == told(last) > 0.0
    assert told([fast, *last]) == pytest.approx(0.0, abs=1e-9)


def test_records_by_chance_become_rare() -> None:
    spent = replace(made(1e-9, waiting=0.0), waiting=-9.0)

    assert [Forecast(record_gain=0.3)([spent] * count) for count in (1, 2, 9)] == pytest.approx(
        [0.15, 0.1, 0.03]
    )


def test_where_nothing_waits_nothing_is_gained() -> None:
    assert Forecast()([replace(made(0.1, waiting=0.0), waiting=-np.inf)]) == 0.0


@pytest.mark.parametrize("options", [(0, 0.1), (2, -0.1)])
def test_options_out_of_range_are_refused(options: tuple[int, float]) -> None:
    with pytest.raises(ValueError, match="record_gain not negative"):
        Forecast(*options)
