"""What reports say of a whole network."""

from __future__ import annotations

import ast
from typing import Any

import pytest

from costhub.cards.reports.tune import duration, latency_rows, network_headline, network_usage


def network(**more: Any) -> dict[str, Any]:
    latencies = {
        form: {"median_us": us, "low_us": us, "high_us": us, "calls": 9}
        for form, us in (("untuned", 8000.0), ("tuned", 2000.0), ("torch", 1000.0))
    }
    return {
        "network": "net",
        "error": None,
        "library": 'out/it\'s "net".so',
        "reference": "torch",
        "tolerance": 2e-4,
        "inputs": [["int64", [1, 128]], ["float32", []]],
        "latencies": latencies,
        **more,
    }


def test_the_headline_names_every_form_that_was_timed() -> None:
    assert network_headline(network()) == (
        "net: 8.00 ms before, 2.00 ms after, 4.0 times as fast; torch takes 1.00 ms. "
        "Its outputs equal torch's (tolerance 0.0002 of their size)."
    )
    assert network_headline(network(latencies={})) == "net: compiled and checked, but it could not be timed."
    assert network_headline(network(error="It is wrong.")) == "It is wrong."


def test_ratios_are_those_to_the_tuned_form() -> None:
    assert [row["ratio"] for row in latency_rows(network())] == [4.0, 1.0, 0.5]
    assert latency_rows(network(latencies={"torch": {"median_us": 1.0}}))[0]["ratio"] is None


def test_the_lines_to_use_it_are_python_whatever_the_name() -> None:
    text = network_usage(network())

    ast.parse(text)
    assert "np.zeros((1, 128), 'int64')" in text
    assert network_usage(network(library=None)) == ""


@pytest.mark.parametrize(
    ("us", "text"), [(0.5, "0.50 µs"), (999.0, "999 µs"), (1000.0, "1.00 ms"), (250_000.0, "250 ms")]
)
def test_times_have_three_digits(us: float, text: str) -> None:
    assert duration(us) == text
