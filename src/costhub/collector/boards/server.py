"""Provides board_server and tracker_server: TVM's RPC server and tracker in a child that ends with us."""

from __future__ import annotations

import contextlib
import json
import os
import signal
import socket
import tempfile
import threading
import time
from collections.abc import Iterator
from dataclasses import dataclass
from multiprocessing.connection import wait
from typing import Any

from costhub.collector.boards.tracker import Tracker
from costhub.collector.build.scratch import ScratchFolder
from costhub.collector.device.cpu_state import tvm_threads
from costhub.errors import DeviceError, MeasureError
from costhub.isolation.child import ChildDied, ChildTimeout, Worker
from costhub.isolation.process import die_with_parent

IDENTIFY = "costhub.identify"
"""The packed function by which a board says what it is: JSON of its devices row and of its target."""
START_TIMEOUT_S = 60.0


@dataclass(frozen=True)
class BoardRequest:
    """Serve this machine as a board."""

    host: str
    port: int
    tracker: Tracker
    key: str
    identity: str
    """What `IDENTIFY` answers."""
    folder: str
    """Where the sessions keep what they are sent."""


@dataclass(frozen=True)
class TrackerRequest:
    """Run a tracker."""

    host: str
    port: int


@dataclass(frozen=True)
class RunningServer:
    """A server or a tracker that runs in a child of ours."""

    port: int
    identity: dict[str, Any] | None
    """What a board says of itself: `device` (a row of the devices table) and `target`."""
    worker: Worker

    def wait(self) -> None:
        """Blocks until it ends, which it does for a reason only.

        Raises:
            MeasureError: It has ended.
        """
        if self.worker.connection is not None:
            wait([self.worker.connection])
        try:
            self.worker.receive(timeout_s=0.0)
        except (ChildDied, ChildTimeout) as error:
            raise MeasureError(f"The server on port {self.port} has ended: {error}") from error


@contextlib.contextmanager
def board_server(
    tracker: Tracker,
    key: str,
    *,
    host: str = "127.0.0.1",
    port: int = 9090,
    device_kind: str = "cpu",
    identity: dict[str, Any] | None = None,
) -> Iterator[RunningServer]:
    """Serves this machine under `key` until the block is left.

    Anyone who can reach the port controls this machine, which runs the code that it is sent.

    Args:
        tracker: Where to register.
        key: A label that boards of one kind share; not a secret.
        host: Address to listen on.
        port: Port to listen on.
        device_kind: TVM's name of the device, ``cpu`` or ``cuda``.
        identity: What the board says of itself, `device` and `target`; detected by default.

    Raises:
        DeviceError: This machine has no device of that kind.
        MeasureError: No tracker answers, or the port is not available.
    """
    tracker.servers()  # TVM's own server would wait for a tracker for a minute, then fall over
    identity = identity or _identity(device_kind)
    with ScratchFolder() as folder:
        request = BoardRequest(host, port, tracker, key, json.dumps(identity), str(folder.path))
        with _running(request, identity) as running:
            _wait_until_registered(tracker, key, port, running.worker)
            yield running


@contextlib.contextmanager
def tracker_server(*, host: str = "127.0.0.1", port: int = 9190) -> Iterator[RunningServer]:
    """Runs TVM's tracker until the block is left.

    Raises:
        MeasureError: The port is not available, or tornado, which TVM's tracker needs, is not installed.
    """
    with _running(TrackerRequest(host, port), None) as running:
        yield running


@contextlib.contextmanager
def _running(request: BoardRequest | TrackerRequest, identity: dict[str, Any] | None) -> Iterator[RunningServer]:
    # A board is all of its cores, and its sessions inherit this.
    with Worker(f"{__name__}:handle", environment=tvm_threads()) as worker:
        refusal = worker.call(request, timeout_s=worker.start_timeout_s)
        if refusal is not None:
            raise MeasureError(refusal)
        yield RunningServer(request.port, identity, worker)


