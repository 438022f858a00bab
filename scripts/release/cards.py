"""Renders the cards of the shipped models and datasets again from what lies beside them, and seals the models."""

from __future__ import annotations

import shutil
import tempfile
from pathlib import Path

import click

from costhub.api.estimating.estimate import PREDICTOR
from costhub.hub.catalogue.hubs import EMBEDDED, dataset_folders, list_models, read_config
from costhub.hub.install import install_model
from costhub.hub.remote.manifest import write_manifest
from scripts.release.rewrite_shards import rewrite_documents
from scripts.release.train import RELEASES, put_credit, put_datasets, put_devices


@click.command()
def main() -> None:
    """Needed after every change of the text of cards; weights and figures stay as they are.

    Who measured the data of a model is taken from the cards of the datasets. The card of the latency predictor is
    written by its training; what is corrected in it by hand is sealed here.
    """
    for entry in list_models():
        if not entry.folder.is_relative_to(EMBEDDED):
            continue  # of $COSTHUB_HUB
        with tempfile.TemporaryDirectory() as temporary:
            copy = Path(shutil.copytree(entry.folder, Path(temporary) / "model"))
            made = [each for each in RELEASES if (each.device, each.arch) == (entry.device_id, entry.arch)]
            if made and not read_config(copy).get("datasets"):
                put_datasets(copy, made[0])  # models that were trained before configurations named datasets
            if made:
                put_credit(copy, made[0])
            put_devices(copy)
            folder = install_model(copy, root=EMBEDDED, org=entry.name.partition("/")[0])
        click.echo(folder.relative_to(EMBEDDED))
    write_manifest(EMBEDDED / PREDICTOR)
    for place in dataset_folders().values():
        if place.is_relative_to(EMBEDDED):
            rewrite_documents(place)
            click.echo(place.relative_to(EMBEDDED))
