"""A Dask cluster on the cores of this machine, whose workers are killed, and what limits the rate of many machines."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import tempfile
import threading
import time
from collections import Counter
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import click

from costhub.api.cluster.collect import MEASURER, collect_on_cluster
from costhub.api.collect import Collection, collect
from costhub.collector.run.drift_monitor import DriftSeconds
from costhub.dataset.folder import DataFolder
from costhub.isolation.limits import usable_cpus
from scripts.bench.common import machine, options

SUITES = ("resnet18.*",)
SIZES = (1, 10, 100, 1000)
DASK = (sys.executable, "-m")
KILL_AFTER_S, RESTART_AFTER_S = 20.0, 10.0


class Cluster:
    """A scheduler and workers, each bound to a CPU of this machine."""

    def __init__(self, place: Path) -> None:
        self.file = place / "scheduler.json"
        self.workers: list[subprocess.Popen[bytes]] = []
        command = [*DASK, "distributed.cli.dask_scheduler", "--host", "127.0.0.1", "--port", "0", "--no-dashboard"]
        self.scheduler = subprocess.Popen([*command, "--scheduler-file", str(self.file)], stderr=subprocess.DEVNULL)
        while not self.file.exists():
            time.sleep(0.1)

    def start_worker(self) -> None:
        """Starts one more worker, on the next CPU."""
        cpus = sorted(usable_cpus())
        cpu = cpus[len(self.workers) % len(cpus)]
        command = ["taskset", "-c", str(cpu), *DASK, "distributed.cli.dask_worker", "--scheduler-file", str(self.file)]
        command += ["--nworkers", "1", "--nthreads", "1", "--no-nanny", "--no-dashboard"]
        command += ["--resources", f"{MEASURER}=1"]
        started = subprocess.Popen(command, start_new_session=True, stderr=subprocess.DEVNULL)
        self.workers.append(started)

    def kill_worker(self, place: int) -> None:
        """Kills a worker and all its processes, as a power cut does."""
        os.killpg(self.workers[place].pid, signal.SIGKILL)

    def close(self) -> None:
        """Kills everything."""
        for worker in self.workers:
            if worker.poll() is None:
                os.killpg(worker.pid, signal.SIGKILL)
        self.scheduler.kill()


@contextmanager
def cluster_of(count: int) -> Iterator[tuple[Cluster, str]]:
    """A cluster with so many workers, and its address."""
    from distributed import Client

    with tempfile.TemporaryDirectory() as place:
        cluster = Cluster(Path(place))
        try:
            for _ in range(count):
                cluster.start_worker()
            with Client(scheduler_file=str(cluster.file), set_as_default=False) as client:
                client.wait_for_workers(count)
                address = str(client.scheduler.address)
            yield cluster, address
        finally:
            cluster.close()


def disturb(cluster: Cluster) -> None:
    """Kills two workers while they measure, and starts one again."""
    time.sleep(KILL_AFTER_S)
    for place in (0, 1):
        cluster.kill_worker(place)
    time.sleep(RESTART_AFTER_S)
    cluster.start_worker()


def measure(count: int, trials: int, *, trouble: bool) -> dict[str, Any]:
    """Collects with so many workers, and looks at what is in the folder."""
    with tempfile.TemporaryDirectory() as place, cluster_of(count) as (cluster, address):
        if trouble:
            threading.Thread(target=disturb, args=(cluster,), daemon=True).start()
        start = time.perf_counter()
        done = collect_on_cluster(SUITES, Path(place, "rows"), address, trials=trials, device="auto", progress=False)
        seconds = time.perf_counter() - start
        rows = DataFolder.open(Path(place, "rows")).measurements(columns=["workload_id", "program_id", "session"])
    per_workload = Counter(rows["workload_id"].to_pylist())
    title = f"{count} worker{'s' * (count > 1)}{', 2 killed, 1 of them started again' if trouble else ''}"
    return {
        **{"title": title, "workers": count, "seconds": seconds, "rows": rows.num_rows, "good": done.good},
        "workloads": len(per_workload),
        "short": sum(held < trials for held in per_workload.values()),
        "repeated": rows.num_rows - len(set(rows["program_id"].to_pylist())),
        "good_per_s": done.good / seconds,
    }


def service_times(trials: int) -> dict[str, float]:
    """What a program costs on one machine, and a row on the machine that stores it; in seconds."""
    with tempfile.TemporaryDirectory() as place:
        done = collect(SUITES, Path(place, "rows"), trials=trials, progress=False)
        rows = DataFolder.open(Path(place, "rows")).measurements()
        other = DataFolder.create(Path(place, "other"))
        start = time.perf_counter()
        with other.writer(done.device_ids[0]) as writer:
            for row in rows.to_pylist():
                writer.append(row)
        store_s = (time.perf_counter() - start) / rows.num_rows
    return {**_of_profile(done), "store_s": store_s}


def _of_profile(done: Collection) -> dict[str, float]:
    profile = done.progress.profile
    seconds, count = profile.seconds, profile.programs
    builds = sum(seconds[stage] for stage in ("sample", "lower", "llvm", "link"))
    watching = sum(seconds[stage] for stage in DriftSeconds._fields)
    return {
        "cores": float(profile.cores),
        "build_core_s": builds / count,
        "run_s": (seconds["run"] + watching) / profile.cores / count,
        "machine_per_s": profile.good_per_s,
    }


def limits(service: Mapping[str, float]) -> list[dict[str, Any]]:
    """Programs a second with more and more machines, and what does not let them be more."""
    rows = []
    for count in SIZES:
        boards = {
            "the boards": count / service["run_s"],
            "builds on one machine": service["cores"] / service["build_core_s"],
        }
        cluster = {"the machines": count * service["machine_per_s"], "storing rows": 1 / service["store_s"]}
        row: dict[str, Any] = {"count": count}
        for name, rates in (("boards", boards), ("cluster", cluster)):
            row[f"{name}_limit"] = min(rates, key=lambda what: rates[what])
            row[f"{name}_per_s"] = min(rates.values())
        rows.append(row)
    return rows


@click.command()
@click.option("--trials", default=16, show_default=True, help="Programs per workload.")
@options.quick("One worker, two programs of each workload.")
@options.json_file()
def main(trials: int, quick: bool, path: Path | None) -> None:
    """Compares one worker with four, two of which are killed."""
    trials = 2 if quick else trials
    service = service_times(trials)
    rows = []
    for count, trouble in ((1, False), (2, False), (4, False), (4, True))[: 1 if quick else None]:
        rows.append(measure(count, trials, trouble=trouble))
        click.echo(rows[-1])
    machine.write_result(path, {"trials": trials, "service": service, "rows": rows, "limits": limits(service)})
