"""The report of a search as a page: what it says, whatever kernels and networks are called."""

from __future__ import annotations

import ast
import copy
import runpy
from pathlib import Path
from typing import Any

import pytest
from markdown_it import MarkdownIt

from costhub.cards.reports.tune import (
    _latency_rows,
    _network_usage,
    duration_text,
    network_headline,
    speedup,
    tune_markdown,
    tune_page,
)
from costhub.errors import DataError

outline: Any = runpy.run_path(str(Path(__file__).parents[1] / "page_outline.py"))["outline"]


def latency(us: float) -> dict[str, Any]:
    return {"median_us": us, "low_us": us * 0.9, "high_us": us * 1.2, "calls": 40}


def row(name: str, **more: Any) -> dict[str, Any]:
    stages = {"evolution": 5.0, "building": 2.0, "running": 3.0}
    return {
        "workload": name,
        "weight": 2.0,
        "trials": 64,
        "failures": 1,
        "seconds": 10.0,
        "untuned_us": 900.0,
        "best_us": 100.0,
        "share_before": 0.75,
        "share_after": 0.5,
        "stages": stages,
        "curve": [[1, 400.0], [20, 120.0], [64, 100.0]],
        **more,
    }


def report(kernel: str = "conv", network: str = "net") -> dict[str, Any]:
    whole = {
        "network": network,
        "threads": 2,
        "error": None,
        "library": f"out/{network}.so",
        "reference": "torch",
        "tolerance": 2e-4,
        "inputs": [["float32", [1, 3, 8, 8]]],
        "kernels": 5,
        "kernels_tuned": 2,
        "latencies": {"untuned": latency(9000.0), "tuned": latency(3000.0), "torch": latency(4500.0)},
        "notes": [f"{network} was not timed."],
    }
    return {
        "device": "acme-one",
        "machine": "ACME One, 2 cores",
        "model": "acme/model",
        "method": "search",
        "model_reason": "It is the only one.",
        "database": "out",
        "command": f"costhub tune {network}",
        "created": "2026-01-02T03:04:05+00:00",
        "versions": {"tvm": "0.27"},
        "networks": [whole],
        "estimate": [[0, 2800.0], [1, 1800.0], [84, 300.0]],
        "workloads": [row(kernel), row("matmul", share_before=0.25, share_after=0.5, curve=[])],
    }


def test_the_page_says_what_became_of_the_network() -> None:
    page = outline(tune_page(report()))

    assert "net: 9.00 ms before, 3.00 ms after, 3.0 times as fast; torch takes 4.50 ms" in page.text
    assert "Its outputs equal torch's (tolerance 0.0002 of their size)" in page.text
    assert "2 of its 5 distinct kernels" in page.text
    assert "tvm.runtime.load_module('out/net.so')" in page.text
    assert "costhub tune net" in page.text
    assert page.tags.count("svg") == 4  # forms, all kernels, curves, seconds
    assert "75.0%" in page.text


def test_it_fetches_nothing_and_ids_are_unique() -> None:
    two = report()
    two["networks"].append({**copy.deepcopy(two["networks"][0]), "network": "other"})
    page = outline(tune_page(two))

    assert not {"script", "link", "img", "iframe", "object"} & set(page.tags)
    addresses = [value for name, value in page.attributes if name in ("href", "xlink:href", "src")]
    assert all(value.startswith("#") for value in addresses)
    ids = [value for name, value in page.attributes if name == "id"]
    assert len(ids) == len(set(ids))


@pytest.mark.parametrize(
    "name", ["<script>alert(1)</script>", "a&b", '"><b onload="x">', "$x$", "\x1b[2J", "</pre>", "k" * 300]
)
def test_names_of_strangers_are_only_text(name: str) -> None:
    page = outline(tune_page(report(kernel=name, network=name)))

    assert not {"script", "b"} & set(page.tags)
    assert "onload" not in [attribute for attribute, _ in page.attributes]
    assert name in page.text or "\x1b" in name


def test_names_of_strangers_are_only_text_in_markdown_too() -> None:
    name = "<img src=x onerror=alert(1)> | `a`\n# b"
    text = tune_markdown(report(kernel=name, network=name), plots=[f"{name}.svg"])
    tokens = MarkdownIt("commonmark", {"html": True}).enable("table").parse(text)
    inside = [child for token in tokens for child in token.children or []]

    assert not [token for token in [*tokens, *inside] if token.type.startswith("html")]
    assert all("alert" not in token.content for token in tokens if token.type == "code_inline")
    rows = [child.content for child in inside if child.type == "text" and "<img" in child.content]
    assert rows
    assert not [t for t in inside if t.type == "image" and "<" in str(t.attrs["src"])]


def test_a_network_that_failed_is_told_without_figures() -> None:
    summary = report()
    summary["networks"][0] |= {"error": "The outputs are <wrong>.", "library": None, "latencies": {}}
    page = outline(tune_page(summary))

    assert "The outputs are <wrong>." in page.text
    assert "load_module" not in page.text


