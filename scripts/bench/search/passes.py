"""Compares passes of the search benchmark over the same programs: how certain a latency is."""

from __future__ import annotations

import statistics
from itertools import pairwise
from pathlib import Path
from typing import Any

import click

from scripts.bench.common import machine, options
from scripts.bench.common.rows import read_rows
from scripts.tables.search import passes_table


def latencies(rows: list[dict[str, Any]]) -> dict[tuple[str, str], float]:
    """(Workload, trace) -> latency in us."""
    return {
        (row["workload"], row["programs"][point["program"]]): point["best_us"]
        for row in rows
        for point in row["curve"]
        if "best_us" in point
    }


def compared(first: dict[tuple[str, str], float], second: dict[tuple[str, str], float]) -> dict[str, Any]:
    """The differences between two passes, apart from a shift of all programs, which no single pass shows."""
    # A workload without a new search keeps its latencies: equal to the last bit means not remeasured.
    ratios = [second[program] / us for program, us in first.items() if second.get(program, us) != us]
    if len(ratios) < 10:
        raise click.ClickException(
            f"The passes have {len(ratios)} programs in common that were measured in both; 10 are needed."
        )
    shift = statistics.median(ratios)
    apart = sorted(abs(ratio / shift - 1.0) for ratio in ratios)
    *_, p90 = statistics.quantiles(apart, n=10)
    return {
        "programs": len(ratios),
        "shift": shift - 1.0,
        "median": statistics.median(apart),
        "p90": p90,
        "worst": apart[-1],
    }


@click.command()
@click.argument("passes", nargs=-1, required=True, type=click.Path(path_type=Path, exists=True))
@options.json_file()
def main(passes: tuple[Path, ...], path: Path | None) -> None:
    """PASSES are row files of the search benchmark, oldest first; each is compared with the next."""
    if len(passes) < 2:
        raise click.UsageError("One pass cannot be compared; name two or more.")
    by_pass = [latencies(read_rows(each)) for each in passes]
    rows = [
        {"passes": f"{number} and {number + 1}", **compared(first, second)}
        for number, (first, second) in enumerate(pairwise(by_pass), start=1)
    ]
    machine.write_result(path, {"rows": rows})
    click.echo(passes_table({"rows": rows}))
