"""Provides network_jobs and each_once: the kernels of whole networks as jobs of a search, with named workloads."""

from __future__ import annotations

import json
import logging
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING

from costhub.errors import ArgumentError, WorkloadError

if TYPE_CHECKING:
    from costhub.collector.workload_queue import WorkloadSpec
    from costhub.collector.workloads.network_kernels import NetworkReport
    from costhub.collector.workloads.network_source import Lowering
    from costhub.isolation.child import Child
    from costhub.search.options import Job
    from costhub.search.result import StageTimer

log = logging.getLogger("costhub")

MOST_BYTES = 2.0**28
"""Of a kernel's arguments. Creating them takes long for each program, but the last layer of a language model, which
reads 150 MB for each token, takes more of the network's time than all other layers."""


def check_lowering(networks: Sequence[str], lowering: Lowering, devices: Sequence[str] = ()) -> None:
    """Refuses options on how networks become kernels that would do nothing, or that a device cannot follow.

    Args:
        networks: What is lowered: names, or files.
        lowering: The options.
        devices: The devices of this machine that run the kernels, if they are known; TVM is loaded for bfloat16 only.

    Raises:
        ArgumentError: Such an option is set, but no network is named, or a device or network cannot have the precision.
    """
    if not networks and (lowering.is_bf16 or lowering.fast_math):
        option = "--precision (precision=" if lowering.is_bf16 else "--fast-math (fast_math="
        raise ArgumentError(
            f"Options such as {option} in Python) change how the operators of a network become kernels, and no network "
            "is named. A kernel stays as it is: leave the option out."
        )
    lowering.check_networks(networks)
    if lowering.is_bf16 and devices:
        from costhub.collector.device.local import find_local

        lowering.check(json.dumps(find_local(devices)[0].target), networks)


@contextmanager
def launched_reader(networks: Sequence[str]) -> Iterator[Child | None]:
    """Starts the process in which `network_jobs` reads networks, so that it can import torch and TVM meanwhile.

    Yields:
        The process; None if there are no networks.
    """
    if not networks:
        yield None
        return
    from costhub.collector.workloads.network_kernels import network_reader

    with network_reader(networks) as reader:
        reader.launch()
        yield reader


def network_jobs(
    networks: Sequence[str],
    target: str,
    lowering: Lowering | None = None,
    *,
    stages: StageTimer | None = None,
    reader: Child | None = None,
) -> list[Job]:
    """The kernels of networks, weighted by how often they are called.

    Args:
        networks: What `costhub.collector.workloads.network_kernels.network_workloads` takes.
        target: The TVM target, as JSON.
        lowering: How operators are lowered to kernels; by default as TVM does it on its own.
        stages: Counts the seconds of reading and of extraction.
        reader: What `launched_reader` yields. It reads the networks, and is closed: its process then waits some minutes
            for them to be compiled as a whole.

    Raises:
        WorkloadError: A network has no kernel that TVM can tune.
        UnknownNameError: No network has that name.
        ArgumentError: The target or a network cannot have the precision.
    """
    from costhub.collector.workloads.network_kernels import network_workloads
    from costhub.collector.workloads.network_source import AS_IN_TORCH, hides_matrix_units
    from costhub.search.options import Job
    from costhub.search.result import EXTRACTING, READING, StageTimer

    if not networks:
        return []
    if lowering is not None:
        lowering.check(target, networks)
        if lowering.is_bf16 and hides_matrix_units(target):
            log.warning(
                "This CPU's matrix units (AMX) are hidden: bfloat16 is slower than float32 here, except where reading "
                "the weights takes most of the time, as for a single token of a language model. For other networks, "
                "leave --precision (precision= in Python) out."
            )
    timer = stages or StageTimer()

    def report(found: NetworkReport) -> None:
        timer.move(found.reading_s, EXTRACTING, READING)
        report_network(found)

    if reader is not None:
        with timer.during(READING):
            reader.start()
    with timer.during(EXTRACTING):
        found = network_workloads(
            networks,
            target=target,
            most_bytes=MOST_BYTES,
            lowering=lowering or AS_IN_TORCH,
            on_network=report,
            reader=reader,
        )
    if reader is not None:
        reader.close()
    _warn_of_float32(found, lowering)
    return [Job(each.name, each.module(), sum(count for _, count in each.networks)) for each in found]


def _warn_of_float32(kernels: Sequence[WorkloadSpec], lowering: Lowering | None) -> None:
    """Names the networks for which bfloat16 was asked, and of which no kernel multiplies in it."""
    from costhub.cards.reports.tune_facts import multiplies_bfloat16

    if lowering is None or not lowering.is_bf16:
        return
    uses: dict[str, bool] = {}
    for kernel in kernels:
        for network, _ in kernel.networks:
            uses[network] = uses.get(network, False) or multiplies_bfloat16(kernel.name)
    if without := [network for network, is_used in uses.items() if not is_used]:
        log.warning(
            "No kernel of %s that can be tuned multiplies in bfloat16, which is for dense layers and for 2-D "
            "convolutions that are neither grouped nor transposed: --precision (precision= in Python) changes little "
            "there.",
            " and ".join(without),
        )


def no_kernels_error(networks: Sequence[str], what: str) -> WorkloadError:
    """The error to raise when every kernel of the networks is left out.

    Args:
        networks: Their names.
        what: What would be done with a kernel, as a participle: "tuned".
    """
    return WorkloadError(
        f"{' and '.join(networks)} {'has' if len(networks) == 1 else 'have'} no kernel that can be {what}; the log "
        "says why they were left out. If they do too little work, export the network with a larger batch."
    )


def report_network(report: NetworkReport) -> None:
    """Logs which kernels a network contains, and which sizes were taken where its file leaves them open."""
    from costhub.terminal_text import counted

    left_out = ", ".join(f"{count} {reason}" for reason, count in report.left_out.items())
    kept, tasks = counted(report.kept, "workload"), counted(report.tasks, "kernel")
    rest = f" (left out: {left_out})" if left_out else ""
    log.info("%s: %s of %s in %.0f s%s", report.network, kept, tasks, report.seconds, rest)
    for where, size in report.open_sizes.items():
        log.info(
            "%s leaves the size of %s open; %d is used, as in its example input. For another size, export it again "
            "without dynamic_shapes, with an example input of that size.",
            report.network,
            where,
            size,
        )


def each_once(named: Sequence[Job], kernels: Sequence[Job]) -> list[Job]:
    """Named workloads and kernels of networks in one list, without workloads that are there under another name.

    A database stores both as one workload, so each job would count the other's programs as its own.
    """
    from costhub.dataset.workload import workload_id

    if len(named) + len(kernels) < 2 or not named:
        return [*named, *kernels]
    known, kept = {workload_id(job.mod): job.name for job in kernels}, []
    for job in named:
        own = workload_id(job.mod)
        if own in known:
            log.warning(
                "%s is the same workload as %s: it is tuned only once, as %s.", job.name, known[own], known[own]
            )
        else:
            known[own] = job.name
            kept.append(job)
    return [*kept, *kernels]
