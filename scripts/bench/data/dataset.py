"""Measures how writing, checking, counting, filtering and loading grow from 10^4 to 10^6 measurements."""

from __future__ import annotations

import tempfile
from pathlib import Path
from typing import Any

import click

from costhub.cards.tables import TableColumn, number, plain_table
from scripts.bench.common import machine, options
from scripts.bench.common.fresh import result_of
from scripts.bench.data.dataset_stages import REAL_ONLY, STAGES
from scripts.tables.plots import plot_growth

SIZES = (10_000, 100_000, 1_000_000)
DRAWN = ("check", "write", "stats", "load_features", "filter_workload", "filter_pyarrow")
COLUMNS = (
    number("rows", "rows", ",d"),
    TableColumn("stage", "stage"),
    number("seconds", "seconds", ".2f"),
    number("peak_gib", "peak (GiB)", ".2f"),
)


def run(stage: str, rows: int, folder: str) -> dict[str, Any]:
    """One stage in a process of its own."""
    figures: dict[str, Any] = result_of("scripts.bench.data.dataset_stages", stage, rows, folder)
    return figures


@click.command()
@options.quick("10^4 rows only.")
@options.json_file()
@click.option("--plot", type=click.Path(path_type=Path), help="Draw seconds against rows (PNG).")
def main(quick: bool, path: Path | None, plot: Path | None) -> None:
    """Writes synthetic rows to a temporary folder; run it with nothing else on the machine."""
    rows: list[dict[str, Any]] = []
    for size in SIZES[:1] if quick else SIZES:
        with tempfile.TemporaryDirectory() as folder:
            rows += [
                run(stage, size, f"{folder}/data") for stage in STAGES if stage not in REAL_ONLY or size == SIZES[0]
            ]
    click.echo(plain_table(rows, COLUMNS))
    click.echo(
        "\n".join(f"{row['stage']}: {row['bytes_per_row']:.0f} bytes a row" for row in rows if "bytes_per_row" in row)
    )
    if plot:
        points = {stage: [(r["rows"], r["seconds"]) for r in rows if r["stage"] == stage] for stage in DRAWN}
        plot_growth(plot, points, x="measurements", y="seconds")
    machine.write_result(path, {"rows": rows})
