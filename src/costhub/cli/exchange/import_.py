"""Provides `costhub import`: measurements made by other tools, in a data folder."""

from __future__ import annotations

import gzip
import json
import zlib
from collections.abc import Callable
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from costhub.cli.shared.choices import WholeNumber
from costhub.cli.shared.groups import NamingGroup
from costhub.errors import DataError
from costhub.files import open_regular

if TYPE_CHECKING:
    from costhub.dataset.metaschedule.lines import ImportReport

EXAMPLE = """
\b
Example:
  costhub import metaschedule tuning_logs/ --device nvidia-a100 --out measurements/ --licence MIT --contributor WHO
  costhub import ansor logs/ --device nvidia-v100 --out ansor-rows/ --licence MIT --contributor WHO
  costhub import source bennu/a64fx-resnet18 --out measurements/
"""
METASCHEDULE_EXAMPLE = """
\b
Example:
  costhub import metaschedule tuning_logs/ --device nvidia-a100 --out measurements/ --licence MIT --contributor WHO
  costhub import metaschedule tuning_logs/ --device nvidia-a100 --out measurements/ --names names.json --licence MIT
"""
ANSOR_EXAMPLE = """
\b
Example:
  costhub import ansor logs/ --device nvidia-v100 --out ansor-rows/ --licence MIT --contributor microsoft/nnfusion
  costhub import ansor conv.json.xz --device my-gpu --target '{"kind": "cuda", "arch": "sm_75"}' --out ansor-rows/
"""
SOURCE_EXAMPLE = """
\b
Example:
  costhub import source bennu/a64fx-resnet18 --out a64fx/
  costhub import source 'bennu/rtx3080-*' --out rtx3080/
"""
SOURCES_EXAMPLE = """
\b
Example:
  costhub import sources
  costhub import sources 'bennu/*' --json
"""

_MOST_NAMES_BYTES = 64 << 20


_device_option = click.option(
    "--device",
    metavar="DEVICE",
    required=True,
    help="Id of the measured device (see `costhub devices`), or any name for a device that costhub does not know; only "
    "its kind and, with each row, its target are then recorded.",
)
_out_option = click.option(
    "--out", required=True, type=click.Path(path_type=Path, file_okay=False), help="Data folder."
)


def _credit_options(function: Callable[..., None]) -> Callable[..., None]:
    """The options that every kind of measurement ends with."""
    options = (
        click.option("--contributor", metavar="NAME", help="Who measured it; written into the rows."),
        click.option(
            "--licence",
            metavar="LICENCE",
            help="SPDX name of the licence, written into the rows; without one, they cannot be contributed.",
        ),
        click.option("--workers", type=WholeNumber(min=1), help="Number of child processes; by default one per core."),
        click.option("--json", "as_json", is_flag=True, help="Print the report as JSON."),
    )
    for option in reversed(options):
        function = option(function)
    return function


@click.group("import", cls=NamingGroup, epilog=EXAMPLE)
def command() -> None:
    """Import measurements made by other tools or published by others."""


