"""Measures how much memory commands take, all of their processes together."""

from __future__ import annotations

import contextlib
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import click
import psutil

from costhub.collector.device.cpu_state import core_count
from scripts.bench.common import machine, options
from scripts.bench.common.fresh import checkout_path
from scripts.bench.common.rows import Row, RowFile
from scripts.tables.networks import memory_table

NETWORKS = ("mobilenet_v2", "resnet50", "bert_base")
TRIALS = 4
SMALLEST = "bert_tiny"
KEY = ("command", "network")
COLLECT = ("collect", "--suite", "resnet18", "--trials-per-workload", str(2 * TRIALS))
EVERY_S = 0.1


@dataclass
class Peak:
    """The most memory that a process and its descendants took at one time, in bytes."""

    together: int = 0
    processes: int = 0
    """How many there were then."""
    largest: int = 0
    """The most that one of them took at any time."""

    def look(self, root: psutil.Process) -> None:
        """Adds what `root` and its descendants take now; pages that they share count once (PSS)."""
        sizes = list(_sizes([root, *root.children(recursive=True)]))
        self.largest = max([self.largest, *sizes])
        if sum(sizes) > self.together:
            self.together, self.processes = sum(sizes), len(sizes)


def _sizes(processes: Sequence[psutil.Process]) -> Iterator[int]:
    for process in processes:
        # It may end while it is looked at.
        with contextlib.suppress(psutil.Error, OSError):
            yield process.memory_full_info().pss


def peak_of(words: Sequence[str]) -> Peak:
    """The memory of a command of costhub.

    Raises:
        ClickException: The command failed.
    """
    quiet: dict[str, Any] = dict.fromkeys(("stdin", "stdout", "stderr"), subprocess.DEVNULL)
    environment = {**os.environ, **checkout_path()}
    peak = Peak()
    with subprocess.Popen([sys.executable, "-m", "costhub", *words], env=environment, **quiet) as running:
        root = psutil.Process(running.pid)
        while running.poll() is None:
            with contextlib.suppress(psutil.NoSuchProcess):
                peak.look(root)
            time.sleep(EVERY_S)
    if running.returncode:
        raise click.ClickException(f"costhub {' '.join(words)} ended with {running.returncode}.")
    return peak


def commands(networks: Sequence[str]) -> Iterator[tuple[str, str, tuple[str, ...]]]:
    """Name and network of each command, with its words."""
    for network in networks:
        yield "tune", network, ("tune", network, "--trials-per-workload", str(TRIALS))
        yield "compile", network, ("compile", network)
    yield "collect", "", COLLECT


@click.command()
@click.option("--network", "networks", multiple=True, default=NETWORKS, show_default=True)
@options.quick("BERT-tiny.")
@options.rows_file()
@options.json_file()
def main(networks: tuple[str, ...], quick: bool, rows_path: Path | None, path: Path | None) -> None:
    """Measures the memory of `tune` and `compile` for each network, and of `collect`."""
    networks = (SMALLEST,) if quick else networks
    kept = RowFile(rows_path, KEY, cores=core_count())
    for command, network, words in commands(networks):
        if (command, network) in kept:
            continue
        with tempfile.TemporaryDirectory(prefix="costhub-") as folder:
            peak = peak_of([*words, "--out", str(Path(folder, "out"))])
        row: Row = {"command": command, "network": network}
        kept.add({**row, "bytes": peak.together, "processes": peak.processes, "largest_bytes": peak.largest})
        click.echo(f"costhub {command} {network}: {peak.together >> 20:,} MiB")
    asked = {(command, network) for command, network, _ in commands(networks)}
    result = {"rows": [row for row in kept if (row["command"], row["network"]) in asked]}
    machine.write_result(path, result)
    click.echo(memory_table(result))
