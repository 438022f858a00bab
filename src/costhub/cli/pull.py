"""Provides `costhub pull`: a verified copy of a model, by name or address."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING

import click

from costhub.cli.shared.choices import ARCHITECTURE, MODEL
from costhub.terminal_text import clean

if TYPE_CHECKING:
    from costhub.hub.catalogue.find import ResolvedModel

EXAMPLE = """
\b
Example:
  costhub pull auto
  costhub pull amd-epyc-zen5-2c --arch gbt --out my-model
  costhub pull nvidia-h200 --locked
  costhub pull --locked --data amd-epyc-zen5
  costhub evaluate $(costhub pull nvidia-h200) --data nvidia-h200
"""


@click.command("pull", epilog=EXAMPLE)
@click.argument("name", type=MODEL, metavar="NAME")
@click.option(
    "--locked", is_flag=True, help="Use exactly the version that costhub.lock pins for NAME (see costhub lock)."
)
@click.option(
    "--lock-file",
    type=click.Path(path_type=Path, dir_okay=False),
    help="The lock file that --locked reads; by default costhub.lock.",
)
@click.option("--data", "is_data", is_flag=True, help="NAME is a dataset of the lock file: print its data folder.")
@click.option("--arch", type=ARCHITECTURE, help="Architecture; by default that of the best model.")
@click.option("--out", type=click.Path(path_type=Path), help="Model folder to write; by default in the cache.")
@click.option("--json", "as_json", is_flag=True, help="Print JSON for programs.")
def command(
    name: str,
    locked: bool,
    lock_file: Path | None,
    is_data: bool,
    arch: str | None,
    out: Path | None,
    as_json: bool,
) -> None:
    """Fetch a cost model by the name of its device.

    NAME is a device id or alias, with @REVISION to pin one version; `auto` for the best model for this machine (one
    for its own device, or else any-cpu or any-gpu); hf-hub:ORG/NAME@REVISION for the Hugging Face hub; or the path of
    a folder. Only the path of the model folder is printed to stdout. With --locked --data, NAME is a dataset, and the
    path is that of its folder, for the --data of other commands.
    """
    from costhub.hub.catalogue.find import AUTO, find_model
    from costhub.hub.pull import pull_resolved

    if lock_file is not None and not locked:
        raise click.UsageError("--lock-file names the file that --locked reads; give --locked as well.")
    if is_data:
        _pull_data(name, locked=locked, lock_file=lock_file, others=arch or out, as_json=as_json)
        return
    if locked:
        if arch is not None:
            raise click.UsageError("--locked takes the version in the lock file, which has one architecture.")
        from costhub.hub.lock import LOCK_FILE, find_locked

        found = find_locked(name, path=lock_file or LOCK_FILE)
    else:
        found = _here(arch) if name == AUTO else find_model(name, arch=arch)
    folder = pull_resolved(found, out=out)
    entry = found.entry
    if as_json:
        fields = {
            "folder": str(folder),
            "name": entry.name,
            "device": entry.device_id,
            "arch": entry.arch,
            "revision": found.revision,
            "origin": entry.origin,
            "top_1": entry.top_1,
            "reason": found.reason,
        }
        click.echo(json.dumps(fields, indent=2))
        return
    # On stderr, so that `$(costhub pull NAME)` is the folder.
    said = f"{entry.name}: the {entry.arch} model for {entry.device_id}, from {entry.origin}."
    for sentence in (said, found.reason):  # names of a shared hub come from anybody
        click.echo(clean(sentence, 1000), err=True)
    if found.revision:
        click.echo(f"revision {found.revision[:12]}", err=True)
    click.echo(str(folder))


def _pull_data(name: str, *, locked: bool, lock_file: Path | None, others: object, as_json: bool) -> None:
    """Prints the folder of a locked dataset."""
    from costhub.hub.lock import LOCK_FILE, pull_locked_data

    if not locked:
        raise click.UsageError("--data prints a dataset that a lock file pins; give --locked as well.")
    if others:
        raise click.UsageError("--data prints where the dataset is, for reading only; leave --out and --arch out.")
    folder = pull_locked_data(name, path=lock_file or LOCK_FILE)
    click.echo(json.dumps({"folder": str(folder), "name": name}, indent=2) if as_json else str(folder))


def _here(arch: str | None) -> ResolvedModel:
    from costhub.collector.device.identity import identify
    from costhub.hub.catalogue.find import AUTO, choose_model

    return choose_model(AUTO, identify(), arch=arch)