@command.command("metaschedule", epilog=METASCHEDULE_EXAMPLE)
@click.argument("folder", type=click.Path(path_type=Path))
@_device_option
@_out_option
@click.option(
    "--names",
    type=click.Path(path_type=Path, dir_okay=False),
    help='JSON list with a name per workload, or {"name": ..., "networks": {"resnet18": 1}}.',
)
@_credit_options
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
    """Import the MetaSchedule database in FOLDER, written by TVM 0.10 to 0.27.

    FOLDER holds database_workload.json and database_tuning_record.json, each possibly gzipped, or both as .sqlite.
    Lines that cannot be imported are counted and reported; all others are imported. Run the command again after an
    interruption, or when the database has grown: records already imported are skipped.
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
    _print(report, as_json)


@command.command("ansor", epilog=ANSOR_EXAMPLE)
@click.argument("log", type=click.Path(path_type=Path))
@_device_option
@_out_option
@click.option(
    "--target",
    metavar="TARGET",
    help="Target of the device in TVM 0.27: JSON or a name; by default the target in the device index.",
)
@click.option("--tvm-version", metavar="VERSION", help="TVM version that compiled the programs; written into the rows.")
@_credit_options
def ansor(
    log: Path,
    device: str,
    out: Path,
    target: str | None,
    tvm_version: str | None,
    contributor: str | None,
    licence: str | None,
    workers: int | None,
    as_json: bool,
) -> None:
    """Import LOG, a log (or folder of logs) from Ansor (TVM's auto_scheduler) on a GPU.

    A log may be compressed with gzip or xz. Workload keys must be names with arguments, such as
    ["matmul_layer", 512, 1024, 4096]; a hash does not say what was computed. Every record becomes a row, or is
    counted with the reason why not. The rows are transplanted: TVM 0.27 makes the same program, but the latency is that
    of code from an older TVM. Run the command again after an interruption: records already imported are skipped.
    """
    from costhub.api.data_tools import import_ansor

    report = import_ansor(
        log,
        out,
        device=device,
        target=target,
        contributor=contributor,
        licence=licence,
        tvm_version=tvm_version,
        workers=workers,
    )
    _print(report, as_json)


def _print(report: ImportReport, as_json: bool) -> None:
    click.echo(json.dumps(asdict(report), indent=2) if as_json else report)


_catalogue_option = click.option(
    "--catalogue",
    type=click.Path(path_type=Path, dir_okay=False),
    help="YAML file to use instead of costhub's own catalogue, in the same format (docs/import.md).",
)


@command.command("source", epilog=SOURCE_EXAMPLE)
@click.argument("name")
@click.option("--out", required=True, type=click.Path(path_type=Path, file_okay=False), help="Data folder.")
@_catalogue_option
@click.option("--workers", type=WholeNumber(min=1), help="Number of child processes; by default one per core.")
@click.option("--json", "as_json", is_flag=True, help="Print the reports as JSON.")
def import_source(name: str, out: Path, catalogue: Path | None, workers: int | None, as_json: bool) -> None:
    """Fetch published measurements with git, and import them.

    NAME is one listed by `costhub import sources`, or a pattern such as 'bennu/a64fx-*'. The files are fetched at the
    catalogue's revision, into the cache; nothing in a repository is run or followed. The rows carry the device,
    contributor and licence.
    """
    from costhub.api import data_tools

    reports = data_tools.import_source(name, out, catalogue=catalogue, workers=workers)
    if as_json:
        click.echo(json.dumps({each: asdict(report) for each, report in reports.items()}, indent=2))
    else:
        click.echo("\n".join(line for each, report in reports.items() for line in (each, *report.sentences())))


@command.command("sources", epilog=SOURCES_EXAMPLE)
@click.argument("pattern", default="*")
@_catalogue_option
@click.option("--json", "as_json", is_flag=True, help="Print the sources as JSON.")
def list_sources(pattern: str, catalogue: Path | None, as_json: bool) -> None:
    """List published measurements that `costhub import source` can fetch: all, or those matching PATTERN."""
    from costhub.hub.sources.catalogue import SOURCES_FILE, find_sources, load_sources

    found = find_sources(pattern, load_sources(catalogue or SOURCES_FILE))
    if as_json:
        click.echo(json.dumps([asdict(source) for source in found], indent=2))
        return
    width = max(len(source.name) for source in found)
    for source in found:
        rows = f"{source.rows:,} {source.rows_from}" if source.rows else "not counted"
        note = f"; {source.note}" if source.note else ""
        click.echo(f"{source.name:{width}}  {source.device}, {rows}, {source.licence}{note}")


def _read_names(path: Path) -> list[Any]:
    try:
        with open_regular(path, error=DataError) as raw:
            file = gzip.GzipFile(fileobj=raw) if path.suffix == ".gz" else raw
            content = file.read(_MOST_NAMES_BYTES + 1)
        if len(content) > _MOST_NAMES_BYTES:
            raise ValueError(f"it is longer than {_MOST_NAMES_BYTES:,} bytes")
        names = json.loads(content)
    except (OSError, EOFError, ValueError, RecursionError, zlib.error) as error:
        raise DataError(f"{path} cannot be read as JSON ({error}); it should hold a list of names.") from error
    if not isinstance(names, list):
        raise DataError(f"{path} is not a JSON list; it should hold one name per workload of the database.")
    return names
