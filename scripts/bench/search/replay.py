"""Strategies and models of the replay benchmark beside one another, on every device of it."""

from __future__ import annotations

import statistics
import time
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

import click

from costhub.api.replay.bench import SUITE, BenchOptions, bench_search
from costhub.api.replay.result import ReplayResult
from costhub.dataset.splits.split import find_split
from costhub.hub.data import find_data
from costhub.search.replay.judge import ReplaySettings
from costhub.search.replay.workloads import load_replay
from scripts.bench.common import machine, options
from scripts.bench.common.rows import Row, RowFile
from scripts.tables.plots import plot_curves
from scripts.tables.search import replay_table

KEY = ("strategy", "model", "method", "device", "seeds")
POINTS = (1, 2, 4, 8, 16, 24, 32, 48, 64)
"""Trials at which curves are kept."""


@dataclass(frozen=True)
class Entry:
    """What is played."""

    strategy: str
    model: str | None = None
    method: str = "frozen"
    devices: tuple[str, ...] = tuple(SUITE)


GPUS = tuple(device for device in SUITE if not device.startswith(("amd-epyc", "intel")))
ENTRIES = (
    Entry("random"),
    Entry("genetic"),
    Entry("nearest"),
    Entry("model", "auto"),
    Entry("model", "auto", "brief"),
    Entry("model", "any-gpu", devices=GPUS),
    # The H200's models have learned from the A100.
    Entry("model", "nvidia-h200", devices=tuple(device for device in GPUS if device != "nvidia-a100")),
)


def row_of(entry: Entry, device: str, result: ReplayResult, seconds: float) -> dict[str, Any]:
    """The figures of one entry on one device, and its curve."""
    (figures,) = result.summary["devices"]
    curve = [statistics.fmean(s.curve[min(t, s.trials) - 1] for s in result.scores) for t in POINTS]
    key = dict(zip(KEY, (entry.strategy, entry.model or "", entry.method, device, result.settings.seeds), strict=True))
    by_workload = {s.workload_id[:12]: s.score for s in result.scores}
    return {
        **figures,
        **key,
        "name": result.model,
        "seconds": seconds,
        "points": POINTS,
        "curve": curve,
        "by_workload": by_workload,
    }


def with_total(row: Row) -> Row:
    """The row with the number of programs of all its workloads, which rows kept by earlier versions lack.

    Args:
        row: As `row_of` made it, of ten workloads if it lacks the number.
    """
    return row if "programs_total" in row else {**row, "programs_total": programs_in_all(row["device"])}


@cache
def programs_in_all(device: str) -> int:
    """How many measured programs the ten workloads of a device of the benchmark have together."""
    path = find_data(device).path
    chosen = set(find_split(path, SUITE[device]).test)
    return sum(each.task.n for each in load_replay(Path(path), device, workloads=chosen, spec=None, progress=False))


@click.command()
@options.seeds(5)
@options.quick("Two workloads of one device, one seed, without a model.")
@options.rows_file()
@options.json_file("The scores; a picture of the curves goes beside it.")
def main(seeds: int, quick: bool, rows_path: Path | None, path: Path | None) -> None:
    """Plays every entry on every device; the features of the programs are computed first, which takes minutes."""
    entries = [entry for entry in ENTRIES if not quick or entry.model is None]
    most = 2 if quick else 10
    kept = RowFile(rows_path, KEY, most_workloads=most)
    for entry in entries:
        for device in entry.devices[: 1 if quick else None]:
            key = (entry.strategy, entry.model or "", entry.method, device, 1 if quick else seeds)
            if key in kept:
                continue
            start = time.perf_counter()
            chosen = BenchOptions(
                devices=(device,),
                workloads=most,
                method=entry.method,
                settings=ReplaySettings(seeds=key[-1]),
            )
            result = bench_search(entry.strategy, entry.model, options=chosen)
            kept.add(row_of(entry, device, result, time.perf_counter() - start))
            click.echo(f"{', '.join(map(str, key))}: {result.score:.3f}")
    rows = [with_total(row) for row in kept]
    click.echo(replay_table({"rows": rows}))
    if path:
        machine.write_result(path, {"rows": rows})
        panels: dict[str, list[dict[str, Any]]] = {}
        for row in rows:
            label = " ".join(filter(None, (row["strategy"], row["model"], row["method"] if row["model"] else "")))
            curve = {"label": label, "x": row["points"], "y": row["curve"], "se": [0.0] * len(row["points"])}
            panels.setdefault(row["device"], []).append(curve)
        plot_curves(path.with_suffix(".png"), panels, x="trials", y="optimum / best so far", log=True)
