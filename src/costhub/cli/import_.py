"""Provides `costhub import`: measurements made by other tools, in a data folder."""

from __future__ import annotations

import gzip
import json
from dataclasses import asdict
from pathlib import Path
from typing import Any

import click

from costhub.cli.shared.groups import NamingGroup
from costhub.errors import DataError
from costhub.files import open_regular

EXAMPLE = """
\b
Example:
  costhub import metaschedule tuning_logs/ --device nvidia-a100 --out measurements/
"""
METASCHEDULE_EXAMPLE = """
\b
Example:
  costhub import metaschedule tuning_logs/ --device nvidia-a100 --out measurements/
  costhub import metaschedule tuning_logs/ --device nvidia-a100 --out measurements/ --names names.json --licence MIT
"""

_MOST_NAMES_BYTES = 64 << 20


@click.group("import", cls=NamingGroup, epilog=EXAMPLE)
def command() -> None:
    """Import measurements made by other tools."""


@command.command("metaschedule", epilog=METASCHEDULE_EXAMPLE)
@click.argument("folder", type=click.Path(path_type=Path))
@click.option("--device", metavar="DEVICE", required=True, help="Id of the measured device (see `costhub devices`).")
@click.option("--out", required=True, type=click.Path(path_type=Path, file_okay=False), help="Data folder.")
@click.option(
    "--names",
    type=click.Path(path_type=Path, dir_okay=False),
    help='JSON list with a name per workload, or {"name": ..., "networks": {"resnet18": 1}}.',
)
@click.option("--contributor", metavar="NAME", help="Name written into the rows.")
@click.option("--licence", metavar="LICENCE", help="SPDX name of the licence of the database, written into the rows.")
@click.option("--workers", type=click.IntRange(min=1), help="Number of child processes; by default one per core.")
@click.option("--json", "as_json", is_flag=True, help="Print the report as JSON.")
def metaschedule(
    folder: Path,
    device: str,
    out: Path,
    names: Path | None,
    contributor: str | None,
    licence: str | None,
    workers: int | None,
    as_json: bool,
) -> None:
    """Import the MetaSchedule database in FOLDER, of TVM 0.10 to 0.27.

    FOLDER holds database_workload.json and database_tuning_record.json; each may be gzipped. Lines that
    cannot be imported are counted and reported; all others are imported. Run the command again after an
    interruption, or when the database has grown: records that were already imported are skipped.
    """
    from costhub.api.data_tools import import_metaschedule

    report = import_metaschedule(
        folder,
        out,
        device=device,
        names=None if names is None else _read_names(names),
        contributor=contributor,
        licence=licence,
        workers=workers,
    )
    click.echo(json.dumps(asdict(report), indent=2) if as_json else "\n".join(report.sentences()))


def _read_names(path: Path) -> list[Any]:
    try:
        with open_regular(path, error=DataError) as raw:
            file = gzip.GzipFile(fileobj=raw) if path.suffix == ".gz" else raw
            content = file.read(_MOST_NAMES_BYTES + 1)
        if len(content) > _MOST_NAMES_BYTES:
            raise ValueError(f"it is longer than {_MOST_NAMES_BYTES:,} bytes")
        names = json.loads(content)
    except (OSError, EOFError, ValueError, RecursionError) as error:
        raise DataError(f"{path} cannot be read as JSON ({error}); it should hold a list of names.") from error
    if not isinstance(names, list):
        raise DataError(f"{path} is not a JSON list; it should hold one name per workload of the database.")
    return names
