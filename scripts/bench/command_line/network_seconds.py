"""Times `costhub tune` and `costhub compile` of whole networks, from an empty process to a checked library."""

from __future__ import annotations

import json
import resource
import subprocess
import tempfile
import time
from collections.abc import Iterable, Mapping
from datetime import datetime
from pathlib import Path
from typing import Any

import click

from costhub.collector.device.cpu_state import core_count
from costhub.search.result import (
    EXTRACTING,
    FINISHING,
    OPENING,
    OTHER,
    READING,
    REPORTING,
    SCHEDULING,
    SEARCHING,
)
from scripts.bench.common import machine, options
from scripts.bench.common.fresh import run_module
from scripts.bench.common.rows import Row, RowFile
from scripts.tables.networks import network_seconds_table

NETWORKS = ("resnet18", "mobilenet_v2", "bert_small")
SMALLEST = "bert_tiny"
"""Of the zoo; tuned before anything is timed, so that no command waits for the disk."""
TUNE, COMPILE = COMMANDS = ("tune", "compile")
KEY = ("command", "network", "trials", "seed")

TRIALS = 16
"""For each kernel, where the seconds of `AIM_S` and `BEFORE_S` are of searches."""
AIM_S = {
    (TUNE, "resnet18"): 90.0,
    (TUNE, "mobilenet_v2"): 120.0,
    (TUNE, "bert_small"): 45.0,
    (COMPILE, "mobilenet_v2"): 60.0,
}
"""The longest we want a user to wait."""
BEFORE_S = {(TUNE, "resnet18"): 328.0, (TUNE, "mobilenet_v2"): 480.0, (TUNE, "bert_small"): 166.0}
"""What version 0.1.0 took on two cores of an AMD EPYC (Zen 4)."""
KERNEL_AIM_S = 3.0
"""What we want `costhub compile` to take at most for each kernel."""


def timed(command: str, network: str, trials: int, seed: int) -> Row:
    """The row of one command, run in a new process and a new folder.

    Raises:
        ClickException: It ended without finishing the network.
    """
    with tempfile.TemporaryDirectory(prefix="costhub-") as folder:
        report = Path(folder, "out", "report.json")
        start, before_s = time.time(), _children_s()
        done = _run(command, network, report.parent, trials, seed)
        end, cpu_s = time.time(), _children_s() - before_s
        found = json.loads(report.read_text()) if report.exists() else {}
        if not found.get("networks"):
            raise _failed(command, network, done)
        key = dict(zip(KEY, (command, network, trials, seed), strict=True))
        asked, is_usual = (command, network), trials == (TRIALS if command == TUNE else 0)
        aims = {"aim_s": AIM_S.get(asked), "before_s": BEFORE_S.get(asked)} if is_usual else {}
        busy = cpu_s / (core_count() * (end - start))
        return {**key, **aims, **figures(found, start=start, end=end, written=report.stat().st_mtime), "busy": busy}


def _children_s() -> float:
    """CPU time of all children that have ended, and of theirs."""
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime


def _run(command: str, network: str, out: Path, trials: int, seed: int) -> subprocess.CompletedProcess[str]:
    words: list[object] = [command, network, "--out", out, "--seed", seed]
    if command == TUNE:
        words += ["--trials-per-workload", trials]
    quiet: dict[str, Any] = {"stdin": subprocess.DEVNULL, "stdout": subprocess.DEVNULL, "stderr": subprocess.PIPE}
    return run_module("costhub", *words, check=False, **quiet)


def _failed(command: str, network: str, done: subprocess.CompletedProcess[str]) -> click.ClickException:
    said = done.stderr.strip().splitlines() or ["nothing"]
    return click.ClickException(f"costhub {command} {network} ended with {done.returncode} and said: {said[-1]}")


def figures(report: Mapping[str, Any], *, start: float, end: float, written: float) -> Row:
    """Where the seconds of a command went, and what it came to.

    Args:
        report: Its `report.json`.
        start: When its process was started, in seconds since 1970 like the next two.
        end: When it had exited.
        written: When it had written the report.
    """
    (network,) = report["networks"]
    kernels, run = report["workloads"], report["stages"]
    began = datetime.fromisoformat(report["began"]).timestamp()
    spent = summed(kernel["stages"] for kernel in kernels)
    spent.pop(OTHER, None)  # It is in the rest.
    rest_s = run.get(SEARCHING, 0.0) + run.get(SCHEDULING, 0.0) - sum(spent.values())
    stages = summed(
        [
            {"start": began - start, **{stage: run[stage] for stage in (OPENING, READING, EXTRACTING)}},
            {**spent, "rest of the kernels": rest_s},
            {**network["stages"], "rest of the network": run[FINISHING] - sum(network["stages"].values())},
            # The last one cannot contain its own seconds.
            {"report": run.get(REPORTING, 0.0) + written - began - sum(run.values())},
        ]
    )
    return {
        "seconds": end - start,
        "stages": {**stages, OTHER: end - start - sum(stages.values())},
        "error": network["error"],
        "kernels": len(kernels),
        "kernels_s": run.get(SCHEDULING),
        "kernel_aim_s": KERNEL_AIM_S if SCHEDULING in run else None,
        "measured": sum(kernel.get("trials", 0) for kernel in kernels),
        "latencies_us": {form: latency["median_us"] for form, latency in network["latencies"].items()},
    }


def summed(parts: Iterable[Mapping[str, float]]) -> dict[str, float]:
    """Key -> the sum of its values.

    Example:
        >>> summed([{"building": 1.0}, {"building": 2.0, "running": 4.0}])
        {'building': 3.0, 'running': 4.0}
    """
    sums: dict[str, float] = {}
    for key, value in (pair for part in parts for pair in part.items()):
        sums[key] = sums.get(key, 0.0) + value
    return sums


def warm() -> None:
    """Runs a short search, so that all files that the commands read are in memory.

    Raises:
        ClickException: It failed.
    """
    with tempfile.TemporaryDirectory(prefix="costhub-") as folder:
        done = _run(TUNE, SMALLEST, Path(folder, "out"), 1, 0)
    if done.returncode:
        raise _failed(TUNE, SMALLEST, done)


@click.command()
@click.option("--network", "networks", multiple=True, default=NETWORKS, show_default=True)
@options.trials(TRIALS)
@options.seeds(1)
@options.quick("BERT-tiny, two trials for each kernel, one seed.")
@options.rows_file()
@options.json_file()
def main(
    networks: tuple[str, ...], trials: int, seeds: int, quick: bool, rows_path: Path | None, path: Path | None
) -> None:
    """Times both commands for each network; run it with nothing else on the machine."""
    if quick:
        networks, trials, seeds = (SMALLEST,), 2, 1
    kept = RowFile(rows_path, KEY)
    each = ((command, network, seed) for seed in range(seeds) for network in networks for command in COMMANDS)
    keys = [(command, network, trials if command == TUNE else 0, seed) for command, network, seed in each]
    waiting = [key for key in keys if key not in kept]
    if waiting:
        warm()
    for key in waiting:
        row = timed(*key)
        kept.add(row)
        click.echo(f"costhub {key[0]} {key[1]}, seed {key[3]}: {row['seconds']:.0f} s")
    result = {"rows": [row for row in kept if kept.key_of(row) in keys]}
    machine.write_result(path, result)
    click.echo(network_seconds_table(result))
