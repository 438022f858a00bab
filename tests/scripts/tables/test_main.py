"""The command that fills the pages: it writes what is not up to date, or says so."""

from __future__ import annotations

from pathlib import Path

import pytest
from click.testing import CliRunner

from scripts.tables import __main__ as tables


@pytest.fixture
def page(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    (tmp_path / "docs").mkdir()
    path = tmp_path / "README.md"
    path.write_text("<!-- results: probe -->\nold\n<!-- end of results -->\n")
    monkeypatch.setattr(tables, "ROOT", tmp_path)
    return path


def test_a_page_that_is_not_up_to_date_is_named_and_left(page: Path) -> None:
    text = page.read_text()

    done = CliRunner().invoke(tables.main, ["--check"])

    assert done.exit_code == 1
    assert "README.md: not up to date" in done.output
    assert page.read_text() == text


def test_a_page_is_filled_and_then_up_to_date(page: Path) -> None:
    assert CliRunner().invoke(tables.main).exit_code == 0

    assert "old" not in page.read_text()
    assert CliRunner().invoke(tables.main, ["--check"]).exit_code == 0
