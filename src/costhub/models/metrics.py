"""Provides the metrics of cost models: each is defined once, for the programs of one workload."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

Array = npt.NDArray[np.float64]

_BLOCK = 512  # Rows of the (n, n) comparison held at once: 4,000 programs then take 2 MB, not 16.


def top_k(scores: Array, latency_s: Array, *, k: int) -> float:
    """Best latency of the workload / best latency among its `k` highest-scored programs.

    top_k = min_i c_i / min_{i in K} c_i, with c the latency and K the k highest scores; `evaluate` reports
    its mean over workloads. Programs that tie at the k-th score enter K in random order and the expectation
    over that order is returned, so a constant score gets exactly what random choice gets.

    Origin: the top-k score of TenSet (Zheng et al., NeurIPS Datasets and Benchmarks 2021), without its
    weights per network; `weighted_top_k` has those.

    Args:
        scores: (n,) predicted scores, higher is faster.
        latency_s: (n,) latency in seconds, positive.
        k: How many programs are taken, at least 1; for k >= n the result is 1.

    Returns:
        A number in (0, 1]; 1 is perfect.

    Example:
        >>> top_k(np.array([3.0, 2.0, 1.0]), np.array([2e-3, 1e-3, 4e-3]), k=1)
        0.5
    """
    return _expected_best(scores, latency_s.min() / latency_s, k)


def best_of_k_s(scores: Array, latency_s: Array, *, k: int) -> float:
    """Expected latency in seconds of the fastest of the `k` highest-scored programs, ties as in `top_k`.

    Example:
        >>> best_of_k_s(np.array([3.0, 2.0, 1.0]), np.array([2e-3, 1e-3, 4e-3]), k=1)
        0.002
    """
    return -_expected_best(scores, -latency_s, k)


def weighted_top_k(best_s: Array, chosen_s: Array, weight: Array) -> float:
    """Weighted sum of best latencies / that of chosen ones: how much of its speed a network keeps.

    sum_l w_l min c / sum_l w_l min_K c. For the layers of one network, this is the figure that TenSet (Zheng
    et al., NeurIPS Datasets and Benchmarks 2021) averages over networks; for the layers of all networks
    together, it is the top-k score of TLP (Zhai et al., ASPLOS 2023).

    Args:
        best_s: (l,) best latency of each workload.
        chosen_s: (l,) latency of the best of its `k` highest-scored programs, see `best_of_k_s`.
        weight: (l,) how often a workload occurs, not negative.

    Returns:
        A number in (0, 1]; NaN if all weights are 0.

    Example:
        >>> weighted_top_k(np.array([1e-3, 3e-3]), np.array([2e-3, 3e-3]), np.array([1.0, 2.0]))
        0.875
    """
    chosen = float(np.sum(weight * chosen_s))
    return float(np.sum(weight * best_s)) / chosen if chosen else float("nan")


def pairwise(scores: Array, latency_s: Array, *, noise_floor: float) -> float:
    """Share of pairs that the scores put in the right order, of those that differ by more than the noise.

    Over P = {(i, j) : c_i < c_j (1 - noise_floor)}: mean of 1 where s_i > s_j, 1/2 where s_i = s_j, 0
    elsewhere. The difference is relative because measurement noise is.

    Origin: the pairwise accuracy of TenSet, which has no noise floor.

    Args:
        scores: (n,) predicted scores, higher is faster.
        latency_s: (n,) latency in seconds, positive.
        noise_floor: Relative difference in throughput below which a pair is not counted, in [0, 1).

    Returns:
        A number in [0, 1]; 0.5 is random. NaN if no pair differs by more than the noise.

    Example:
        >>> pairwise(np.array([3.0, 1.0, 2.0]), np.array([1e-3, 2e-3, 4e-3]), noise_floor=0.02)
        0.6666666666666666
    """
    right, total = 0.0, 0.0
    for start in range(0, len(scores), _BLOCK):
        block = slice(start, start + _BLOCK)
        faster = latency_s[block, None] < latency_s[None, :] * (1.0 - noise_floor)
        right += float(np.count_nonzero(faster & (scores[block, None] > scores[None, :])))
        right += 0.5 * float(np.count_nonzero(faster & (scores[block, None] == scores[None, :])))
        total += float(np.count_nonzero(faster))
    return right / total if total else float("nan")


def spearman(scores: Array, latency_s: Array) -> float:
    """Spearman's rank correlation of score and throughput, ties at their average rank.

    Pearson's correlation of rank(s) and rank(1 / c). Origin: Spearman, American Journal of Psychology 15,
    1904.

    Args:
        scores: (n,) predicted scores, higher is faster.
        latency_s: (n,) latency in seconds, positive.

    Returns:
        A number in [-1, 1]. A constant score has no order and gets 0; constant latencies give NaN.

    Example:
        >>> spearman(np.array([3.0, 2.0, 1.0]), np.array([1e-3, 2e-3, 4e-3]))
        1.0
    """
    if np.ptp(latency_s) == 0:
        return float("nan")
    return 0.0 if np.ptp(scores) == 0 else rank_correlation(scores, -latency_s)


def rank_correlation(first: npt.ArrayLike, second: npt.ArrayLike) -> float:
    """Spearman's rank correlation of two lists of (n,) numbers; NaN if either is constant.

    Example:
        >>> rank_correlation([1.0, 2.0, 3.0], [10.0, 30.0, 20.0])
        0.5
    """
    from scipy.stats import rankdata  # here, because it takes half a second to load

    if np.ptp(first) == 0 or np.ptp(second) == 0:
        return float("nan")
    return float(np.corrcoef(rankdata(first), rankdata(second))[0, 1])


def _expected_best(scores: Array, value: Array, k: int) -> float:
    """Expectation of the highest value among the `k` highest scores; ties at the k-th enter at random."""
    k = min(k, len(scores))
    cut = np.partition(scores, len(scores) - k)[len(scores) - k]
    certain = value[scores > cut]
    tied = np.sort(value[scores == cut])[::-1]
    # `take` of the m tied programs are drawn without replacement. chance[i] is the chance that tied[i] is the
    # best drawn, C(m-1-i, take-1) / C(m, take), by the recurrence
    # chance[i+1] / chance[i] = (m-i-take) / (m-1-i).
    m, take = len(tied), k - len(certain)
    left = np.arange(m - 1, 0, -1)
    chance = np.cumprod(np.concatenate([[take / m], (left + 1 - take).clip(0) / left]))
    return float(np.sum(chance * np.maximum(tied, certain.max(initial=-np.inf))))
