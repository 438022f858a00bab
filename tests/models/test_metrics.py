from __future__ import annotations

import itertools
import math

import numpy as np
import numpy.typing as npt
import pytest
from hypothesis import given
from hypothesis import strategies as st

from costhub.models.metrics import best_of_k_s, pairwise, rank_correlation, spearman, top_k, weighted_top_k

Arrays = tuple[npt.NDArray[np.float64], npt.NDArray[np.float64]]

# Few distinct scores, so that ties are common.
ranked = st.lists(
    st.tuples(st.sampled_from([-1.0, 0.0, 0.5, 2.0, 7.0]), st.floats(1e-6, 1.0)), min_size=1, max_size=7
).map(lambda pairs: (np.array([s for s, _ in pairs]), np.array([c for _, c in pairs])))


def test_top_k_is_the_ratio_of_the_best_to_the_best_taken() -> None:
    scores, latency_s = np.array([4.0, 3.0, 2.0, 1.0]), np.array([4.0, 2.0, 8.0, 1.0])

    assert [top_k(scores, latency_s, k=k) for k in (1, 2, 3, 4, 9)] == [0.25, 0.5, 0.5, 1.0, 1.0]


@given(ranked, st.integers(1, 8))
def test_top_k_is_the_expectation_over_the_orders_of_ties(arrays: Arrays, k: int) -> None:
    scores, latency_s = arrays
    values = []
    for order in itertools.permutations(range(len(scores))):
        first = sorted(order, key=lambda i: -scores[i])[:k]
        values.append(latency_s.min() / latency_s[first].min())

    assert top_k(scores, latency_s, k=k) == pytest.approx(np.mean(values), rel=1e-12)


@given(ranked, st.integers(1, 8))
def test_the_best_of_k_is_the_expected_latency(arrays: Arrays, k: int) -> None:
    scores, latency_s = arrays
    values = []
    for order in itertools.permutations(range(len(scores))):
        first = sorted(order, key=lambda i: -scores[i])[:k]
        values.append(latency_s[first].min())

    assert best_of_k_s(scores, latency_s, k=k) == pytest.approx(np.mean(values), rel=1e-12)


def test_a_network_weighs_its_layers_by_use_and_by_length() -> None:
    best_s, chosen_s = np.array([1e-3, 10e-3]), np.array([2e-3, 10e-3])

    assert weighted_top_k(best_s, chosen_s, np.array([1.0, 1.0])) == pytest.approx(11 / 12)
    assert weighted_top_k(best_s, chosen_s, np.array([8.0, 0.0])) == pytest.approx(0.5)
    assert math.isnan(weighted_top_k(best_s, chosen_s, np.zeros(2)))


def test_constant_scores_get_the_mean_throughput() -> None:
    latency_s = np.array([1.0, 2.0, 4.0])

    assert top_k(np.zeros(3), latency_s, k=1) == pytest.approx((1 + 0.5 + 0.25) / 3)


def test_pairwise_counts_ordered_pairs_and_half_of_ties() -> None:
    scores, latency_s = np.array([3.0, 1.0, 1.0]), np.array([1.0, 2.0, 3.0])

    assert pairwise(scores, latency_s, noise_floor=0.0) == pytest.approx(2.5 / 3)


def test_pairwise_leaves_out_pairs_within_the_noise() -> None:
    latency_s = np.array([1.0, 1.01, 2.0])
    wrong_within_noise = np.array([1.0, 2.0, 0.0])

    assert pairwise(wrong_within_noise, latency_s, noise_floor=0.02) == 1.0
    assert pairwise(wrong_within_noise, latency_s, noise_floor=0.0) == pytest.approx(2 / 3)
    assert math.isnan(pairwise(wrong_within_noise, latency_s, noise_floor=0.6))


@given(ranked, st.floats(0.0, 0.5))
def test_pairwise_of_reversed_scores_is_the_rest(arrays: Arrays, noise_floor: float) -> None:
    scores, latency_s = arrays
    one = pairwise(scores, latency_s, noise_floor=noise_floor)
    other = pairwise(-scores, latency_s, noise_floor=noise_floor)

    assert math.isnan(one) if math.isnan(other) else one + other == pytest.approx(1.0)


def test_pairwise_over_many_blocks_agrees_with_the_definition() -> None:
    rng = np.random.default_rng(0)
    scores, latency_s = rng.normal(size=1100).round(1), rng.uniform(1, 2, size=1100)
    faster = latency_s[:, None] < latency_s[None, :] * 0.98
    right = (scores[:, None] > scores[None, :]) + 0.5 * (scores[:, None] == scores[None, :])

    assert pairwise(scores, latency_s, noise_floor=0.02) == pytest.approx((right * faster).sum() / faster.sum())


@given(ranked)
def test_metrics_do_not_depend_on_the_order_of_programs_or_the_scale_of_scores(arrays: Arrays) -> None:
    scores, latency_s = arrays
    order = np.random.default_rng(0).permutation(len(scores))
    other = (np.exp(scores[order]), 3.0 * latency_s[order])

    assert top_k(scores, latency_s, k=2) == pytest.approx(top_k(*other, k=2))
    assert spearman(scores, latency_s) == pytest.approx(spearman(*other), nan_ok=True)
    assert pairwise(scores, latency_s, noise_floor=0.1) == pytest.approx(pairwise(*other, noise_floor=0.1), nan_ok=True)


def test_spearman_agrees_with_ranks_by_hand() -> None:
    # Ranks of scores 0, 1.5, 1.5, 3; of throughput 0, 1, 2, 3.
    assert spearman(np.array([1.0, 2.0, 2.0, 9.0]), np.array([8.0, 4.0, 2.0, 1.0])) == pytest.approx(
        4.5 / math.sqrt(4.5 * 5.0)
    )


def test_spearman_of_what_has_no_order() -> None:
    assert spearman(np.zeros(3), np.array([1.0, 2.0, 3.0])) == 0.0
    assert math.isnan(spearman(np.array([1.0, 2.0]), np.array([1.0, 1.0])))
    assert math.isnan(rank_correlation([1.0, 1.0], [1.0, 2.0]))
