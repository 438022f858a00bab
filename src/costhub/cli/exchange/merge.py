"""Provides `costhub merge`: MetaSchedule databases of one target joined."""

from __future__ import annotations

import json
from dataclasses import asdict
from pathlib import Path

import click

from costhub.cli.shared.choices import WholeNumber

EXAMPLE = """
\b
Example:
  costhub merge monday/ tuesday/ --out all/
"""


@click.command("merge", epilog=EXAMPLE)
@click.argument("folders", metavar="FOLDER...", nargs=-1, required=True, type=click.Path(path_type=Path))
@click.option("--out", required=True, type=click.Path(path_type=Path), help="Folder to write; must be new.")
@click.option("--no-failures", is_flag=True, help="Leave out programs that failed.")
@click.option("--workers", type=WholeNumber(min=1), help="Number of child processes; by default one per core.")
@click.option("--json", "as_json", is_flag=True, help="Print JSON for programs.")
def command(folders: tuple[Path, ...], out: Path, no_failures: bool, workers: int | None, as_json: bool) -> None:
    """Join folders written by searches with TVM's MetaSchedule for one target into OUT.

    Each workload and record is included once, and only if `costhub doctor` finds it good. Folders for several targets
    are refused, because TVM's queries ignore the target. Stock TVM reads OUT as ms.database.JSONDatabase(work_dir=OUT).
    """
    from costhub.api.doctor import merge

    report = merge(folders, out, failures=not no_failures, workers=workers, progress=not as_json)
    if as_json:
        click.echo(json.dumps({**asdict(report), "folder": str(out)}, indent=2))
    else:
        click.echo(report)
