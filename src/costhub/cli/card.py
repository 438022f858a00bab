"""Provides `costhub card`: the card of a model, from its figures on unseen workloads."""

from __future__ import annotations

import json
from pathlib import Path

import click

EXAMPLE = """
\b
Example:
  costhub card my-model --data measurements/
  costhub card my-model --data measurements/ --split my-split.json
  costhub card my-model
"""


@click.command("card", epilog=EXAMPLE)
@click.argument("folder", type=click.Path(path_type=Path))
@click.option("--data", type=click.Path(path_type=Path), help="Data folder to evaluate the model on first.")
@click.option("--device", "devices", multiple=True, help="Device whose measurements to use, may be repeated.")
@click.option("--split", help="Split, by name in the data folder or as a file: its test workloads only.")
@click.option("--json", "as_json", is_flag=True, help="Print JSON for programs.")
def command(
    folder: Path, data: Path | None, devices: tuple[str, ...], split: str | None, as_json: bool
) -> None:
    """Write the card (README.md) of the model in FOLDER, with its figures and a picture of them.

    With --data the model is evaluated on the workloads that it has not learned from, as by `costhub
    evaluate`; without, the card shows the figures that the folder holds. `costhub publish` asks for a card.
    """
    from costhub.cards.front_matter import CARD
    from costhub.cards.model_card import METRICS
    from costhub.cli.evaluate import evaluated
    from costhub.errors import DataError
    from costhub.hub.install import EVALUATION, read_recorded, write_card
    from costhub.hub.manifest import MANIFEST, write_manifest
    from costhub.hub.shelf import read_config
    from costhub.models.evaluation.evaluate import NOISE_FLOOR

    config = read_config(folder)
    if data is None:
        if devices or split:
            raise click.UsageError("--device and --split select from --data; name a data folder with it.")
        figures = read_recorded(folder, EVALUATION)
    else:
        figures = evaluated(
            str(folder.resolve()), data, devices, split=split, every=False, noise_floor=NOISE_FLOOR
        )
    if figures is None:
        raise DataError(
            f"{folder} holds no figures that a card could show (it has no {EVALUATION}). Name measurements "
            "to evaluate the model on with --data."
        )
    write_card(folder, config, figures, name=folder.resolve().name)
    if (folder / MANIFEST).is_file():
        write_manifest(folder)  # it names the hash of the card
    totals = {metric: figures["totals"][metric] for metric in METRICS}
    if as_json:
        click.echo(json.dumps({"card": str(folder / CARD), **totals}, indent=2))
    else:
        told = ", ".join(f"{metric} {value:.3f}" for metric, value in totals.items())
        click.echo(f"Wrote {folder / CARD}: {told}")
