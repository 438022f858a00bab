"""Fills the results tables of README.md and docs/*.md from docs/results/*.json: `python -m scripts.tables`."""

from __future__ import annotations

import click

from scripts.bench.common.machine import RESULTS, ROOT
from scripts.tables.results import fill


@click.command()
@click.option("--check", is_flag=True, help="Write nothing; fail if a page is not up to date.")
def main(check: bool) -> None:
    """Fills the results tables of README.md and docs/*.md from docs/results/*.json."""
    stale = []
    for page in (ROOT / "README.md", *sorted((ROOT / "docs").glob("*.md"))):
        text = page.read_text(encoding="utf-8")
        filled = fill(text, RESULTS)
        if filled != text:
            stale.append(page.name)
            if not check:
                page.write_text(filled, encoding="utf-8")
    if stale and check:
        raise click.ClickException(f"{', '.join(stale)}: not up to date; run `python -m scripts.tables`.")


if __name__ == "__main__":
    main(prog_name="python -m scripts.tables")
