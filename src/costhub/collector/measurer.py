"""Provides local_measurer and board_measurer: builders and measurers of programs on a device."""

from __future__ import annotations

import json
import uuid
from abc import ABC, abstractmethod
from collections.abc import Callable, Generator, Iterator, Sequence
from contextlib import ExitStack, closing, contextmanager
from dataclasses import dataclass
from typing import Any, NamedTuple

from costhub.collector.boards.boards import Boards
from costhub.collector.boards.tracker import address_of
from costhub.collector.build.builder import Builder, BuildResult
from costhub.collector.build.linker import link_command
from costhub.collector.device.cpu_state import governor
from costhub.collector.device.local import LocalDevice
from costhub.collector.run.drift_monitor import DriftMonitor, DriftSeconds, MachineState
from costhub.collector.run.evaluator import Arguments, Evaluator
from costhub.collector.run.output_check import DefaultProgram
from costhub.collector.run.runner import Runner, RunResult


class BuiltReference(NamedTuple):
    """The built default program of a workload, whose outputs are taken as correct."""

    program: DefaultProgram
    artifact: str


@dataclass(frozen=True)
class BuiltProgram:
    """A program to measure, or one that could not be built."""

    build: BuildResult
    arguments: Arguments
    """(dtype, shape) of each argument."""
    module_json: str | None = None
    """The scheduled module, which shows the layout of the weights; needed if outputs are compared."""
    reference: BuiltReference | None = None
    """The reference that the outputs are compared with; None if they are not compared."""


@dataclass(frozen=True)
class MeasureResult:
    """The measurement of one program on one device."""

    build: BuildResult
    run: RunResult | None
    """None if it was not built."""
    machine: MachineState
    device_id: str
    board: str | None = None
    """The number of the board that measured it; None if this machine measured it."""

    @property
    def status(self) -> str:
        """The measurement's status, as in the measurements table."""
        return self.run.status if self.run else self.build.status

    @property
    def error(self) -> str | None:
        """Why it failed; None if it succeeded."""
        return self.run.error if self.run else self.build.error

    @property
    def run_s(self) -> tuple[float, ...]:
        """Seconds per call in each repeat; empty if it failed."""
        return self.run.run_s if self.run else ()


@dataclass(frozen=True)
class MeasuredDevice:
    """A device that a measurer runs programs on."""

    row: dict[str, Any]
    """Its row in the devices table, without target and probed columns."""
    target: dict[str, Any]
    """Its TVM target."""
    cpu_affinity: str | None = None
    """The CPUs that programs use, such as ``0-1``."""
    governor: str | None = None
    """The clock governor."""

    @property
    def device_id(self) -> str:
        """Its device id."""
        return str(self.row["device_id"])

    @property
    def stored_row(self) -> dict[str, Any]:
        """The row, with the target as stored in the devices table."""
        return {**self.row, "target": json.dumps(self.target)}


class Measurer(ABC):
    """Builds programs and measures them on one device, or on several that run the same builds.

    Args:
        devices: The devices that run the programs, which are built for the target of the first one.
        builder: Builds them.
        evaluator: How latencies are taken.
    """

    boards: Boards | None = None
    """The boards that run the programs; None if this machine does."""

    def __init__(self, devices: Sequence[MeasuredDevice], builder: Builder, evaluator: Evaluator) -> None:
        self.devices, self.builder, self.evaluator = tuple(devices), builder, evaluator
        self.session = uuid.uuid4().hex[:12]
        """Stored in all rows that it produces."""

    @property
    def device(self) -> dict[str, Any]:
        """The first device's row in the devices table."""
        return self.devices[0].row

    @property
    def target(self) -> dict[str, Any]:
        """The TVM target that programs are built for."""
        return self.devices[0].target

    def drift_seconds(self) -> DriftSeconds:
        """What watching over the devices has taken this machine so far; boards watch over themselves."""
        return DriftSeconds()

    def launch(self) -> None:
        """Starts the processes without waiting for them."""
        self.builder.launch()

    @abstractmethod
    def measure(
        self, programs: Sequence[BuiltProgram], *, timeout_s: float | None = None
    ) -> Generator[tuple[int, MeasureResult], None, None]:
        """Measures each program on each device; the caller removes the artifacts.

        Args:
            programs: The programs to measure; those that could not be built get a result, too.
            timeout_s: Time limit of one run, if different from the usual one.

        Yields:
            The index of a program and its result, as soon as it arrives.

        Raises:
            MeasureError: A device can no longer be measured on.
        """


