"""Probes this CPU under three instruction sets, on one core and on all, beside OpenBLAS and STREAM."""

from __future__ import annotations

import json
import re
import tempfile
import time
from pathlib import Path
from typing import Any

import click

from costhub.cards.reports.device_plots import plot_ladders
from costhub.cards.tables import TableColumn, number, plain_table
from costhub.collector.device.identify import identify
from costhub.collector.device.local import local_target
from costhub.collector.probe.bandwidth import level_gbs
from costhub.collector.probe.probe import probe
from scripts.bench.collecting.probe_reference import FLOP_PER_CYCLE, sgemm_gflops, stream_gbs
from scripts.bench.common import machine

COLUMNS = (
    TableColumn("device_id", "device"),
    number("clock_ghz", "GHz", ".2f"),
    number("peak_gflops", "float32 GFLOP/s", ",.0f"),
    number("peak_of_vendor", "of vendor", ".3f"),
    number("sgemm_of_peak", "sgemm of peak", ".3f"),
    *(number(f"{level}_gbs", f"{level.upper()} GB/s", ",.0f") for level in ("l1", "l2", "l3", "dram")),
    *(number(f"{level}_of_c", f"{level.upper()} of C", ".3f") for level in ("l1", "l2", "l3", "dram")),
    number("triad_of_dram", "triad of DRAM", ".3f"),
    number("probe_s", "s", ".1f"),
)


def row_of(isa: str | None, threads: int, folder: str, quick: bool) -> dict[str, Any]:
    """One device: what the probe measures, what other programs measure, and the ratios."""
    device = identify(isa=isa, threads=threads)
    start = time.perf_counter()
    probed = probe(local_target(isa=isa, threads=threads), device=device, budget_s=8.0 if quick else 25.0)
    row = {**device, **probed, "probe_s": time.perf_counter() - start}
    width, seconds = device["simd_bits"], 0.1 if quick else 0.5
    clock = float(re.findall(r"([\d.]+) GHz", row["probe_method"])[0])
    sgemm = sgemm_gflops(width, threads, seconds=10 * seconds, size=1024 if quick else 4096)
    sizes = [rung["bytes"] for rung in row["bandwidth_ladder"]]
    *read, triad = stream_gbs(width, threads, [*sizes, -sizes[-1]], folder=folder, seconds=seconds)
    ladder = [{"bytes": size, "gbs": gbs} for size, gbs in zip(sizes, read, strict=True)]
    ratios = {
        f"{key.removesuffix('_gbs')}_of_c": row[key] / other if row[key] and other else None
        for key, other in level_gbs(ladder, device, threads).items()
    }
    per_cycle = FLOP_PER_CYCLE.get(device["microarchitecture"], {}).get(width)
    ratios["peak_of_vendor"] = row["peak_gflops"] / (clock * threads * per_cycle) if per_cycle else None
    ratios |= {"sgemm_of_peak": sgemm / row["peak_gflops"], "triad_of_dram": triad / row["dram_gbs"]}
    measured = {"clock_ghz": clock, "sgemm_gflops": sgemm, "triad_gbs": triad, "c_ladder": ladder}
    return {**row, **measured, **ratios}


@click.command()
@click.option("--quick", is_flag=True, help="About two minutes instead of five.")
@click.option("--json", "path", type=click.Path(path_type=Path))
def main(quick: bool, path: Path | None) -> None:
    """Run it with nothing else on the machine; gcc and an x86 CPU are needed."""
    cores = identify()["cores"]
    with tempfile.TemporaryDirectory() as folder:
        pairs = [(isa, threads) for isa in (None, "avx2", "sse4.2") for threads in sorted({1, cores})]
        rows = [row_of(isa, threads, folder, quick) for isa, threads in pairs]
    click.echo(plain_table(rows, COLUMNS))
    if path:
        path.write_text(json.dumps({**machine.describe(), "probe": rows}, indent=1, default=str))
        plot_ladders([row for row in rows if row["cores"] == 1], path.with_suffix(".png"))


if __name__ == "__main__":
    main()
