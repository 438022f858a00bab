"""Provides `costhub evaluate`: how well a model ranks the programs of a data folder."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

import click

from costhub.cli.shared.choices import DATA, MODEL, DecimalNumber
from costhub.cli.shared.figures import figures_table

if TYPE_CHECKING:
    from costhub.hub.data import DataAddress

EXAMPLE = """
\b
Example:
  costhub evaluate any-cpu --data intel-xeon-graniterapids-2c --split workload-40-seed0
  costhub evaluate nvidia-h200 --data measurements/
  costhub evaluate my-model/ --data measurements/ --split my-split.json --json
  costhub evaluate my-model/ --data measurements/ --device cpu-1c --device cpu-2c
  costhub evaluate mine.py:MyModel --data nvidia-h200 --split workload-12-seed0
"""


@click.command("evaluate", epilog=EXAMPLE)
@click.argument("model", type=MODEL, metavar="MODEL|FILE.py:NAME")
@click.option(
    "--data",
    "place",
    required=True,
    type=DATA,
    help="The measurements: a data folder, or the name of a dataset or device.",
)
@click.option(
    "--device",
    "devices",
    multiple=True,
    help="Device whose measurements to use; may be repeated. Not needed if the data or split has only one.",
    metavar="DEVICE",
)
@click.option(
    "--split",
    metavar="SPLIT",
    help="Split, by name in the data folder or as a file: evaluate on its test workloads only.",
)
@click.option("--all", "every", is_flag=True, help="Include workloads that the model was trained on.")
@click.option(
    "--noise-floor",
    default=0.02,
    show_default=True,
    type=DecimalNumber(0, 1, max_open=True),
    help="Relative difference below which two programs count as equally fast.",
)
@click.option("--json", "as_json", is_flag=True, help="Print JSON for programs.")
def command(
    model: str,
    place: DataAddress,
    devices: tuple[str, ...],
    split: str | None,
    every: bool,
    noise_floor: float,
    as_json: bool,
) -> None:
    """Score MODEL (a name, an address or a model folder) on measured programs.

    FILE.py:NAME is an object or class of your own with predict(rows, counts); the file is run as is.

    Workloads that the model was trained on are left out unless --all is given: a good score on them does
    not mean a good model. Programs of different devices are never compared with one another; each workload
    counts once per device.
    """
    from costhub.api.evaluation import described_figures, evaluate

    found = evaluate(model, place, device=devices, split=split, every=every, noise_floor=noise_floor)
    figures = {**described_figures(found, place.folder), "learned": found.learned}
    click.echo(json.dumps(figures, indent=2) if as_json else figures_table(figures))
    if every:
        click.echo(
            "With --all, workloads that the model was trained on may be among these: this is no test, unless the model "
            "has learned nothing from this device.",
            err=True,
        )
