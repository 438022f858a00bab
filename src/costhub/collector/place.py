"""Provides local_place and board_place: where the programs of a search are built and timed."""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

from costhub.collector.boards.boards import Boards
from costhub.collector.boards.tracker import address_of
from costhub.collector.builder import Builder
from costhub.collector.local import find_local
from costhub.collector.runner import Runner
from costhub.collector.timer import Timer


@dataclass(frozen=True)
class Place:
    """A device, with what builds for it and what times on it."""

    row: dict[str, Any]
    """Of the `devices` table."""
    target: dict[str, Any]
    """TVM's."""
    builder: Builder
    timer: Timer
    boards: Boards | None = None
    """Where programs run; None where it is this machine."""


@contextmanager
def local_place(device: str = "auto") -> Iterator[Place]:
    """A device of this machine.

    Args:
        device: Its name, such as ``cuda``, or ``auto`` for the whole CPU.

    Raises:
        DeviceError: This machine has no such device.
    """
    (local,) = find_local([device])
    target = json.dumps(local.target)
    with (
        Builder(target) as builder,
        Runner(target, device_kind=local.row["kind"], threads=local.threads) as runner,
    ):
        yield Place(local.row, local.target, builder, runner)


@contextmanager
def board_place(tracker: str, key: str) -> Iterator[Place]:
    """The boards that a tracker offers under a key, as one device; programs are built here.

    Args:
        tracker: ``HOST:PORT`` of TVM's RPC tracker.
        key: What the boards have registered under.

    Raises:
        MeasureError: No tracker answers there, or it has no board under that key.
        DeviceError: The boards cannot say what they are, or are not of one kind.
    """
    host, port = address_of(tracker)
    with Boards(host, port, key) as boards:
        identity = boards.identify()
        with Builder(json.dumps(identity.target)) as builder:
            yield Place(identity.device, identity.target, builder, boards, boards)
