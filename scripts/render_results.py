"""Fills the results tables of README.md from docs/results/*.json."""

from __future__ import annotations

from pathlib import Path

from costhub.cards.results import fill

ROOT = Path(__file__).resolve().parent.parent

if __name__ == "__main__":
    readme = ROOT / "README.md"
    readme.write_text(fill(readme.read_text(), ROOT / "docs" / "results"))
