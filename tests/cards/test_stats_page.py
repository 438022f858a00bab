from __future__ import annotations

import re
import runpy
from html.parser import HTMLParser
from pathlib import Path
from typing import Any

import pytest

from costhub.cards.reports.stats import stats_page

make_stats: Any = runpy.run_path(str(Path(__file__).with_name("folder_of_stats.py")))["make_stats"]
VOID = {"meta", "br", "link", "img"}


class Outline(HTMLParser):
    """Notes tags, whether they close in order, text and attributes."""

    def __init__(self) -> None:
        super().__init__()
        self.open: list[str] = []
        self.tags: list[str] = []
        self.attributes: list[tuple[str, str]] = []
        self.text = ""

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append(tag)
        self.attributes += [(name, value or "") for name, value in attrs]
        if tag not in VOID:
            self.open.append(tag)

    def handle_startendtag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append(tag)
        self.attributes += [(name, value or "") for name, value in attrs]

    def handle_endtag(self, tag: str) -> None:
        assert self.open.pop() == tag

    def handle_data(self, data: str) -> None:
        self.text += data


def outline(page: str) -> Outline:
    parser = Outline()
    parser.feed(page)
    parser.close()
    assert parser.open == []
    return parser


def test_the_page_holds_all_pictures_and_tables() -> None:
    page = outline(stats_page(make_stats(devices=2, workloads=61), title="boards"))

    # Coverage, latencies of two devices, one roofline, noise, failures.
    assert page.tags.count("svg") == 6
    assert {"h1", "figure", "table", "details"} <= set(page.tags)
    for text in ("15,616 measurements", "matmul.60x128x128", "CC-BY-4.0", "3 other kinds are not shown"):
        assert text in page.text


def test_it_fetches_nothing_and_runs_nothing() -> None:
    page = outline(stats_page(make_stats(), title="boards"))

    assert not {"script", "link", "img", "iframe", "object", "foreignobject"} & set(page.tags)
    assert not [name for name, _ in page.attributes if name.startswith("on")]
    addresses = [value for name, value in page.attributes if name in ("href", "xlink:href", "src")]
    assert addresses
    assert all(value.startswith("#") for value in addresses)


def test_ids_are_unique() -> None:
    ids = [value for name, value in outline(stats_page(make_stats(), title="a")).attributes if name == "id"]

    assert len(ids) == len(set(ids))


@pytest.mark.parametrize("name", ["<script>alert(1)</script>", "a&b", '"><b onload="x">', "$x$", "\x1b[2J"])
def test_names_of_strangers_are_only_text(name: str) -> None:
    page = outline(stats_page(make_stats(name=name), title=name))

    assert not {"script", "b"} & set(page.tags)
    assert "onload" not in [attribute for attribute, _ in page.attributes]


def test_an_empty_folder_has_a_page_too(tmp_path: Path) -> None:
    from costhub.dataset.folder import DataFolder
    from costhub.dataset.stats.folder_stats import folder_stats

    page = outline(stats_page(folder_stats(DataFolder.create(tmp_path / "data").path), title="nothing"))

    assert "0 measurements of 0 programs" in page.text
    assert "svg" not in page.tags


def test_a_device_without_good_programs_is_said_to_have_none(tmp_path: Path) -> None:
    from dataclasses import replace

    stats = make_stats(devices=1, workloads=1)
    failed = replace(
        stats.workloads[0],
        ok=0,
        **{key: None for key in ("best_us", "quarter_us", "median_us", "three_quarters_us", "worst_us")},
        spread=None,
        best_gflops=None,
    )
    page = outline(stats_page(replace(stats, workloads=(failed,), noise=(), latency_us={}), title="a"))

    assert "No program ran." in page.text


def test_equal_data_give_equal_pages() -> None:
    first, second = (stats_page(make_stats(), title="boards") for _ in range(2))

    assert first == second
    assert not re.search(r"\d{4}-\d\d-\d\dT", first)
