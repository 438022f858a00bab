from __future__ import annotations

import numpy as np
import pyarrow as pa
import pytest

from costhub.models.evaluate import evaluate_scores
from scripts.bench.models.noise_ceiling import MeasuredRepeats, gap_noise, noise_ceiling, repeat_noise


def table(spread: float, *, repeats: int = 5, seed: int = 0) -> pa.Table:
    """Three workloads of 40 programs whose latencies differ by a factor of 2, with noisy repeats."""
    rng = np.random.default_rng(seed)
    true = np.exp(rng.uniform(0, np.log(2), size=120))
    run_s = [list(t * np.exp(spread * rng.standard_normal(repeats))) for t in true]
    return pa.table({"workload_id": [f"w{i % 3}" for i in range(120)], "run_s": run_s})


def ceiling(spread: float) -> float:
    measured = MeasuredRepeats.of(table(spread))
    return noise_ceiling(measured.programs, repeat_noise(measured), draws=5).pairwise


def test_without_noise_nothing_is_lost() -> None:
    measured = MeasuredRepeats.of(table(0.0), device_id="cpu0")

    found = noise_ceiling(measured.programs, repeat_noise(measured), draws=2)

    assert list(found.totals.values()) == pytest.approx([1.0] * 4)
    assert {row.device_id for row in found.workloads} == {"cpu0"}
    assert sorted(row.n for row in found.workloads) == [40, 40, 40]


def test_a_workload_that_one_draw_can_rank_is_not_skipped() -> None:
    latency_s = np.array([1.0, 2.0, 1.0, 2.0])
    measured = MeasuredRepeats.of(
        pa.table({"workload_id": ["a", "a", "b", "b"], "run_s": [[s] for s in latency_s]}), device_id="cpu0"
    )
    draws = iter([latency_s, np.array([1.0, 2.0, 1.0, 1.0])])

    found = noise_ceiling(measured.programs, lambda _: next(draws), draws=2)

    assert {row.workload_id for row in found.workloads} == {"a", "b"}
    assert found.skipped == ()


def test_more_noise_is_a_lower_ceiling() -> None:
    assert 1.0 > ceiling(0.02) > ceiling(0.1) > ceiling(0.4) > 0.5


def test_the_ceiling_is_what_the_truth_scores() -> None:
    # Ten times measured, the truth scored against each: the ceiling of one set of repeats is near the mean.
    rng = np.random.default_rng(1)
    true = np.exp(rng.uniform(0, np.log(2), size=400))
    scores = []
    for _ in range(10):
        run_s = [list(t * np.exp(0.05 * rng.standard_normal(5))) for t in true]
        measured = MeasuredRepeats.of(pa.table({"workload_id": ["w"] * 400, "run_s": run_s}))
        scores.append(evaluate_scores(-true, measured.programs).pairwise)

    found = noise_ceiling(measured.programs, repeat_noise(measured), draws=5).pairwise

    assert found == pytest.approx(float(np.mean(scores)), abs=0.015)


def test_noise_of_two_passes_has_the_median_gap_it_was_given() -> None:
    measured = MeasuredRepeats.of(table(0.0))
    draw = gap_noise(measured.programs, 0.03)
    rng = np.random.default_rng(0)
    first, second = (np.concatenate([draw(rng) for _ in range(50)]) for _ in range(2))

    assert float(np.median(np.abs(second / first - 1))) == pytest.approx(0.03, rel=0.05)


def test_one_repeat_borrows_the_noise_of_others() -> None:
    noisy = table(0.1).to_pylist()
    mixed = pa.table(
        {
            "workload_id": [row["workload_id"] for row in noisy],
            "run_s": [row["run_s"][: 1 if number % 2 else 5] for number, row in enumerate(noisy)],
        }
    )
    single = pa.table({"workload_id": mixed["workload_id"], "run_s": [row[:1] for row in mixed["run_s"].to_pylist()]})
    rng = np.random.default_rng(0)

    borrowed, none = (MeasuredRepeats.of(found) for found in (mixed, single))

    assert (repeat_noise(borrowed)(rng) != borrowed.programs.latency_s).mean() > 0.5
    np.testing.assert_array_equal(repeat_noise(none)(rng), none.programs.latency_s)


def test_equal_seeds_give_equal_ceilings_and_no_latency_is_negative() -> None:
    measured = MeasuredRepeats.of(table(2.0, repeats=2))
    draw = repeat_noise(measured)

    assert draw(np.random.default_rng(0)).min() > 0
    first, second = (noise_ceiling(measured.programs, draw, draws=2, seed=3) for _ in range(2))
    assert first == second


def test_rows_without_latency_are_left_out() -> None:
    measured = MeasuredRepeats.of(pa.table({"workload_id": ["a", "a", "b"], "run_s": [[1.0, 2.0], [], [3.0]]}))

    assert measured.programs.latency_s.tolist() == [1.5, 3.0]
    assert measured.repeats.to_pylist() == [[1.0, 2.0], [3.0]]
