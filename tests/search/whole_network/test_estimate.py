"""The network's latency along a search, from its kernels'."""

from __future__ import annotations

from itertools import pairwise
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from costhub.search.result import TuneResult
from costhub.search.whole_network.estimate import network_curve, with_time_shares

LATENCIES = st.lists(st.lists(st.floats(1.0, 100.0), min_size=1, max_size=6), min_size=1, max_size=4)


def result(name: str, latencies: list[float], untuned_us: float | None = 50.0) -> TuneResult:
    best = [min(latencies[: i + 1]) for i in range(len(latencies))]
    curve = [(i + 1, float(i), us) for i, us in enumerate(best)]
    return TuneResult(name, len(latencies), 0, 1.0, untuned_us, best[-1], curve)


@given(LATENCIES, st.randoms())
def test_the_curve_falls_and_ends_at_the_sum_of_the_best(latencies: list[list[float]], shuffled: Any) -> None:
    results = [result(str(i), each) for i, each in enumerate(latencies)]
    order = [r.workload for r in results for _ in range(r.trials)]
    shuffled.shuffle(order)
    weights = {r.workload: 1.0 + i for i, r in enumerate(results)}

    points = network_curve(results, weights, order)

    assert points[0] == (0, sum(50.0 * weight for weight in weights.values()))
    assert points[-1][0] == len(order)
    assert all(a[1] >= b[1] and a[0] < b[0] for a, b in pairwise(points))
    assert points[-1][1] == sum(weights[r.workload] * min(50.0, r.best_us or 50.0) for r in results)


def test_a_search_that_went_on_begins_with_what_was_known() -> None:
    known = result("a", [9.0, 7.0, 3.0])

    assert network_curve([known], {"a": 2.0}, ["a"]) == [(2, 14.0), (3, 6.0)]
    assert network_curve([known], {"a": 2.0}, []) == [(3, 6.0)]


def test_a_kernel_without_any_latency_leaves_no_curve_until_it_has_one() -> None:
    slow, fast = result("a", [9.0], untuned_us=None), result("b", [4.0])

    assert network_curve([slow, fast], {"a": 1.0, "b": 1.0}, ["b", "a"]) == [(2, 13.0)]


def test_shares_add_up_to_one() -> None:
    rows = [{"weight": float(i), "untuned_us": 3.0, "best_us": 1.0 / i} for i in (1, 2, 5)]

    found = with_time_shares(rows)

    assert sum(row["share_before"] for row in found) == 1.0
    assert [row["share_after"] for row in found] == [1 / 3] * 3
