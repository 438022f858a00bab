"""Networks in a table: medians over seeds, and nothing of a network that computes something else."""

from __future__ import annotations

from typing import Any

from scripts.tables.networks import networks_table, operators_table


def row(seed: int, tuned_us: float, **more: Any) -> dict[str, Any]:
    latencies = {"untuned": 9000.0, "tuned": tuned_us, "torch": 4000.0}
    return {
        "network": "net",
        "trials": 64,
        "seed": seed,
        "method": "m",
        "error": None,
        "seconds": 100.0 * (seed + 1),
        "latencies": {form: {"median_us": us} for form, us in latencies.items()},
        **more,
    }


def test_a_line_has_medians_and_the_spread() -> None:
    shown = networks_table({"rows": [row(0, 2000.0), row(1, 1000.0), row(2, 2500.0)]}).splitlines()

    assert shown[-1] == "| net | m | 64 | 3 | 0 | 9.00 | 2.00 | 1.00 to 2.50 | 4.00 | - | 2.00 | 200 |"


def test_a_wrong_network_has_no_latency() -> None:
    shown = networks_table({"rows": [row(0, 2000.0), row(1, 1.0, error="It differs.")]}).splitlines()

    assert shown[-1] == "| net | m | 64 | 2 | 1 | 9.00 | 2.00 | 2.00 to 2.00 | 4.00 | - | 2.00 | 150 |"


def test_trials_and_methods_have_lines_of_their_own() -> None:
    rows = [row(0, 2000.0), row(0, 1000.0, trials=128), row(0, 1500.0, method="n")]

    assert len(networks_table({"rows": rows}).splitlines()) == 5


def test_without_rows_it_says_so() -> None:
    assert networks_table({"rows": []}) == "Not measured yet."


def test_a_line_shows_medians_and_the_last_one_the_mean_of_the_ratios() -> None:
    rows = [{"workload": "a", "best_us": 10.0, "torch_us": us, "seconds": 5.0} for us in (30.0, 40.0, 90.0)] + [
        {"workload": "b", "best_us": 10.0, "torch_us": 10.0, "seconds": 5.0}
    ]

    lines = operators_table({"rows": rows}).splitlines()

    assert "| a | 3 | 10.0 | 40.0 | 4.00 | 3.00 to 9.00 | 5 |" in lines
    assert "2.00" in lines[-1]
    assert lines[-1].startswith("| geometric mean |")
