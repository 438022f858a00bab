"""Compares estimates of whole networks with what tuned networks took: the results of the benchmark `networks`."""

from __future__ import annotations

import json
import statistics
from pathlib import Path
from typing import Any

import click

from costhub.api.estimating.estimate import estimate
from costhub.cards.tables import TableColumn, number, plain_table
from costhub.collector.workloads.zoo.networks import NETWORKS
from scripts.bench.common import machine, options

TUNED = machine.RESULTS / "networks_tuned.json"
METHODS = {"costhub": False, "costhub, fast math": True}
"""Method of the searches -> whether kernels used polynomials for exp, tanh and erf."""
COLUMNS = (
    TableColumn("network", "network"),
    TableColumn("method", "method"),
    *(number(f"{name}_ms", f"{name} (ms)", ".2f") for name in ("estimate", "low", "high", "fastest", "slowest")),
    number("measured_share", "measured", ".2f"),
)


def compared(tuned: dict[str, Any], trials: int) -> list[dict[str, Any]]:
    """A row for each network and method with searches of so many trials."""
    names = {network.label: network.name for network in NETWORKS.values()}
    rows = []
    for label in dict.fromkeys(row["network"] for row in tuned["rows"]):
        for method, fast in METHODS.items():
            own = [r for r in tuned["rows"] if (r["network"], r["method"], r["trials"]) == (label, method, trials)]
            took = [row["latencies"]["tuned"]["median_us"] / 1e3 for row in own]
            if not took:
                continue
            (found,) = estimate(names[label], tuned["device"], fast_math=fast, progress=False).networks
            rows.append(
                {
                    "network": label,
                    "method": method,
                    "estimate_ms": found.latency_us / 1e3,
                    "low_ms": found.low_us / 1e3,
                    "high_ms": found.high_us / 1e3,
                    "measured_share": found.measured_share,
                    "fastest_ms": min(took),
                    "slowest_ms": max(took),
                    "off": found.latency_us / 1e3 / statistics.median(took) - 1,
                }
            )
    return rows


@click.command()
@click.option("--trials", default=32, show_default=True, help="Of the searches to compare with.")
@options.json_file()
def main(trials: int, path: Path | None) -> None:
    """Nothing is measured; the searches are those of the benchmark `networks`."""
    tuned = json.loads(TUNED.read_text(encoding="utf-8"))
    rows = compared(tuned, trials)
    machine.write_result(path, {"on": tuned["device"], "trials": trials, "rows": rows})
    click.echo(plain_table(rows, COLUMNS))
