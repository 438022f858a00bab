"""What a limit leaves out: counted by hand, and read from traces as the search reads them."""

from __future__ import annotations

import pytest

from costhub.collector.propose.register_tiles import MOST_BLOCKS, MOST_PLACES
from costhub.search.zero_trials.carry import TraceDecisions
from scripts.bench.data.register_tiles import row_of, sums_of


def decisions(*tiles: tuple[tuple[int, ...], int]) -> TraceDecisions:
    factors = tuple((place, each) for place, (each, _) in enumerate(tiles))
    return TraceDecisions("", factors, tuple(most for _, most in tiles), (), (), (), ())


def test_sums_are_blocks_times_places() -> None:
    product = (((8, 2), MOST_BLOCKS), ((4, 7), MOST_PLACES), ((16, 4), MOST_BLOCKS))

    assert sums_of(decisions(*product)) == 14
    assert sums_of(decisions(((2, 14), MOST_PLACES), ((1, 3), MOST_BLOCKS))) == 14  # depthwise: no blocks
    assert sums_of(decisions(((1, 2, 3, 4), 64), ((4, 7), MOST_PLACES))) == 7
    assert sums_of(decisions(((8, 8), 64))) == 0


def test_what_a_limit_costs_is_the_geometric_mean_over_workloads() -> None:
    row = row_of("d", 14, {"one": [(1.0, 28), (2.0, 14)], "other": [(3.0, 8), (6.0, 32)], "none": [(1.0, 28)]})

    assert (row["workloads"], row["programs"]) == (3, 5)
    assert row["left_out"] == pytest.approx(3 / 5)
    assert row["best_left_out"] == pytest.approx(2 / 3)
    assert row["loss"] == pytest.approx(2**0.5)
