"""Renders the cards of the shipped models again from the figures beside them, and seals the folders."""

from __future__ import annotations

import shutil
import tempfile
from pathlib import Path

import click

from costhub.hub.catalogue.hubs import EMBEDDED, list_models
from costhub.hub.install import install_model


@click.command()
def main() -> None:
    """Needed after every change of the text of cards; weights and figures stay as they are."""
    for entry in list_models():
        if not entry.folder.is_relative_to(EMBEDDED):
            continue  # of $COSTHUB_HUB
        with tempfile.TemporaryDirectory() as temporary:
            copy = Path(shutil.copytree(entry.folder, Path(temporary) / "model"))
            folder = install_model(copy, root=EMBEDDED, org=entry.name.partition("/")[0])
        click.echo(folder.relative_to(EMBEDDED))
