"""Provides local_rig: all that measures programs on the devices of this machine, set up and taken down."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from typing import Any

from costhub.collector.bench import Bench
from costhub.collector.builder import Builder
from costhub.collector.cpu_state import governor
from costhub.collector.evaluator import Evaluator
from costhub.collector.local import LocalDevice
from costhub.collector.local_bench import LocalBench
from costhub.collector.row import Session
from costhub.collector.runner import Runner


@dataclass(frozen=True)
class Rights:
    """Whose rows they are, and what others may do with them."""

    contributor: str = "anonymous"
    licence: str = "CC-BY-4.0"


@dataclass(frozen=True)
class Rig:
    """What programs are built with and measured on."""

    rows: tuple[dict[str, Any], ...]
    """The devices' rows for the devices table."""
    sessions: tuple[Session, ...]
    """One per device; the programs are sampled for the target of the first."""
    builder: Builder
    bench: Bench


@contextmanager
def local_rig(devices: Sequence[LocalDevice], *, evaluator: Evaluator, rights: Rights) -> Iterator[Rig]:
    """A rig of this machine's devices, which share the builds for the one with the most threads.

    Args:
        devices: As `find_local` returned them.
        evaluator: How latencies are taken.
        rights: Contributor and licence of the rows.
    """
    devices = sorted(devices, key=lambda device: device.row["cores"], reverse=True)
    target = devices[0].target
    with ExitStack() as held:
        builder = held.enter_context(Builder(json.dumps(target)))
        runners = {
            device.device_id: held.enter_context(
                Runner(
                    json.dumps(target),
                    device_kind=device.row["kind"],
                    evaluator=evaluator,
                    threads=device.threads,
                )
            )
            for device in devices
        }
        sessions = tuple(
            Session(
                device.device_id,
                target,
                evaluator,
                rights.contributor,
                rights.licence,
                device.row["driver"],
                cpu_affinity=runners[device.device_id].cpu_affinity,
                governor=governor(),
            )
            for device in devices
        )
        rows = tuple(device.stored_row for device in devices)
        yield Rig(rows, sessions, builder, LocalBench(runners, builder))
