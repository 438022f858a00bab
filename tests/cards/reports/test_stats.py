from __future__ import annotations

import re
import runpy
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from costhub.cards.reports.stats import stats_page, stats_text
from costhub.dataset.stats.noise import DeviceNoise, Spread

make_stats: Any = runpy.run_path(str(Path(__file__).with_name("folder_of_stats.py")))["make_stats"]
outline: Any = runpy.run_path(str(Path(__file__).parents[1] / "page_outline.py"))["outline"]


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


def test_every_table_is_there() -> None:
    lines = [" ".join(line.split()) for line in stats_text(make_stats()).splitlines()]

    assert lines[0] == "768 measurements of 600 programs"
    assert "board-0 all 9 900 384" in lines
    assert "family2 3 600 330" in lines
    assert "run_error 6 0.8%" in lines
    assert "run_error no registers 0 20" in lines
    assert "board-1 repeats 90 1.00% 9.00%" in lines
    assert "board-0 0.27.0 - - 0.1 384" in lines
    assert "CC-BY-4.0 ann 768" in lines
    assert "board-0 1.2 2.0 3.0 40 500 6,000 7,000,000" in lines
    assert "family2 matmul.2x128x128 128 127 12.0 48 1,200 100 100.0" in lines


def test_of_programs_without_repeats_there_is_no_table_of_noise() -> None:
    stats, none = make_stats(devices=1), Spread(0, None, None, ())
    text = stats_text(replace(stats, noise=(DeviceNoise("board-0", none, none),)))

    assert "noise of" in stats_text(stats)
    assert "noise of" not in text


def test_it_fits_a_terminal_of_a_hundred_columns() -> None:
    text = stats_text(make_stats(name="a-name-longer-than-what-there-is-room-for-"))

    tables = [line for line in text.splitlines() if line.startswith(("family", "run_error"))]
    assert len(tables) > 10
    assert max(map(len, tables)) <= 100


def test_what_strangers_wrote_cannot_speak_to_the_terminal() -> None:
    text = stats_text(make_stats(name="\x1b[2J\x07"))

    assert all(letter.isprintable() or letter == "\n" for letter in text)
