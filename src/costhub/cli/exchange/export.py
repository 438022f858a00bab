"""Provides `costhub export`: measurements as a database of another tool."""

from __future__ import annotations

import json
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING

import click

from costhub.cli.shared.choices import DATA, WholeNumber

if TYPE_CHECKING:
    from costhub.hub.data import DataAddress

EXAMPLE = """
\b
Example:
  costhub export metaschedule measurements/ --device nvidia-h200 --out database/
  costhub export metaschedule amd-epyc-zen5-2c --best 1 --out database/
"""


@click.command("export", epilog=EXAMPLE)
@click.argument("kind", metavar="KIND", type=click.Choice(["metaschedule"]))
@click.argument("place", type=DATA, metavar="DATA")
@click.option(
    "--device", metavar="DEVICE", help="Device whose measurements to write; not needed if the data have only one."
)
@click.option("--out", required=True, type=click.Path(path_type=Path), help="Folder to write; must be new.")
@click.option("--best", type=WholeNumber(min=1), help="Write only this many records per workload, the fastest.")
@click.option(
    "--workload", metavar="WORKLOAD", multiple=True, help="Id or name of a workload to write; may be repeated."
)
@click.option("--operator", metavar="OPERATOR", multiple=True, help="Operator family to write; may be repeated.")
@click.option("--no-failures", is_flag=True, help="Leave out programs that failed.")
@click.option("--json", "as_json", is_flag=True, help="Print JSON for programs.")
def command(
    kind: str,
    place: DataAddress,
    device: str | None,
    out: Path,
    best: int | None,
    workload: tuple[str, ...],
    operator: tuple[str, ...],
    no_failures: bool,
    as_json: bool,
) -> None:
    """Write the measurements of DATA in the format of another tool: KIND is metaschedule.

    DATA is a data folder, or the name of a dataset or device in the hubs on this machine.

    Stock TVM reads the folder as ms.database.JSONDatabase(work_dir=OUT), and compile_relax takes the fastest
    program for each layer of a network from it.
    """
    from costhub.dataset.metaschedule.export import export_database

    report = export_database(
        place.folder,
        out,
        device=device or place.device_id,
        workload=workload or None,
        operator=operator or None,
        best=best,
        failures=not no_failures,
    )
    if as_json:
        click.echo(json.dumps({**asdict(report), "folder": str(out)}, indent=2))
    else:
        click.echo(report)
