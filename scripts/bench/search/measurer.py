"""Searches with the drift check and without it, from the same seeds; the winners are measured again in turn."""

from __future__ import annotations

import json
import math
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import click
import numpy as np

from costhub.collector.device.local import find_local
from costhub.collector.measurer import Measurer, local_measurer
from costhub.collector.run.drift_monitor import DriftMonitor, MachineState
from costhub.collector.run.evaluator import Arguments
from costhub.collector.run.runner import RunResult
from costhub.collector.workloads.suites import find_workload
from costhub.models.protocol import CostModel
from costhub.search.options import Search
from costhub.search.tune import tune
from scripts.bench.common import machine, options
from scripts.bench.common.remeasure import best_trace, remeasure, replayed
from scripts.bench.search.held_out import WORKLOADS, UnseenModels

ON, OFF = "monitored", "unmonitored"
# Three workloads whose programs differ in how long they run.
CHOSEN = WORKLOADS[:3]
BURST = "import time\nwhile True:\n    end = time.time() + 3\n    while time.time() < end: pass\n    time.sleep(12)"


class NoMonitor(DriftMonitor):
    """Runs each program once, whatever the machine does meanwhile, and never times the reference kernel."""

    def look(self) -> MachineState:
        """Reads nothing."""
        return MachineState()

    def run(
        self, artifact: str, arguments: Arguments, *, timeout_s: float | None = None, **_: Any
    ) -> tuple[RunResult, MachineState]:
        """Runs the program."""
        return self.runner.run(artifact, arguments, timeout_s=timeout_s), MachineState()


@contextmanager
def disturbed(*, bursts: bool) -> Iterator[None]:
    """With `bursts`, another process keeps one core busy for 3 s of every 15."""
    other = subprocess.Popen([sys.executable, "-c", BURST]) if bursts else None
    try:
        yield
    finally:
        if other is not None:
            other.kill()
            other.wait()


def searched(measurer: Measurer, model: CostModel, workload: str, seed: int, trials: int) -> dict[str, Any]:
    """One search, and the trace of its best program."""
    with tempfile.TemporaryDirectory() as folder:
        mod = find_workload(workload).module()
        result = tune(mod, workload, Search(model, seed=seed), measurer, out=Path(folder), trials=trials)
        best = best_trace(Path(folder), trials)
    return {"seconds": result.seconds, "trials": result.trials, "claimed_us": result.best_us, "trace": best}


def compared(rows: list[dict[str, Any]]) -> dict[str, float]:
    """Geometric means over workloads and seeds, of monitored over unmonitored searches."""
    pairs = [[row for row in rows if row["method"] == method] for method in (ON, OFF)]
    ratios = {
        f"{name}_ratio": math.exp(np.mean([math.log(a[key] / b[key]) for a, b in zip(*pairs, strict=True)]))
        for name, key in (("latency", "best_us"), ("time", "seconds"))
    }
    # How far the figure that a search reports lies from the one that its winner has in turn with the others.
    optimism = {
        f"error_{method}": float(np.mean([abs(math.log(row["claimed_us"] / row["best_us"])) for row in own]))
        for method, own in zip((ON, OFF), pairs, strict=True)
    }
    return {**ratios, **optimism}


@click.command()
@options.data()
@options.models_folder()
@options.workloads(CHOSEN)
@options.trials(64)
@options.seeds(3)
@click.option("--bursts", is_flag=True, help="Keep one core busy for 3 s of every 15 during the searches.")
@options.quick("One workload, one seed, 16 trials.")
@options.json_file()
def main(
    data: Path | None,
    models: Path | None,
    workloads: tuple[str, ...],
    trials: int,
    seeds: int,
    *,
    bursts: bool,
    quick: bool,
    path: Path | None,
) -> None:
    """Compares latency and seconds; run it with nothing else on the machine."""
    if quick:
        workloads, trials, seeds = workloads[:1], 16, 1
    rows: list[dict[str, Any]] = []
    device = find_local(["auto"])
    with (
        tempfile.TemporaryDirectory() as scratch,
        local_measurer(device) as monitored,
        local_measurer(device, monitor=NoMonitor) as unmonitored,
    ):
        model = UnseenModels(data, models, scratch, workloads).bound("costhub")
        ways = {ON: monitored, OFF: unmonitored}
        for measurer in ways.values():  # the first search would pay for the start of the processes
            searched(measurer, model, workloads[0], 0, 4)
        for seed in range(seeds):
            for workload in workloads:
                for method, measurer in ways.items() if seed % 2 else reversed(ways.items()):
                    with disturbed(bursts=bursts):
                        row = searched(measurer, model, workload, seed, trials)
                    rows.append({"workload": workload, "method": method, "seed": seed, **row})
                    click.echo(
                        f"{workload}, seed {seed}, {method}: {row['claimed_us']:,.1f} us, {row['seconds']:.0f} s"
                    )
    rows.sort(key=lambda row: (row["method"], row["workload"], row["seed"]))
    best_us = remeasure(replayed({(row["workload"], row["trace"]) for row in rows}))
    for row in rows:
        row["best_us"] = best_us[row["workload"], row.pop("trace")]
    summary = compared(rows)
    machine.write_result(path, {"trials": trials, "bursts": bursts, **summary, "rows": rows})
    click.echo(json.dumps(summary, indent=1))
