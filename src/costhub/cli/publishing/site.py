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
@click.option("--json", "as_json", is_flag=True, help="Print JSON for programs.")
def command(out: Path, hubs: tuple[Path, ...], as_json: bool) -> None:
    """Build a static site of a hub: its devices, models, figures, data and cards.

    The site is one page and its pictures. It loads nothing from elsewhere, and any static host can serve it.
    """
    from costhub.cards.site.site_page import site_page
    from costhub.hub.catalogue.hubs import embedded_root, folder_root
    from costhub.hub.site import refuse_occupied, site_contents, write_site

    roots = [folder_root(path) for path in hubs] or [embedded_root()]
    refuse_occupied(out)  # before reading the hub, which takes seconds
    found = site_contents(roots)
    page = write_site(out, site_page(found.site), found.files)
    for sentence in found.left_out:
        click.echo(f"Left out: {sentence}", err=True)
    counts = {
        "models": len(found.site.models),
        "devices": len(found.site.devices),
        "datasets": len(found.site.datasets),
        "pictures": len(found.pictures),
    }
    if as_json:
        click.echo(json.dumps({"page": str(page), **counts, "left_out": list(found.left_out)}, indent=2))
    else:
        click.echo(f"{page}: {', '.join(f'{what}: {count}' for what, count in counts.items())}.")
