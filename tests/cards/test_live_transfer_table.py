from __future__ import annotations

import pytest

from costhub.cards.live_transfer_table import BASE, live_transfer_table, summary


def search_row(
    method: str, best_us: float, seconds: float, curve: list[tuple[int, float, float]]
) -> dict[str, object]:
    return {
        "workload": "w",
        "seed": 0,
        "method": method,
        "best_us": best_us,
        "seconds": seconds,
        "curve": curve,
    }


ROWS = [
    search_row(BASE, 100.0, 10.0, [(16, 3.0, 150.0), (48, 8.0, 100.0)]),
    search_row("better", 50.0, 5.0, [(8, 1.0, 100.5), (16, 2.0, 50.0)]),
    search_row("worse", 200.0, 10.0, [(8, 1.0, 200.0)]),
]


def test_gains_are_those_over_the_base_at_equal_trials() -> None:
    base, better, worse = summary(ROWS)

    assert (base["latency_gain"], base["cmat"], base["trials_gain"]) == (1.0, 0.0, 1.0)
    assert better["latency_gain"] == pytest.approx(2.0)
    assert better["cmat"] == pytest.approx(300.0)  # half the time and half the latency
    assert worse["cmat"] == pytest.approx(-50.0)


def test_trials_and_seconds_are_those_until_the_best_of_the_base() -> None:
    _, better, worse = summary(ROWS)

    assert better["reached"] == 1.0
    assert (better["trials_gain"], better["time_gain"]) == (pytest.approx(6.0), pytest.approx(8.0))
    assert (worse["reached"], worse["trials_gain"], worse["time_gain"]) == (0.0, None, None)


def test_the_table_shows_a_dash_for_what_was_never_reached() -> None:
    table = live_transfer_table({"summary": summary(ROWS)})

    assert "| better | 1 | 2.000 | - | 2.00 | 100% | 6.00 | 8.00 | 300.0 |" in table
    assert "| worse | 1 | 0.500 | - | 1.00 | 0% | - | - | -50.0 |" in table
