from __future__ import annotations

from typing import Any

import pytest

from costhub.cards.reports.tune import render_report, speedup
from costhub.errors import DataError


@pytest.fixture
def summary() -> dict[str, Any]:
    conv = {
        "workload": "conv",
        "trials": 64,
        "failures": 3,
        "seconds": 40.25,
        "untuned_us": 900.0,
        "best_us": 100.0,
    }
    matmul = {
        "workload": "matmul",
        "trials": 20,
        "failures": 0,
        "seconds": 10.0,
        "untuned_us": 40.0,
        "best_us": 10.0,
    }
    return {
        "device": "acme-one",
        "model": "costhub/acme-one-mlp",
        "model_reason": "It is the only model for acme-one in the hubs here.",
        "method": "evolutionary search",
        "database": "out/database",
        "versions": {"tvm": "0.27"},
        "workloads": [
            {**conv, "curve": [(1, 0.5, 400.0), (20, 9.0, 120.0), (64, 40.0, 100.0)]},
            {**matmul, "curve": [(1, 0.5, 30.0), (18, 9.0, 10.0)]},
        ],
    }


def test_the_result_is_one_sentence_and_a_table(summary: dict[str, Any]) -> None:
    text = render_report(summary, plots=["conv.png"])

    assert "84 programs of 2 workloads were measured in 50 s, 3 of them failed." in text
    assert "6.00 times as fast as the unscheduled, in the geometric mean of 2 workloads." in text
    assert "| conv | 64 | 3 | 40.2 | 900.00 | 100.00 | 9.00 |" in text
    assert "- model: costhub/acme-one-mlp. It is the only model for acme-one in the hubs here.\n" in text
    assert "![conv.png](conv.png)" in text
    assert "JSONDatabase(work_dir='out/database')" in text


def test_seconds_are_shown_by_stage_where_they_are_known(summary: dict[str, Any]) -> None:
    assert "Where the time went" not in render_report(summary)
    summary["workloads"][0]["stages"] = {
        "evolution": 10.0,
        "features": 4.0,
        "prediction": 1.0,
        "running": 25.0,
    }

    text = render_report(summary)

    assert "| conv | 10.0 | 4.0 | 1.00 | - | - | 25.0 | - | 2.5% |" in text
    assert "| matmul | 10.0" not in text


def test_progress_stops_where_a_search_stopped(summary: dict[str, Any]) -> None:
    text = render_report(summary)

    assert "| workload | 16 (µs) | 32 (µs) | 64 (µs) |" in text
    assert "| conv | 400.00 | 120.00 | 100.00 |" in text
    assert "| matmul | 30.00 | - | - |" in text


def test_a_last_trial_that_failed_takes_no_milestone_away(summary: dict[str, Any]) -> None:
    summary["workloads"][0]["curve"].pop()

    text = render_report(summary)

    assert "| workload | 16 (µs) | 32 (µs) | 64 (µs) |" in text
    assert "| conv | 400.00 | 120.00 | 120.00 |" in text


def test_a_search_that_found_nothing_says_so(summary: dict[str, Any]) -> None:
    summary["workloads"] = [{**summary["workloads"][0], "best_us": None, "failures": 64, "curve": []}]

    text = render_report(summary)

    assert "No program ran for conv." in text
    assert "| conv | 64 | 64 | 40.2 | 900.00 | - | - |" in text
    assert "times as fast" not in text


@pytest.mark.parametrize("key", ["device", "model", "method", "database", "workloads"])
def test_a_summary_with_a_gap_is_refused(summary: dict[str, Any], key: str) -> None:
    del summary[key]

    with pytest.raises(DataError, match=f"needs {key}, which the summary lacks"):
        render_report(summary)


def test_a_row_with_a_gap_is_refused(summary: dict[str, Any]) -> None:
    del summary["workloads"][1]["best_us"]

    with pytest.raises(DataError, match="needs best_us, which the row of matmul lacks"):
        render_report(summary)


@pytest.mark.parametrize(("untuned", "best", "expected"), [(30.0, 10.0, 3.0), (None, 10.0, None), (30.0, None, None)])
def test_speedup_needs_both_sides(untuned: float | None, best: float | None, expected: float | None) -> None:
    assert speedup({"untuned_us": untuned, "best_us": best}) == expected