class LocalMeasurer(Measurer):
    """Devices of this machine, such as its CPU with one thread and with all, which time programs one by one.

    Meanwhile no other process of ours computes: the builder and the other runners are frozen.

    Args:
        devices: The devices that run the programs.
        builder: Builds them.
        runners: One for each device.
        monitor: Watches over a runner; anything other than `DriftMonitor` is useful only in benchmarks.
    """

    def __init__(
        self,
        devices: Sequence[MeasuredDevice],
        builder: Builder,
        runners: Sequence[Runner],
        *,
        monitor: Callable[[Runner], DriftMonitor] = DriftMonitor,
    ) -> None:
        super().__init__(devices, builder, runners[0].evaluator)
        self._monitors = [monitor(runner) for runner in runners]

    def drift_seconds(self) -> DriftSeconds:
        """What watching over all devices has taken so far."""
        taken = [monitor.seconds for monitor in self._monitors]
        return DriftSeconds(*(sum(each) for each in zip(*taken, strict=True)))

    def launch(self) -> None:
        """Starts the processes without waiting for them."""
        super().launch()
        for monitor in self._monitors:
            monitor.runner.launch()

    def measure(
        self, programs: Sequence[BuiltProgram], *, timeout_s: float | None = None
    ) -> Generator[tuple[int, MeasureResult], None, None]:
        """Yields the results of all programs on the first device, then on the next; see `Measurer.measure`."""
        with self.builder.frozen():
            for device, monitor in zip(self.devices, self._monitors, strict=True):
                with ExitStack() as stack:
                    for other in self._monitors:
                        if other.runner is not monitor.runner:
                            stack.enter_context(other.runner.frozen())
                    machine = monitor.look()
                    for index, program in enumerate(programs):
                        run, around = _run(program, monitor, timeout_s) or (None, machine)
                        yield index, MeasureResult(program.build, run, around, device.device_id)


def _run(
    program: BuiltProgram, monitor: DriftMonitor, timeout_s: float | None
) -> tuple[RunResult, MachineState] | None:
    """Runs a program; None if there is nothing to run."""
    if program.build.artifact is None:
        return None
    check = program.reference is not None
    if program.reference is not None:
        default, artifact = program.reference
        monitor.runner.expected(artifact, default.arguments, reduction=default.reduction)
    return monitor.run(
        program.build.artifact,
        program.arguments,
        timeout_s=timeout_s,
        check=check,
        module_json=program.module_json if check else None,
    )


class BoardMeasurer(Measurer):
    """Boards of one kind, which share the programs; builds continue meanwhile, since they run on this machine.

    Args:
        device: The device that the boards are.
        builder: Builds programs for them.
        boards: Run the programs; they repeat disturbed measurements by themselves.
    """

    def __init__(self, device: MeasuredDevice, builder: Builder, boards: Boards) -> None:
        super().__init__([device], builder, boards.evaluator)
        self.boards: Boards = boards
        self._numbers: dict[str, int] = {}

    def measure(
        self, programs: Sequence[BuiltProgram], *, timeout_s: float | None = None
    ) -> Generator[tuple[int, MeasureResult], None, None]:
        """Yields results in the order in which the boards deliver them; see `Measurer.measure`."""
        device_id = self.devices[0].device_id
        runnable: list[tuple[int, BuiltProgram]] = []
        for index, program in enumerate(programs):
            if program.build.artifact is None:
                yield index, MeasureResult(program.build, None, MachineState(), device_id)
            else:
                runnable.append((index, program))
        requests = [(str(program.build.artifact), program.arguments) for _, program in runnable]
        with closing(self.boards.run_each(requests, timeout_s=timeout_s)) as results:
            for position, run in results:
                index, program = runnable[position]
                machine = MachineState(reference_drift=run.reference_drift, reference_after_s=run.reference_after_s)
                board = self._number(run.board)
                yield index, MeasureResult(program.build, run, machine, device_id, board)

    def _number(self, address: str | None) -> str | None:
        """Number that identifies a board in the rows: its address would reveal details of a private network."""
        return None if address is None else str(self._numbers.setdefault(address, len(self._numbers) + 1))


@contextmanager
def local_measurer(
    devices: Sequence[LocalDevice],
    *,
    evaluator: Evaluator | None = None,
    monitor: Callable[[Runner], DriftMonitor] = DriftMonitor,
) -> Iterator[LocalMeasurer]:
    """Makes a measurer of this machine's devices, which share the builds for the one with the most threads.

    Args:
        devices: As `find_local` returned them.
        evaluator: How latencies are taken; by default as in TVM.
        monitor: As for `LocalMeasurer`.

    Raises:
        MeasureError: This machine has no linker, without which every program would fail.
    """
    devices = sorted(devices, key=lambda device: int(device.row["cores"]), reverse=True)
    link_command(devices[0].target.get("mtriple"), [], "")
    target = json.dumps(devices[0].target)
    with ExitStack() as stack:
        builder = stack.enter_context(Builder(target))
        runners = [
            stack.enter_context(
                Runner(target, device_kind=device.row["kind"], evaluator=evaluator, threads=device.threads)
            )
            for device in devices
        ]
        measured = [
            MeasuredDevice(device.row, device.target, runner.cpu_affinity, governor())
            for device, runner in zip(devices, runners, strict=True)
        ]
        yield LocalMeasurer(measured, builder, runners, monitor=monitor)


@contextmanager
def board_measurer(
    tracker: str, key: str, *, target: dict[str, Any] | None = None, evaluator: Evaluator | None = None
) -> Iterator[BoardMeasurer]:
    """Makes a measurer of the boards that a tracker offers under a key; programs are built here.

    Args:
        tracker: ``HOST:PORT`` of TVM's RPC tracker.
        key: The key that the boards registered under.
        target: The TVM target to build for; by default the one that the boards report.
        evaluator: How latencies are taken; by default as in TVM.

    Raises:
        MeasureError: No tracker answers there, or it has no board under that key.
        DeviceError: The boards cannot identify themselves, or are not of one kind.
    """
    host, port = address_of(tracker)
    with Boards(host, port, key, evaluator=evaluator) as boards:
        identity = boards.identify()
        device = MeasuredDevice(identity.device, target or identity.target)
        with Builder(json.dumps(device.target)) as builder:
            yield BoardMeasurer(device, builder, boards)
