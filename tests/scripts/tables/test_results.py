"""Results tables: what a page shows is what the files hold, and the README is up to date."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from costhub.errors import DataError
from scripts.tables.results import fill

ROOT = Path(__file__).resolve().parents[3]
ABOUT: dict[str, Any] = {
    "command": "python x.py",
    "machine": "m",
    "device": "d",
    "date": "2026-01-02T03:04:05",
    "versions": {"tvm": "1", "costhub": "2"},
}


PAGES = [ROOT / "README.md", *sorted((ROOT / "docs").rglob("*.md"))]


@pytest.mark.parametrize("page", PAGES, ids=[page.relative_to(ROOT).as_posix() for page in PAGES])
def test_a_page_shows_what_the_files_hold(page: Path) -> None:
    text = page.read_text()
    assert page.name != "README.md" or text.count("<!-- results:") >= 3
    assert fill(text, ROOT / "docs" / "results") == text, "run `python -m scripts.tables`"


def test_a_place_is_filled_and_filling_again_changes_nothing(tmp_path: Path) -> None:
    point = {"trials": 64, "seconds": 1.0, "best_us": 2.0}
    rows = [{"workload": "w", "method": "costhub", "seed": 0, "curve": [point]}]
    (tmp_path / "search.json").write_text(json.dumps({**ABOUT, "summary": [], "rows": rows}))
    page = "before\n<!-- results: search -->\nold\n<!-- end of results -->\nafter\n"
    filled = fill(page, tmp_path)
    assert "costhub" in filled
    assert "old" not in filled
    assert "`python x.py`" in filled
    assert fill(filled, tmp_path) == filled


@pytest.mark.parametrize(("name", "words"), [("search", "json is missing"), ("nonsense", "no results table")])
def test_what_cannot_be_rendered_is_a_sentence(tmp_path: Path, name: str, words: str) -> None:
    with pytest.raises(DataError, match=words):
        fill(f"<!-- results: {name} -->\n<!-- end of results -->", tmp_path)


def test_a_file_without_its_figures_is_a_sentence(tmp_path: Path) -> None:
    (tmp_path / "search.json").write_text("{}")
    with pytest.raises(DataError, match="lacks"):
        fill("<!-- results: search -->\n<!-- end of results -->", tmp_path)
