"""Provides board_server and tracker_server: TVM's RPC server and tracker in a child that ends with us."""

from __future__ import annotations

import contextlib
import errno
import json
import os
import signal
import socket
import tempfile
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

from costhub.collector.boards.tracker import Tracker, check_key
from costhub.collector.device.cpu_state import tvm_threads
from costhub.errors import DeviceError, MeasureError
from costhub.isolation.child import Child, ChildDied, ChildTimeout
from costhub.isolation.process import die_with_parent
from costhub.isolation.scratch import ScratchFolder

IDENTIFY = "costhub.identify"
"""The packed function through which a board identifies itself: its devices row and its target, as JSON."""
START_TIMEOUT_S = 60.0
SERVE_TIMEOUT_S = 180.0


@dataclass(frozen=True)
class ServedBoard:
    """The settings with which this machine serves as a board."""

    host: str
    port: int
    tracker: Tracker
    key: str
    identity: str
    """The answer of `IDENTIFY`."""
    folder: str
    """Where the sessions store uploaded files."""


@dataclass(frozen=True)
class RunningServer:
    """A server or tracker running in a child process."""

    port: int
    identity: dict[str, Any] | None
    """The board's own identification: `device` (a row of the devices table) and `target`."""
    child: Child

    def wait(self) -> None:
        """Blocks until it ends, which only happens because of a problem.

        Raises:
            MeasureError: It has ended.
        """
        try:
            self.child.receive(timeout_s=None)
        except ChildDied as error:
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
    complete: Callable[[dict[str, Any]], dict[str, Any]] = dict,
) -> Iterator[RunningServer]:
    """Serves this machine under `key` until the block is left.

    Anyone who can reach the port controls this machine, since it runs whatever code it is sent.

    Args:
        tracker: Where to register.
        key: A label shared by boards of one kind; not a secret.
        host: Address to listen on.
        port: Port to listen on.
        device_kind: TVM's name for the device, ``cpu`` or ``cuda``.
        identity: What the board reports about itself, `device` and `target`; detected by default.
        complete: Adds other known facts, such as the probed figures, to the detected row of the device.

    Raises:
        ArgumentError: No board can have this key.
        DeviceError: This machine has no device of that kind.
        MeasureError: No tracker answers, or the port is not available.
    """
    check_key(key)
    before = _names(tracker, key)  # TVM's own server would wait a minute for a tracker, then crash
    if identity is None:
        identity = _identity(device_kind)
        identity["device"] = complete(identity["device"])
    with ScratchFolder() as folder:
        board = ServedBoard(host, port, tracker, key, json.dumps(identity), str(folder.path))
        with _server_child() as child:
            child.call(serve_board, board, timeout_s=SERVE_TIMEOUT_S)
            _wait_until_registered(board, before, child)
            yield RunningServer(port, identity, child)


@contextlib.contextmanager
def tracker_server(*, host: str = "127.0.0.1", port: int = 9190) -> Iterator[RunningServer]:
    """Runs TVM's tracker until the block is left.

    Raises:
        MeasureError: The port is not available, or tornado, which TVM's tracker needs, is not installed.
    """
    with _server_child() as child:
        child.call(serve_tracker, host, port, timeout_s=SERVE_TIMEOUT_S)
        yield RunningServer(port, None, child)


def _server_child() -> Child:
    # A board uses all of its cores, and its sessions inherit this.
    return Child(environment=tvm_threads(), is_shared=False)


def _identity(device_kind: str) -> dict[str, Any]:
    # In a child that has ended before the server starts: a device initialised by the server would be unusable
    # in its sessions, which are forks of it.
    with Child(is_shared=device_kind == "cpu") as child:
        try:
            return child.call(identify_board, device_kind, timeout_s=SERVE_TIMEOUT_S)
        except (ChildDied, ChildTimeout) as error:
            raise MeasureError(f"TVM could not identify this machine: {error}") from error


def _names(tracker: Tracker, key: str) -> Counter[str]:
    return Counter(server.name for server in tracker.servers(key))


