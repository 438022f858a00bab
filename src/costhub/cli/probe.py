"""Provides `costhub probe`: identify this machine and measure its limits."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import click

EXAMPLE = """
\b
Example:
  costhub probe
  costhub probe --out measurements/
"""

UNITS = {
    "peak_gflops": "GFLOP/s, float32",
    "l1_gbs": "GB/s from L1",
    "l2_gbs": "GB/s from L2",
    "l3_gbs": "GB/s from L3",
    "dram_gbs": "GB/s from memory",
    "launch_overhead_us": "us to start a parallel kernel",
}


@click.command("probe", epilog=EXAMPLE)
@click.option(
    "--out", type=click.Path(path_type=Path, file_okay=False), help="Data folder to write the row into."
)
@click.option("--json", "as_json", is_flag=True, help="Print the row as JSON.")
def command(out: Path | None, as_json: bool) -> None:
    """Identify this device and measure what it can do, in under 30 s. Let nothing else run meanwhile."""
    from costhub.collector.device import identify
    from costhub.collector.probe import probe
    from costhub.collector.target import local_target
    from costhub.dataset.folder import DataFolder

    device = identify()
    target = local_target()
    row = {**device, "target": json.dumps(target), **probe(device, target)}
    if out is not None:
        DataFolder.create(out).put_device(row)
    if as_json:
        click.echo(json.dumps({**row, "probed_at": row["probed_at"].isoformat()}))
        return
    click.echo(_facts(row))
    for column, unit in UNITS.items():
        if row[column] is not None:
            click.echo(f"  {row[column]:10.1f} {unit}")


def _facts(row: dict[str, Any]) -> str:
    return f"{row['device_id']}: {row['model_name']}, {row['microarchitecture']}, {row['cores']} cores"
