"""Measures how fast features are computed, beside a loop over TVM's extractor, and how fast they are read."""

from __future__ import annotations

import json
import tempfile
from pathlib import Path

import click

from costhub.cards.tables import TableColumn, number, plain_table
from costhub.dataset.load import load_programs
from scripts.bench.common import machine
from scripts.bench.common.data import DEVICE, copy_dataset
from scripts.bench.data.cache_speed import fill, reading
from scripts.bench.data.dataset_stages import REAL, write
from scripts.bench.data.feature_speed import computing

COLUMNS = (
    TableColumn("spec", "features"),
    number("programs", "programs", ",d"),
    number("per_s", "programs / s", ",.0f"),
    number("ratio_to_loop", "times the loop", ".2f"),
)
CACHE = "cache {gb_per_s:.2f} GB/s, pyarrow {pyarrow_gb_per_s:.2f} GB/s, ratio {ratio:.2f}"


@click.command()
@click.option("--quick", is_flag=True, help="Fewer programs.")
@click.option("--json", "path", type=click.Path(path_type=Path))
def main(quick: bool, path: Path | None) -> None:
    """Works on a copy of the embedded dataset; run it with nothing else on the machine."""
    with tempfile.TemporaryDirectory() as folder:
        found = computing(copy_dataset(folder), DEVICE, programs=256 if quick else 2048)
        load_programs(REAL, device=DEVICE, progress=False)
        synthetic = Path(folder, "synthetic")
        write(synthetic, 40_000 if quick else 1_000_000)
        fill(synthetic, f"{DEVICE}-synthetic-0", REAL, DEVICE)
        cache = reading(synthetic, f"{DEVICE}-synthetic-0")
    loop = {"spec": "TVM's extractor in a loop", "per_s": found["tvm_loop_per_s"], "ratio_to_loop": 1.0}
    specs = [{"spec": name, **rates} for name, rates in found.items() if isinstance(rates, dict)]
    rows = [{"programs": found["programs"], **row} for row in (loop, *specs)]
    click.echo(plain_table(rows, COLUMNS))
    click.echo(CACHE.format(**cache))
    if path:
        path.write_text(json.dumps({**machine.describe(), "features": rows, "cache": cache}, indent=1))


if __name__ == "__main__":
    main()