def _wait_until_registered(board: ServedBoard, before: Counter[str], child: Child) -> None:
    """Waits for a registration that was not there before: a board of another machine may have the same port."""
    deadline = time.monotonic() + START_TIMEOUT_S
    while True:
        now = _names(board.tracker, board.key)
        if any(name.endswith(f":{board.port}") for name in now - before):
            return
        before &= now  # an earlier server of this machine may only now be forgotten
        if time.monotonic() > deadline or not child.is_running:
            raise MeasureError(f"The server on port {board.port} did not register with the tracker.")
        time.sleep(0.05)


# The code below runs in the child.


def identify_board(device_kind: str) -> dict[str, Any]:
    """Identifies this machine as a device of the given kind.

    Raises:
        DeviceError: It has no such device.
    """
    from costhub.collector.device.identity import identify
    from costhub.collector.device.local import local_target

    try:
        return {"device": identify(device_kind), "target": local_target(device_kind)}
    except (DeviceError, ValueError) as error:  # ValueError: TVM does not know the kind
        raise DeviceError(f"This machine cannot be a board of kind {device_kind!r}: {error}") from error


def serve_tracker(host: str, port: int) -> None:
    """Starts TVM's tracker in a thread.

    Raises:
        MeasureError: The port is not available, or a package that TVM's tracker needs is not installed.
    """
    with _port_errors(host, port):
        from tvm.rpc.tracker import PopenTrackerServerState

        # It ends with the process; TVM offers no way to end it separately.
        PopenTrackerServerState(host, port, port + 1, silent=True)


def serve_board(board: ServedBoard) -> None:
    """Starts TVM's server in a thread.

    Raises:
        MeasureError: The port is not available.
    """
    with _port_errors(board.host, board.port):
        _start_board(board)


@contextlib.contextmanager
def _port_errors(host: str, port: int) -> Iterator[None]:
    try:
        yield
    except ImportError as error:
        raise MeasureError(
            f"TVM's tracker needs a package that is missing ({error}): pip install 'costhub[boards]'."
        ) from error
    except (OSError, ValueError) as error:
        if isinstance(error, socket.gaierror) or getattr(error, "errno", None) == errno.EADDRNOTAVAIL:
            raise MeasureError(
                f"{host} is not an address of this machine ({error}): give one that is with --host."
            ) from error
        raise MeasureError(
            f"Port {port} of {host} is not available ({error}). Choose another one with --port, or end what uses it."
        ) from error


def _start_board(board: ServedBoard) -> None:
    import tvm

    _send_at_once()
    tempfile.tempdir = board.folder
    tvm.register_global_func(IDENTIFY, lambda: board.identity)
    server = os.getpid()
    os.register_at_fork(after_in_child=lambda: _in_session(server))
    state = _listen(board)
    threading.Thread(target=_listen_again, args=(board, state), daemon=True).start()


def _send_at_once() -> None:
    """Avoids a delay of 40 ms for each message to the tracker.

    TVM sends each in two pieces, and the second would wait until the first is acknowledged, for which
    the system takes that long (RFC 896 against RFC 1122).
    """
    from tvm.rpc import base

    connect = base.connect_with_retry

    def connect_without_delay(*arguments: Any) -> socket.socket:
        connection: socket.socket = connect(*arguments)
        connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        return connection

    base.connect_with_retry = connect_without_delay


def _in_session(server: int) -> None:
    """Makes a session end when TVM's server ends it, or when the server itself is killed."""
    die_with_parent(server)
    signal.signal(signal.SIGTERM, signal.SIG_DFL)  # ignored by a worker, used by the server on a hung session


def _listen(board: ServedBoard) -> Any:
    from tvm.rpc.server import PopenRPCServerState

    return PopenRPCServerState(
        board.host,
        board.port,
        board.port + 1,
        tracker_addr=(board.tracker.host, board.tracker.port),
        key=board.key,
        silent=True,
    )


def _listen_again(board: ServedBoard, state: Any) -> None:
    """Restarts TVM's listening thread, which ends whenever a program crashes its session."""
    while True:
        state.thread.join()
        state.sock.close()
        os.chdir("/")  # it was in the folder of the session that has ended
        with contextlib.suppress(OSError, ValueError):
            state = _listen(board)
            continue
        time.sleep(1.0)