def test_workloads_without_a_network_have_a_page_too() -> None:
    summary = {**report(), "networks": [], "estimate": []}

    page = outline(tune_page(summary))

    assert "2 workloads on acme-one" in page.text
    assert "9.00 times as fast as the unscheduled, in the geometric mean of 2 workloads." in page.text


def test_a_search_in_which_nothing_ran_has_a_page_too() -> None:
    empty: dict[str, Any] = {
        "best_us": None,
        "untuned_us": None,
        "share_before": None,
        "share_after": None,
        "curve": [],
    }
    summary = {**report(), "networks": [], "estimate": [], "workloads": [row("conv", **empty, stages={})]}

    page = outline(tune_page(summary))

    assert "No program ran for conv." in page.text
    assert "svg" not in page.tags


def test_equal_data_give_equal_pages() -> None:
    assert tune_page(report()) == tune_page(report())


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
    text = tune_markdown(summary, plots=["conv.png"])

    assert "84 programs of 2 workloads were measured in 50 s, 3 of them failed." in text
    assert "6.00 times as fast as the unscheduled, in the geometric mean of 2 workloads." in text
    assert "| conv | 900.00 | 100.00 | 9.00 | 64 | 3 | 40.2 |" in text
    assert "| Model | costhub/acme-one-mlp. It is the only model for acme-one in the hubs here. |" in text
    assert "![conv.png](conv.png)" in text
    assert "JSONDatabase(work_dir='out/database')" in text


def test_seconds_are_shown_by_stage_where_they_are_known(summary: dict[str, Any]) -> None:
    assert "Where the time went" not in tune_markdown(summary)
    summary["workloads"][0]["stages"] = {
        "evolution": 10.0,
        "features": 4.0,
        "prediction": 1.0,
        "running": 25.0,
    }

    text = tune_markdown(summary)

    assert "| conv | 10.0 | 4.0 | 1.00 | - | - | 25.0 | - | 2.5% |" in text
    assert "| matmul | 10.0" not in text


def test_progress_stops_where_a_search_stopped(summary: dict[str, Any]) -> None:
    text = tune_markdown(summary)

    assert "| workload | 16 (µs) | 32 (µs) | 64 (µs) |" in text
    assert "| conv | 400.00 | 120.00 | 100.00 |" in text
    assert "| matmul | 30.00 | - | - |" in text


def test_a_last_trial_that_failed_takes_no_milestone_away(summary: dict[str, Any]) -> None:
    summary["workloads"][0]["curve"].pop()

    text = tune_markdown(summary)

    assert "| workload | 16 (µs) | 32 (µs) | 64 (µs) |" in text
    assert "| conv | 400.00 | 120.00 | 120.00 |" in text


def test_a_search_that_found_nothing_says_so(summary: dict[str, Any]) -> None:
    summary["workloads"] = [{**summary["workloads"][0], "best_us": None, "failures": 64, "curve": []}]

    text = tune_markdown(summary)

    assert "No program ran for conv." in text
    assert "| conv | 900.00 | - | - | 64 | 64 | 40.2 |" in text
    assert "The tuned code is" not in text


@pytest.mark.parametrize("key", ["device", "model", "method", "database", "workloads"])
def test_a_summary_with_a_gap_is_refused(summary: dict[str, Any], key: str) -> None:
    del summary[key]

    with pytest.raises(DataError, match=f"needs {key}, which the summary lacks"):
        tune_markdown(summary)


def test_a_row_with_a_gap_is_refused(summary: dict[str, Any]) -> None:
    del summary["workloads"][1]["best_us"]

    with pytest.raises(DataError, match="needs best_us, which the row of matmul lacks"):
        tune_markdown(summary)


@pytest.mark.parametrize(("untuned", "best", "expected"), [(30.0, 10.0, 3.0), (None, 10.0, None), (30.0, None, None)])
def test_speedup_needs_both_sides(untuned: float | None, best: float | None, expected: float | None) -> None:
    assert speedup({"untuned_us": untuned, "best_us": best}) == expected


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
    assert [row["ratio"] for row in _latency_rows(network())] == [4.0, 1.0, 0.5]
    assert _latency_rows(network(latencies={"torch": {"median_us": 1.0}}))[0]["ratio"] is None


def test_the_lines_to_use_it_are_python_whatever_the_name() -> None:
    text = _network_usage(network())

    ast.parse(text)
    assert "np.zeros((1, 128), 'int64')" in text


@pytest.mark.parametrize(
    ("us", "text"), [(0.5, "0.50 µs"), (999.0, "999 µs"), (1000.0, "1.00 ms"), (250_000.0, "250 ms")]
)
def test_times_have_three_digits(us: float, text: str) -> None:
    assert duration_text(us) == text
