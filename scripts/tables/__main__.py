"""Fills the results tables of README.md and docs/*.md from docs/results/*.json."""

from __future__ import annotations

from pathlib import Path

from scripts.tables.results import fill

ROOT = Path(__file__).resolve().parent.parent

if __name__ == "__main__":
    for page in (ROOT / "README.md", *sorted((ROOT / "docs").glob("*.md"))):
        text = page.read_text()
        filled = fill(text, ROOT / "docs" / "results")
        if filled != text:
            page.write_text(filled)
