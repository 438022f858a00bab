"""Provides what the verbs that measure share: where programs run, which ones, and the folder they go to."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

import click

from costhub.cards.tables import counted
from costhub.cli.busy import tell_if_busy

if TYPE_CHECKING:
    from costhub.collector.network import NetworkReport
    from costhub.collector.plan import Subject
    from costhub.collector.rig import Rig
    from costhub.dataset.folder import DataFolder


def check_board(tracker: str | None, key: str | None) -> None:
    """Refuses --tracker without --key and --key without --tracker.

    Raises:
        UsageError: One of the two is missing.
    """
    if (tracker is None) != (key is None):
        raise click.UsageError("--tracker and --key go together: give both or neither.")


@contextmanager
def opened_rig(
    devices: Sequence[str],
    tracker: str | None,
    key: str | None,
    *,
    contributor: str,
    licence: str,
    flush_caches: bool = False,
) -> Iterator[Rig]:
    """What measures on devices of this machine, or on the boards of a tracker.

    Args:
        devices: Names of devices of this machine, or `auto`.
        tracker: HOST:PORT of a TVM RPC tracker, to measure on its boards instead.
        key: The boards' key at the tracker.
        contributor: Name written into the rows.
        licence: Licence of the rows, an SPDX name.
        flush_caches: Flush the caches before every repeat.
    """
    from costhub.collector.boards.board_rig import board_rig
    from costhub.collector.evaluator import COLLECTING
    from costhub.collector.local import find_local
    from costhub.collector.rig import Rights, local_rig

    rights = Rights(contributor, licence)
    evaluator = replace(COLLECTING, cache_flush=flush_caches)
    if tracker is not None and key is not None:
        with board_rig(tracker, key, evaluator=evaluator, rights=rights) as rig:
            yield rig
    else:
        tell_if_busy()
        with local_rig(find_local(devices), evaluator=evaluator, rights=rights) as rig:
            yield rig


def folder_of(out: Path, rig: Rig) -> DataFolder:
    """The data folder `out`, created if it is missing, with a row for each device of the rig."""
    from costhub.dataset.folder import DataFolder

    folder = DataFolder.create(out)
    known = folder.devices()["device_id"].to_pylist()
    for row in rig.rows:
        if row["device_id"] not in known:
            folder.put_device(row)
    return folder


def named_workloads(suites: Sequence[str], networks: Sequence[str], rig: Rig) -> list[Subject]:
    """The workloads of suites and networks by name; a kernel that two of them contain occurs twice."""
    from costhub.collector.network import network_workloads
    from costhub.collector.suite import find_suites

    found: list[Subject] = list(find_suites(suites))
    if networks:
        target = json.dumps(rig.sessions[0].target)
        found += network_workloads(networks, target=target, on_network=tell_network)
    return found


def tell_network(report: NetworkReport) -> None:
    """Reports on stderr which kernels a network contains."""
    left_out = ", ".join(f"{count} {reason}" for reason, count in report.left_out.items())
    click.echo(
        f"{report.network}: {counted(report.kept, 'workload')} of {counted(report.tasks, 'kernel')} in "
        f"{report.seconds:.0f} s" + (f" (left out: {left_out})" if left_out else ""),
        err=True,
    )
