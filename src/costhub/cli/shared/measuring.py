"""Provides what the commands that measure share: the devices, the workloads by name, and the data folder."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

import click

from costhub.cards.tables import counted
from costhub.cli.shared.interaction import warn_if_busy
from costhub.errors import WorkloadError

if TYPE_CHECKING:
    from costhub.collector.measurer import Measurer
    from costhub.collector.run.evaluator import Evaluator
    from costhub.collector.workload_queue import WorkloadSpec
    from costhub.collector.workloads.network_kernels import NetworkReport
    from costhub.dataset.folder import DataFolder
    from costhub.search.options import Job


@contextmanager
def open_measurer(
    devices: Sequence[str], tracker: str | None, key: str | None, *, evaluator: Evaluator | None = None
) -> Iterator[Measurer]:
    """Builds and measures on devices of this machine, or on the boards of a tracker.

    Args:
        devices: Names of devices of this machine, or `auto`.
        tracker: HOST:PORT of a TVM RPC tracker, to measure on its boards instead.
        key: The boards' key at the tracker.
        evaluator: How latencies are taken; by default as TVM takes them.
    """
    from costhub.collector.device.local import find_local
    from costhub.collector.measurer import board_measurer, local_measurer

    if tracker is not None and key is not None:
        with board_measurer(tracker, key, evaluator=evaluator) as measurer:
            yield measurer
    else:
        warn_if_busy()
        with local_measurer(find_local(devices), evaluator=evaluator) as measurer:
            yield measurer


def folder_of(out: Path, measurer: Measurer) -> DataFolder:
    """The data folder `out`, created if it is missing, with a row for each device of the measurer."""
    from costhub.dataset.folder import DataFolder

    folder = DataFolder.create(out)
    known = folder.devices()["device_id"].to_pylist()
    for device in measurer.devices:
        if device.device_id not in known:
            folder.put_device(device.stored_row)
    return folder


def check_names(workloads: Sequence[str], networks: Sequence[str], devices: Sequence[str] = ()) -> None:
    """Refuses what does not exist, before TVM or torch is imported.

    Args:
        workloads: Suites, workloads, or files with a module (.json).
        networks: Networks by name or file.
        devices: Devices of this machine, or `auto`; none for boards.

    Raises:
        CosthubError: One of its kinds: there is no such workload, network, file or device.
    """
    from costhub.collector.device.local import find_local
    from costhub.collector.workloads.network_kernels import name_networks
    from costhub.collector.workloads.suites import find_suites

    for name in workloads:
        if Path(name).suffix != ".json":
            find_suites([name])
        elif not Path(name).is_file():
            raise WorkloadError(f"The file {name} does not exist. Write it with tvm.ir.save_json, or name a workload.")
    name_networks(networks)
    named = [device for device in devices if device != "auto"]
    if named:
        find_local(named)


def named_workloads(suites: Sequence[str], networks: Sequence[str], measurer: Measurer) -> list[WorkloadSpec]:
    """The workloads of suites and networks by name; a kernel that two of them contain occurs twice."""
    from costhub.collector.workloads.network_kernels import network_workloads
    from costhub.collector.workloads.suites import find_suites

    found: list[WorkloadSpec] = list(find_suites(suites))
    if networks:
        target = json.dumps(measurer.target)
        found += network_workloads(networks, target=target, on_network=report_network)
    return found


def report_network(report: NetworkReport) -> None:
    """Reports on stderr which kernels a network contains."""
    left_out = ", ".join(f"{count} {reason}" for reason, count in report.left_out.items())
    click.echo(
        f"{report.network}: {counted(report.kept, 'workload')} of {counted(report.tasks, 'kernel')} in "
        f"{report.seconds:.0f} s" + (f" (left out: {left_out})" if left_out else ""),
        err=True,
    )


def exported_among(names: Sequence[str]) -> tuple[list[str], list[str]]:
    """Separates names of workloads from exported networks (.pt2), which do not need `--network`.

    Example:
        >>> exported_among(["softmax", "mine.pt2"])
        (['softmax'], ['mine.pt2'])
    """
    files = [name for name in names if name.endswith(".pt2")]
    return [name for name in names if name not in files], files


def named_jobs(text: str) -> list[Job]:
    """The workloads that `text` names: a single one, all of a suite, or the one in a file.

    Raises:
        WorkloadError: The file does not hold a TVM module.
        UnknownNameError: No workload has that name.
    """
    from costhub.collector.workloads.suites import find_suites
    from costhub.dataset.workload import module_from_json
    from costhub.search.options import Job

    path = Path(text)
    if path.suffix != ".json":
        return [Job(workload.name, workload.module()) for workload in find_suites([text])]
    try:
        return [Job(path.stem, module_from_json(path.read_text()))]
    except UnicodeDecodeError as error:
        raise WorkloadError(f"{path} is not a text file. A workload file holds a TVM module as JSON.") from error


def network_jobs(networks: Sequence[str], target: str, *, fast_math: bool = False) -> list[Job]:
    """The kernels of networks, weighted by how often they are called; reports them on stderr.

    Args:
        networks: What `costhub.collector.workloads.network_kernels.network_workloads` takes.
        target: The TVM target, as JSON.
        fast_math: Whether to replace exp, tanh and erf by polynomials.

    Raises:
        WorkloadError: A network has no kernel that TVM can tune.
        UnknownNameError: No network has that name.
    """
    from costhub.collector.workloads.network_kernels import network_workloads
    from costhub.search.options import Job

    if not networks:
        return []
    found = network_workloads(networks, target=target, fast_math=fast_math, on_network=report_network)
    return [Job(each.name, each.module(), sum(count for _, count in each.networks)) for each in found]
