"""Provides local_measurer and board_measurer: programs built and measured on a device.

For collections and searches.
"""

from __future__ import annotations

import json
from collections.abc import Generator, Iterator, Mapping, Sequence
from contextlib import ExitStack, closing, contextmanager
from dataclasses import dataclass
from typing import Any, NamedTuple, Protocol

from costhub.collector.boards.boards import Boards
from costhub.collector.boards.tracker import address_of
from costhub.collector.build.builder import Builder, BuildResult
from costhub.collector.device.cpu_state import governor
from costhub.collector.device.local import LocalDevice, find_local
from costhub.collector.propose.sampler import Program
from costhub.collector.run.drift_monitor import DriftMonitor, MachineState
from costhub.collector.run.evaluator import Arguments, Evaluator
from costhub.collector.run.output_check import DefaultProgram
from costhub.collector.run.runner import Runner, RunResult
from costhub.collector.session import CollectionSession, MeasureResult, Rights


class BuiltReference(NamedTuple):
    """The default program of a workload, built: its outputs count as the right ones."""

    program: DefaultProgram
    artifact: str


class BuiltProgram(NamedTuple):
    """A program that was built, or could not be."""

    program: Program
    built: BuildResult
    expected: BuiltReference | None = None
    """What its outputs are compared with; None where they are not."""


class BatchMeasurer(Protocol):
    """Where built programs are measured."""

    def launch(self) -> None:
        """Starts what it needs without waiting for it."""

    def measure(self, batch: Sequence[BuiltProgram]) -> Generator[MeasureResult, None, None]:
        """Yields outcomes as soon as they are known, one per program and device, and removes the artefacts.

        Raises:
            MeasureError: A device can no longer be measured at all.
        """


class Timer(Protocol):
    """Times built programs: a `Runner` here, `Boards` elsewhere."""

    def launch(self) -> None:
        """Starts what it needs without waiting for it."""

    def run(self, artifact: str, arguments: Arguments, *, timeout_s: float | None = None) -> RunResult:
        """Times one program.

        Args:
            artifact: The library.
            arguments: (dtype, shape) of each argument.
            timeout_s: Limit, if another one than the usual.

        Raises:
            MeasureError: The device cannot be measured any more.
        """

    def run_each(self, programs: Sequence[tuple[str, Arguments]]) -> Generator[tuple[int, RunResult], None, None]:
        """Times programs, each an artifact with its arguments.

        Yields:
            The index of a program and its result, as soon as it is there.

        Raises:
            MeasureError: As `run`.
        """


class LocalBatchMeasurer:
    """One machine's devices, such as its CPU with one thread and with all, that run the same built programs.

    Nothing else of ours computes while a program is timed: the builder and the other runners are frozen.

    Args:
        runners: By device id.
        builder: What to freeze.
    """

    def __init__(self, runners: Mapping[str, Runner], builder: Builder) -> None:
        self._watches = {device_id: DriftMonitor(runner) for device_id, runner in runners.items()}
        self._builder = builder

    def launch(self) -> None:
        """Starts the runners without waiting for them."""
        for watch in self._watches.values():
            watch.runner.launch()

    def measure(self, batch: Sequence[BuiltProgram]) -> Generator[MeasureResult, None, None]:
        """Yields the outcomes of all programs on the first device, then on the next."""
        try:
            with self._builder.frozen():
                for device_id, watch in self._watches.items():
                    yield from self._measure_on(device_id, watch, batch)
        finally:
            for made in batch:
                made.built.remove()

    def _measure_on(
        self, device_id: str, watch: DriftMonitor, batch: Sequence[BuiltProgram]
    ) -> Generator[MeasureResult, None, None]:
        with ExitStack() as others:
            for other in self._watches.values():
                if other.runner is not watch.runner:
                    others.enter_context(other.runner.frozen())
            around = watch.look()
            for made in batch:
                yield _outcome(made, device_id, watch, around)


