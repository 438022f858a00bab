"""Measures training on more programs than fit in memory: time, peak memory and accuracy."""

from __future__ import annotations

import json
import tempfile
from pathlib import Path
from typing import Any

import click

from costhub.cards.tables import plain_table
from scripts.bench.common import machine, options
from scripts.bench.common.fresh import run_module
from scripts.bench.models.training_stages import STAGES
from scripts.tables.models.comparison import TRAINING_COLUMNS


def run(stage: str, programs: int, folder: str, limit_gib: float, rounds: int, epochs: int) -> dict[str, Any]:
    """Runs one stage in a process of its own; a stage that runs out of memory has no figures."""
    arguments = [stage, programs, folder, limit_gib, rounds, epochs]
    done = run_module("scripts.bench.models.training_stages", *arguments, check=False, capture_output=True)
    if done.returncode == 0:
        figures: dict[str, Any] = json.loads(done.stdout.splitlines()[-1])
        return figures
    last_line = (done.stderr.strip().splitlines() or [""])[-1]
    if not any(words in done.stderr for words in ("MemoryError", "bad_alloc", "emory", "malloc")):
        raise click.ClickException(f"{stage} failed: {last_line}")
    return {"stage": stage, "ended": f"the limit of {limit_gib:g} GiB"}


@click.command()
@click.option("--programs", default=1_000_000, show_default=True, type=click.IntRange(min=2_000))
@options.quick("20,000 programs, 20 trees.")
@click.option("--limit-gib", default=8.0, show_default=True, help="Address space that a training may have.")
@click.option("--rounds", default=100, show_default=True, help="Trees.")
@click.option("--epochs", default=1, show_default=True, help="Passes of a network.")
@click.option("--only", multiple=True, type=click.Choice(list(STAGES)), help="Some stages only.")
@click.option("--folder", type=click.Path(path_type=Path), help="Where the data go; removed by default.")
@options.json_file()
def main(
    programs: int,
    quick: bool,
    limit_gib: float,
    rounds: int,
    epochs: int,
    only: tuple[str, ...],
    folder: Path | None,
    path: Path | None,
) -> None:
    """Writes synthetic programs of four devices, 9 GB at full size, and trains on them."""
    if quick:
        programs, rounds = 20_000, 20
    with tempfile.TemporaryDirectory() as temporary:
        data = folder or Path(temporary, "data")  # the features come beside it
        stages = [stage for stage in STAGES if not only or stage in only]
        if data.exists() and "write" in stages:
            stages.remove("write")
        rows = [run(stage, programs, str(data), limit_gib, rounds, epochs) for stage in stages]
    click.echo(plain_table(rows, TRAINING_COLUMNS))
    machine.write_result(path, {"limit_gib": limit_gib, "rows": rows})
