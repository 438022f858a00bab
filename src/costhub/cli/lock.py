"""Provides `costhub lock`: models and datasets of a project, pinned by revision and hash."""

from __future__ import annotations

import json
from pathlib import Path

import click

EXAMPLE = """
\b
Example:
  costhub lock nvidia-h200 --data amd-epyc-zen5
  costhub lock --check
  costhub pull --locked nvidia-h200
"""


@click.command("lock", epilog=EXAMPLE)
@click.argument("models", nargs=-1, metavar="[NAME]...")
@click.option("--data", "datasets", multiple=True, metavar="NAME", help="A hub dataset to lock; may be repeated.")
@click.option("--check", "is_check", is_flag=True, help="Write nothing; fail if something differs from the file.")
@click.option(
    "--file",
    "path",
    type=click.Path(path_type=Path, dir_okay=False),
    default="costhub.lock",
    show_default=True,
    help="The lock file.",
)
@click.option("--json", "as_json", is_flag=True, help="Print JSON for programs.")
@click.pass_context
def command(
    context: click.Context,
    models: tuple[str, ...],
    datasets: tuple[str, ...],
    is_check: bool,
    path: Path,
    as_json: bool,
) -> None:
    """Pin models and datasets of a project in a lock file.

    NAME is a model, as for `costhub pull`. Names already in the file stay; without any NAME, all names in the file
    are pinned again. --check hashes everything and exits with 1 if a name now stands for something else, or if
    content differs.
    """
    from costhub.hub.lock import check_lock, lock

    if is_check:
        if models or datasets:
            raise click.UsageError("--check compares everything in the file; leave the names out.")
        differences = check_lock(path)
        _report(differences, path, as_json=as_json)
        context.exit(1 if differences else 0)
    pins = lock(models, datasets, path=path)
    if as_json:
        click.echo(json.dumps([vars(pin) for pin in pins], indent=2))
        return
    for pin in pins:
        click.echo(f"{pin.kind} {pin.name}: {pin.resolved} {(pin.commit or pin.sha256)[:12]}")
    click.echo(f"Wrote {path}.", err=True)


def _report(differences: list[str], path: Path, *, as_json: bool) -> None:
    if as_json:
        click.echo(json.dumps({"file": str(path), "differences": differences}, indent=2))
        return
    for sentence in differences:
        click.echo(sentence)
    if not differences:
        click.echo(f"Everything matches {path}.")
