"""Provides `costhub card`: the card of a model, from its figures on unseen workloads."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING

import click

from costhub.cli.shared.choices import DATA, MODEL

if TYPE_CHECKING:
    from costhub.hub.data import DataAddress

EXAMPLE = """
\b
Example:
  costhub card my-model --data measurements/
  costhub card my-model --data measurements/ --split my-split.json
  costhub card my-model --data amd-epyc-zen5-2c --split workload-40-seed0
  costhub card nvidia-h200 --out h200/
"""


@click.command("card", epilog=EXAMPLE)
@click.argument("model", type=MODEL, metavar="MODEL")
@click.option(
    "--data",
    "place",
    type=DATA,
    help="Data to evaluate the model on first: a data folder, or the name of a dataset or device.",
)
@click.option(
    "--device",
    "devices",
    multiple=True,
    help="Device whose measurements to use; may be repeated. Not needed if the data or split has only one.",
    metavar="DEVICE",
)
@click.option(
    "--split", metavar="SPLIT", help="Split, by name in the data or as a file: evaluate on its test workloads only."
)
@click.option(
    "--out",
    type=click.Path(path_type=Path, file_okay=False),
    help="Folder for a copy of the model with its card; by default the card goes into the model's own folder. Required "
    "for a model of a hub, which is not changed.",
)
@click.option("--json", "as_json", is_flag=True, help="Print JSON for programs.")
def command(
    model: str,
    place: DataAddress | None,
    devices: tuple[str, ...],
    split: str | None,
    out: Path | None,
    as_json: bool,
) -> None:
    """Write the card (README.md) of MODEL, with its figures and a picture of them.

    MODEL is a model folder or, with --out, a name as for `costhub pull`. With --data, the model is first evaluated on
    workloads that it was not trained on, as with `costhub evaluate`; without it, the card shows the figures in the
    folder. `costhub publish` requires a card.
    """
    from costhub.api.publishing.card import card

    made = card(model, place, device=devices, split=split, out=out)
    click.echo(json.dumps(made.to_json(), indent=2) if as_json else str(made))
