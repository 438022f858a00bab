"""The report of a search as a page: what it says, whatever kernels and networks are called."""

from __future__ import annotations

import copy
import runpy
from pathlib import Path
from typing import Any

import pytest

from costhub.cards.reports.tune import tune_page

outline: Any = runpy.run_path(str(Path(__file__).with_name("test_stats_page.py")))["outline"]


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
    assert "2 workloads: 9.0 times as fast as without a schedule in the geometric mean." in page.text


def test_a_search_in_which_nothing_ran_has_a_page_too() -> None:
    empty = {"best_us": None, "untuned_us": None, "share_before": None, "share_after": None, "curve": []}
    summary = {**report(), "networks": [], "estimate": [], "workloads": [row("conv", **empty, stages={})]}

    page = outline(tune_page(summary))

    assert "No program of 1 workload ran." in page.text
    assert "svg" not in page.tags


def test_equal_data_give_equal_pages() -> None:
    assert tune_page(report()) == tune_page(report())