def _identity(device_kind: str) -> dict[str, Any]:
    # In a child that is gone before the server starts: a device that the server had woken would be of no use
    # to its sessions, which are forks of it.
    with Worker(f"{__name__}:identity") as worker:
        try:
            reply: dict[str, Any] = worker.call(device_kind, timeout_s=worker.start_timeout_s)
        except (ChildDied, ChildTimeout) as error:
            raise MeasureError(f"TVM could not identify this machine: {error}") from error
    if "error" in reply:
        raise DeviceError(reply["error"])
    return reply


def _wait_until_registered(tracker: Tracker, key: str, port: int, worker: Worker) -> None:
    deadline = time.monotonic() + START_TIMEOUT_S
    while not any(s.name.endswith(f":{port}") for s in tracker.servers(key)):
        if time.monotonic() > deadline or worker.connection is None or worker.connection.poll():
            raise MeasureError(f"The server on port {port} did not register with the tracker.")
        time.sleep(0.05)


# What follows runs in the child.


def identity(device_kind: str) -> dict[str, Any]:
    """What this machine is as a device of that kind; `error` with a sentence where it has none."""
    from costhub.collector.device.identify import identify
    from costhub.collector.device.local import local_target

    try:
        return {"device": identify(device_kind), "target": local_target(device_kind)}
    except (DeviceError, ValueError) as error:  # ValueError: TVM does not know the kind
        return {"error": f"This machine cannot be a board of kind {device_kind!r}: {error}"}


def handle(request: BoardRequest | TrackerRequest) -> str | None:
    """Starts the server or tracker in a thread; answers why it could not, or None."""
    try:
        if isinstance(request, TrackerRequest):
            from tvm.rpc.tracker import PopenTrackerServerState

            # It ends with the process; TVM offers no way to end it alone.
            PopenTrackerServerState(request.host, request.port, request.port + 1, silent=True)
        else:
            _start_board(request)
    except ImportError as error:
        return f"TVM's tracker needs a package that is missing ({error}): pip install 'costhub[boards]'."
    except (OSError, ValueError) as error:
        return (
            f"Port {request.port} of {request.host} is not available ({error}). Choose another one with "
            "--port, or end what uses it."
        )
    return None


def _start_board(request: BoardRequest) -> None:
    import tvm

    _send_at_once()
    tempfile.tempdir = request.folder
    tvm.register_global_func(IDENTIFY, lambda: request.identity)
    server = os.getpid()
    os.register_at_fork(after_in_child=lambda: _in_session(server))
    state = _listen(request)
    threading.Thread(target=_listen_again, args=(request, state), daemon=True).start()


def _send_at_once() -> None:
    """Spares messages to the tracker a wait of 40 ms each.

    TVM sends each in two pieces, and the second would wait until the first is acknowledged, which takes
    the system that long (RFC 896 against RFC 1122).
    """
    from tvm.rpc import base

    connect = base.connect_with_retry

    def connect_without_delay(*arguments: Any) -> socket.socket:
        connection: socket.socket = connect(*arguments)
        connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        return connection

    base.connect_with_retry = connect_without_delay


def _in_session(server: int) -> None:
    """Lets a session end when TVM's server ends it, and when the server itself is killed."""
    die_with_parent(server)
    signal.signal(signal.SIGTERM, signal.SIG_DFL)  # ignored by a worker, used by the server on a hung session


def _listen(request: BoardRequest) -> Any:
    from tvm.rpc.server import PopenRPCServerState

    return PopenRPCServerState(
        request.host,
        request.port,
        request.port + 1,
        tracker_addr=(request.tracker.host, request.tracker.port),
        key=request.key,
        silent=True,
    )


def _listen_again(request: BoardRequest, state: Any) -> None:
    """Starts TVM's listening thread anew, which ends with any program that crashes its session."""
    while True:
        state.thread.join()
        state.sock.close()
        os.chdir("/")  # it was in the folder of that session, which is gone
        with contextlib.suppress(OSError, ValueError):
            state = _listen(request)
            continue
        time.sleep(1.0)
