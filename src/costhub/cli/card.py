"""Provides `costhub card`: the card of a model, from its figures on unseen workloads."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

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
    from costhub.cards.markdown import CARD
    from costhub.cards.model_facts import METRICS
    from costhub.hub.catalogue.hubs import CONFIG, read_config
    from costhub.hub.install import write_card
    from costhub.hub.remote.manifest import MANIFEST, verify, write_manifest

    if place is None and (devices or split):
        raise click.UsageError("--device and --split select from --data; name data with it.")
    folder = _own_folder(model, out)
    config = read_config(folder)
    has_manifest = (folder / MANIFEST).is_file()
    if has_manifest:
        verify(folder)  # a damaged model must not get a valid manifest
    figures = _figures(folder, config, place, devices, split)
    write_card(folder, config, figures, name=folder.resolve().name)
    totals = {metric: figures["totals"][metric] for metric in METRICS}
    if config.get("metrics") != totals:
        part = folder / f"{CONFIG}.part"
        part.write_text(json.dumps({**config, "metrics": totals}, indent=2, allow_nan=False) + "\n")
        part.replace(folder / CONFIG)
    if has_manifest:
        write_manifest(folder)
    if as_json:
        click.echo(json.dumps({"card": str(folder / CARD), **totals}, indent=2))
    else:
        figures_text = ", ".join(f"{metric} {value:.3f}" for metric, value in totals.items())
        click.echo(f"Wrote {folder / CARD}: {figures_text}")


def _own_folder(model: str, out: Path | None) -> Path:
    """The folder of the user's to write the card into: that of the model, or a copy."""
    from costhub.hub.catalogue.find import find_model
    from costhub.hub.catalogue.hubs import CONFIG
    from costhub.hub.pull import pull_resolved

    if out is None and (Path(model) / CONFIG).is_file():
        return Path(model)
    found = find_model(model)
    if out is not None:
        return pull_resolved(found, out=out)
    if found.commit is None and not found.entry.is_published:
        return found.entry.folder
    raise click.UsageError(f"{found.entry.name} belongs to a hub and is not changed; name a folder with --out.")


def _figures(
    folder: Path, config: Mapping[str, Any], place: DataAddress | None, devices: tuple[str, ...], split: str | None
) -> Mapping[str, Any]:
    """The figures for the card: of the model's own devices, evaluated now or read from the folder."""
    from costhub.cli.shared.figures import described_figures, evaluated
    from costhub.errors import DataError
    from costhub.hub.catalogue.hubs import EVALUATION
    from costhub.hub.install import read_figures
    from costhub.models.evaluate import NOISE_FLOOR

    if place is None:
        figures = read_figures(folder, EVALUATION)
    else:
        own_folder = str(folder.resolve())
        found = evaluated(own_folder, place, devices, split=split, every=False, noise_floor=NOISE_FLOOR)
        figures = described_figures(found, place.folder)
    if figures is None:
        raise DataError(
            f"{folder} holds no figures for a card ({EVALUATION} is missing). Use --data to name measurements "
            "to evaluate the model on."
        )
    own = {config["device_id"], *(config.get("train_devices") or ())}
    strange = sorted({row["device_id"] for row in figures.get("workloads", ()) if "device_id" in row} - own)
    if strange:
        raise DataError(
            f"The figures are for {', '.join(strange)}, but {folder} is a model for {config['device_id']}. "
            "Choose measurements of the model's device with --data and --device."
        )
    return figures
