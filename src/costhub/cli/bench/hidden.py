"""Provides `costhub bench hide`, `submit` and `score`: a benchmark whose latencies only the scorer has."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import click

HIDE = """
\b
Example:
  costhub bench hide measurements/ --out task/ --latencies kept/latencies.csv
"""
SUBMIT = """
\b
Example:
  costhub bench submit task/ --model any-cpu-conditioned --out mine/
  costhub bench submit task/ --model mine.py:MyModel --out mine/ --about trained_on=amd-epyc-zen5
"""
SCORE = """
\b
Example:
  costhub bench score mine/ theirs/ --latencies kept/latencies.csv
"""


@click.command("hide", epilog=HIDE)
@click.argument("data")
@click.option("--out", required=True, type=click.Path(path_type=Path), help="Folder for the task, to publish.")
@click.option(
    "--latencies", required=True, type=click.Path(path_type=Path), help="File for the latencies (CSV), to keep."
)
@click.option("--device", "devices", multiple=True, metavar="DEVICE", help="Device; may be repeated.")
@click.option("--split", metavar="SPLIT", help="Take only the test side of this split.")
@click.option("--name", default="", help="Name of the task; by default that of its folder.")
@click.option("--json", "as_json", is_flag=True, help="Print JSON for programs.")
def hide(
    data: str, out: Path, latencies: Path, devices: tuple[str, ...], split: str | None, name: str, as_json: bool
) -> None:
    """Make a benchmark task of measurements that nobody has seen yet.

    The task holds the programs; the latencies go to a file of their own, whose hash the task holds.
    """
    from costhub.api.hidden import hide_latencies

    task = hide_latencies(data, out, latencies, name=name, device=devices, split=split)
    facts = {
        "task": task.name,
        "programs": len(task.rows),
        "workloads": len(task.workloads),
        "devices": [*task.devices],
    }
    click.echo(json.dumps({**facts, "latencies_sha256": task.latencies_sha256}) if as_json else task)
    click.echo(f"Keep {latencies}: `costhub bench score` needs it. Publish {out}.", err=True)


@click.command("submit", epilog=SUBMIT)
@click.argument("task", type=click.Path(path_type=Path))
@click.option(
    "--model",
    required=True,
    metavar="MODEL|FILE.py:NAME",
    help="Model: a name as for `costhub pull`, a model folder, or your own object or class with predict(rows, counts).",
)
@click.option("--out", required=True, type=click.Path(path_type=Path), help="Folder for the submission.")
@click.option(
    "--about",
    multiple=True,
    metavar="KEY=VALUE",
    help="What readers must know; a model without a record of its training needs trained_on=...; repeatable.",
)
@click.option("--json", "as_json", is_flag=True, help="Print JSON for programs.")
def submit(task: Path, model: str, out: Path, about: tuple[str, ...], as_json: bool) -> None:
    """Score the programs of a task with a model, and write the submission.

    A file of your own is run as is.
    """
    said = dict(_pair(text) for text in about)
    from costhub.api.hidden import submit_scores

    made = submit_scores(task, model, out, about=said)
    click.echo(json.dumps({**made.about, "programs": len(made.scores), "out": str(out)}) if as_json else made)


@click.command("score", epilog=SCORE)
@click.argument("submissions", nargs=-1, required=True, type=click.Path(path_type=Path))
@click.option(
    "--latencies", required=True, type=click.Path(path_type=Path), help="The file that `costhub bench hide` wrote."
)
@click.option("--json", "as_json", is_flag=True, help="Print JSON for programs: a line per submission.")
def score(submissions: tuple[Path, ...], latencies: Path, as_json: bool) -> None:
    """Score submissions with the latencies of their task. No TVM and no device is needed."""
    from costhub.api.hidden import score_submissions

    found = score_submissions(submissions, latencies)
    click.echo("\n".join(json.dumps(row) for row in found.rows()) if as_json else found)


def _pair(text: str) -> tuple[str, Any]:
    key, equals, value = text.partition("=")
    if not key.isidentifier() or not equals:
        raise click.BadParameter(f"{text!r} is not KEY=VALUE, such as trained_on=amd-epyc-zen5.", param_hint="--about")
    return key, value
