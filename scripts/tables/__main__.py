"""Fills the tables and figures of README.md and docs/ from docs/results: `python -m scripts.tables`."""

from __future__ import annotations

import click

from scripts.bench.common.machine import RESULTS, ROOT
from scripts.tables.figures import read
from scripts.tables.plots import plot_front, plot_seconds, plot_stages, plot_trials
from scripts.tables.results import fill
from scripts.tables.search import but_stock


@click.command()
@click.option("--check", is_flag=True, help="Write nothing; fail if a page is not up to date.")
@click.option("--plots", is_flag=True, help="Draw the pictures of searches again, the front page's among them.")
def main(check: bool, plots: bool) -> None:
    """Fills the tables and figures of README.md and docs/ from docs/results."""
    stale = []
    for page in (ROOT / "README.md", *sorted((ROOT / "docs").rglob("*.md"))):
        text = page.read_text(encoding="utf-8")
        filled = fill(text, RESULTS)
        if filled != text:
            stale.append(page.name)
            if not check:
                page.write_text(filled, encoding="utf-8")
    if plots and not check:
        draw_searches()
    if stale and check:
        raise click.ClickException(f"{', '.join(stale)}: not up to date; run `python -m scripts.tables`.")


def draw_searches() -> None:
    """Draws what the benchmark `search` draws, from its results."""
    rows = read(RESULTS, "search")["rows"]
    plot_front(RESULTS / "front-search.png", rows)
    plot_trials(RESULTS / "search-trials.png", but_stock(rows))
    plot_seconds(RESULTS / "search-seconds.png", but_stock(rows))
    plot_stages(RESULTS / "search-stages.png", rows)
    plot_trials(RESULTS / "search_chip-trials.png", but_stock(read(RESULTS, "search_chip")["rows"]))


if __name__ == "__main__":
    main(prog_name="python -m scripts.tables")
