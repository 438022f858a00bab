"""Figures inside sentences: they are those of the files, and one that says the opposite is refused."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import pytest

from costhub.errors import DataError
from scripts.tables.figures import FIGURE, fill_figures
from scripts.tables.search import LIGHT

ROOT = Path(__file__).resolve().parents[3]


def place(call: str) -> str:
    return f"It is <!-- figure: {call} -->old<!-- end -->."


def filled(call: str, results: Path) -> str:
    found = FIGURE.search(fill_figures(place(call), results))
    assert found
    return found[0].partition("-->")[2].removesuffix("<!-- end -->")


def search(method: str, *points: tuple[int, float, float]) -> dict[str, Any]:
    curve = [{"trials": trials, "seconds": seconds, "best_us": us} for trials, seconds, us in points]
    return {"workload": "w", "seed": 0, "method": method, "curve": curve}


@pytest.fixture
def results(tmp_path: Path) -> Path:
    rows = [search(LIGHT, (64, 60.0, 40.0), (512, 400.0, 20.0)), search("costhub", (64, 40.0, 21.0))]
    summary = [{"method": "a, b", "gain": 1.159}, {"method": "c", "gain": 0.92}]
    (tmp_path / "search.json").write_text(json.dumps({"rows": rows, "summary": summary, "list": [{"x": 0.5}]}))
    nets = [
        {"network": "n", "method": method, "trials": 16, "error": None, "latencies": {"tuned": {"median_us": us}}}
        for method, us in (("costhub", 100.0), ("costhub", 300.0), ("costhub", 200.0), ("costhub, fast math", 150.0))
    ]
    for name, rate in (("collection", 10.0), ("collection_slow", 2.0)):
        (tmp_path / f"{name}.json").write_text(json.dumps({"rows": [{"profile": {"good_per_s": rate}}]}))
    engines = [
        {"network": network, "engine": engine, "precision": precision, "latency": {"median_us": us}}
        for network, engine, precision, us in (
            ("n", "costhub", "float32", 110.0),
            ("n", "torch", "float32", 100.0),
            ("n", "openvino", "bfloat16", 10.0),
            ("m", "costhub", "float32", 50.0),
            ("m", "torch", "float32", 60.0),
            ("n", "costhub-bf16", "bfloat16", 12.0),
            ("m", "costhub-bf16", "bfloat16", 40.0),
        )
    ]
    (tmp_path / "engines.json").write_text(json.dumps({"rows": engines}))
    (tmp_path / "networks_tuned.json").write_text(json.dumps({"rows": nets}))
    tuned = {"command": "tune", "kernels": 10, "trials": 16, "error": None}
    runs = [{**tuned, "seconds": seconds} for seconds in (32.0, 40.0, 80.0)]
    runs += [{**tuned, "seconds": 1.0, "error": "killed"}, {**tuned, "seconds": 9.0, "command": "compile", "trials": 0}]
    (tmp_path / "network_seconds.json").write_text(json.dumps({"rows": runs}))
    return tmp_path


@pytest.mark.parametrize(
    ("call", "shown"),
    [
        ('value search "summary[method=a, b].gain" more', "16 %"),
        ("value search summary[method=c].gain less", "8 %"),
        ("value search list[x=0.5].x share", "50 %"),
        ("value search list.0.x .3f", "0.500"),
        ('difference search "summary[method=a, b].gain" summary[method=c].gain .3f', "0.239"),
        ('ratio search "summary[method=a, b].gain" summary[method=c].gain more', "26 %"),
        ("behind search costhub 64", "5 %"),
        ("time_share search costhub 64", "10 %"),
        ("searches search costhub", "1"),
        ("standing engines networks", "2"),
        ("standing engines fastest", "1"),
        ("standing engines worst", "10 %"),
        ("standing engines networks costhub-bf16", "2"),
        ("standing engines fastest costhub-bf16", "1"),
        ("standing engines worst costhub-bf16", "20 %"),
        ("collection_hours 72000 least", "2"),
        ("collection_hours 72000 median", "3"),
        ("collection_hours 72000 most", "10"),
        ("trial_seconds least", "0.20"),
        ("trial_seconds median", "0.25"),
        ("trial_seconds most", "0.50"),
        ('network_ratio n "costhub, fast math@16" costhub@16 less', "25 %"),
    ],
)
def test_a_figure_is_that_of_the_file(results: Path, call: str, shown: str) -> None:
    assert filled(call, results) == shown


@pytest.mark.parametrize(
    ("text", "words"),
    [
        (place("nonsense"), "no figure named 'nonsense'"),
        (place("value none x .3f"), "none.json is missing"),
        (place("value search summary[method=zz].gain .3f"), "cannot be rendered"),
        (place("value search summary[method=c].gain more"), "the other way round"),
        ("<!-- figure: searches search costhub -->1<!-- end --> of them", "begins a line"),
        ("- <!-- figure: searches search costhub -->1<!-- end --> of them", "begins a line"),
    ],
)
def test_what_cannot_be_shown_is_a_sentence(results: Path, text: str, words: str) -> None:
    with pytest.raises(DataError, match=words):
        fill_figures(text, results)


def typed(page: str) -> list[str]:
    """The figures of a page that nothing renders: outside tables of results, places of figures and code."""
    text = (ROOT / page).read_text(encoding="utf-8")
    text = re.sub(r"<!-- results: .*?<!-- end of results -->", "", text, flags=re.DOTALL)
    text = re.sub(r"```.*?```|`[^`\n]*`|^ {4}.*$|\]\([^)]*\)", "", FIGURE.sub("", text), flags=re.DOTALL | re.MULTILINE)
    return re.findall(r"\d[\d,.]*\s*(?:%|GB|MB|times|min\b|ms\b|s\b)|\d+\.\d+(?!\.)|\d{1,3},\d{3}", text)


def test_no_figure_of_the_front_page_is_typed() -> None:
    assert [each for each in typed("README.md") if not each.startswith("3.1")] == []  # versions of Python


@pytest.mark.parametrize("page", sorted(path.name for path in (ROOT / "docs/measured").glob("*.md")))
def test_no_figure_of_what_was_measured_is_typed(page: str) -> None:
    chosen = {"1 %", "5 %", "85 %", "0.92", "0.90", "2,048", "2,560", "400,000"}  # thresholds, aims and sizes
    of_others = {"2.9 times", "3.5", "4.2", "0.27"}  # a figure and sections of papers, SSE4.2, a version of TVM

    assert {
        each for each in typed(f"docs/measured/{page}") if each not in chosen | of_others | {"127.0", "0.1"}
    } == set()