def _outcome(made: BuiltProgram, device_id: str, watch: DriftMonitor, around: MachineState) -> MeasureResult:
    if made.built.artifact is None:
        return MeasureResult(made.program, made.built, None, around, device_id)
    if made.expected is not None:
        program, artifact = made.expected
        watch.runner.expected(artifact, program.arguments, reduction=program.reduction)
    check = made.expected is not None
    ran, around = watch.run(
        made.built.artifact,
        made.program.arguments,
        check=check,
        module_json=made.program.module_json if check else None,
    )
    return MeasureResult(made.program, made.built, ran, around, device_id)


@dataclass(frozen=True)
class CollectionMeasurer:
    """What programs are built with and measured on."""

    rows: tuple[dict[str, Any], ...]
    """The devices' rows for the devices table."""
    sessions: tuple[CollectionSession, ...]
    """One per device; the programs are sampled for the target of the first."""
    builder: Builder
    bench: BatchMeasurer


@contextmanager
def local_collection_measurer(
    devices: Sequence[LocalDevice], *, evaluator: Evaluator, rights: Rights
) -> Iterator[CollectionMeasurer]:
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
            CollectionSession(
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
        yield CollectionMeasurer(rows, sessions, builder, LocalBatchMeasurer(runners, builder))


class BoardBatchMeasurer:
    """Boards of one kind, which share the programs of a batch.

    Builds go on meanwhile: they run on this machine, and the programs on others.

    Args:
        boards: Where the programs run.
        device_id: What the boards are.
    """

    def __init__(self, boards: Boards, device_id: str) -> None:
        self._boards = boards
        self._device_id = device_id
        self._numbers: dict[str, int] = {}

    def launch(self) -> None:
        """Nothing: sessions begin with the first programs."""

    def measure(self, batch: Sequence[BuiltProgram]) -> Generator[MeasureResult, None, None]:
        """Yields outcomes in the order in which boards give them."""
        runnable = [made for made in batch if made.built.artifact is not None]
        programs = [(str(made.built.artifact), made.program.arguments) for made in runnable]
        try:
            for made in batch:
                if made.built.artifact is None:
                    around = MachineState(None, None, None)
                    yield MeasureResult(made.program, made.built, None, around, self._device_id)
            with closing(self._boards.run_each(programs)) as outcomes:
                for place, ran in outcomes:
                    made, around = (
                        runnable[place],
                        MachineState(None, None, ran.reference_drift, ran.reference_after_s),
                    )
                    board = self._number(ran.board)
                    yield MeasureResult(made.program, made.built, ran, around, self._device_id, board)
        finally:
            for made in batch:
                made.built.remove()

    def _number(self, address: str | None) -> str | None:
        """Stands for a board in the rows: its address would reveal details of a private network."""
        return None if address is None else str(self._numbers.setdefault(address, len(self._numbers) + 1))


@contextmanager
def board_collection_measurer(
    tracker: str, key: str, *, evaluator: Evaluator, rights: Rights
) -> Iterator[CollectionMeasurer]:
    """A rig of the boards that a tracker offers under a key; programs are built here, for the boards' target.

    Args:
        tracker: ``HOST:PORT`` of TVM's RPC tracker.
        key: What the boards have registered under.
        evaluator: How latencies are taken.
        rights: Contributor and licence of the rows.

    Raises:
        MeasureError: No tracker answers there, or it has no board under that key.
        DeviceError: The boards cannot say what they are, or are not of one kind.
    """
    host, port = address_of(tracker)
    with Boards(host, port, key, evaluator=evaluator) as boards:
        identity = boards.identify()
        row, target = identity.device, identity.target
        session = CollectionSession(
            row["device_id"], target, evaluator, rights.contributor, rights.licence, row.get("driver")
        )
        stored = {**row, "target": json.dumps(target)}
        with Builder(json.dumps(target)) as builder:
            yield CollectionMeasurer((stored,), (session,), builder, BoardBatchMeasurer(boards, row["device_id"]))


@dataclass(frozen=True)
class Measurer:
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
def local_measurer(device: str = "auto") -> Iterator[Measurer]:
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
        yield Measurer(local.row, local.target, builder, runner)


@contextmanager
def board_measurer(tracker: str, key: str) -> Iterator[Measurer]:
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
            yield Measurer(identity.device, identity.target, builder, boards, boards)
