"""Provides `costhub site`: a static page of what a hub holds."""

from __future__ import annotations

import json
from pathlib import Path

import click

EXAMPLE = """
\b
Example:
  costhub site --out public/
  costhub site --hub /shared/hub --out public/
  costhub site --searches mine.json --out public/
"""


@click.command("site", epilog=EXAMPLE)
@click.option(
    "--out", type=click.Path(path_type=Path), required=True, help="Folder to write; the page is its index.html."
)
@click.option(
    "--hub",
    "hubs",
    type=click.Path(path_type=Path),
    multiple=True,
    help="The folder of a hub; may be repeated. By default, the embedded hub.",
)
@click.option(
    "--searches",
    "results",
    type=click.Path(path_type=Path),
    multiple=True,
    help="A file of `costhub bench search --out`, to add its scores to the hub's; may be repeated.",
)
@click.option("--json", "as_json", is_flag=True, help="Print JSON for programs.")
def command(out: Path, hubs: tuple[Path, ...], results: tuple[Path, ...], as_json: bool) -> None:
    """Build a static site of a hub: its devices, models, figures, data and cards.

    The site is one page and its pictures. It loads nothing from elsewhere, and any static host can serve it.
    """
    from costhub.api.publishing.site import site

    made = site(out, hubs=hubs, searches=results)
    click.echo(json.dumps(made.to_json(), indent=2) if as_json else str(made))
