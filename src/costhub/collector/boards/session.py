"""Holds one RPC session with a board, inside its own child process."""

from __future__ import annotations

import json
import os
import time
from dataclasses import dataclass, field
from functools import lru_cache
from pathlib import Path
from typing import Any

from costhub.collector.boards.server import IDENTIFY
from costhub.collector.boards.tracker import Lease
from costhub.collector.build.linker import can_link, link
from costhub.collector.run.evaluator import Arguments, Evaluator, on_host, take, to_device
from costhub.collector.run.reference import ARGUMENTS, reference_module
from costhub.errors import MeasureError, class_and_end

# Where the header of an ELF file states its type, and the type of an object file that is not linked yet.
ELF_TYPE, ELF_RELOCATABLE = slice(16, 18), b"\x01\x00"
REFERENCE_EVALUATOR = Evaluator(number=1, repeat=3, min_repeat_ms=10)


@dataclass(frozen=True)
class SessionResult:
    """The outcome of running a program on the board."""

    outcome: str
    """``ok``, ``error`` (of the program), ``timeout`` (of the session) or ``lost`` (the session ended)."""
    run_s: tuple[float, ...] = ()
    reference_s: tuple[float, ...] = ()
    wall_s: float = 0.0
    error: str | None = None


@dataclass
class _Connection:
    """The open session, and the objects that live in it."""

    session: Any = None
    """TVM's ``RPCSession``."""
    held: dict[str, Any] = field(default_factory=dict)


_connection = _Connection()


def open_session(lease: Lease, session_s: float) -> str | None:
    """Connects to a board that the tracker has assigned to us, for `session_s` seconds.

    Returns:
        The board's own identification, as JSON; None for a plain TVM server.
    """
    from tvm import rpc

    hang_up()  # if the last session was not used
    session = rpc.connect(lease.host, lease.port, lease.match_key, session_timeout=session_s)
    _connection.session = session
    try:
        return str(session.get_function(IDENTIFY)())
    except Exception:
        # A plain TVM server does not know the function; a session that is over knows none at all.
        if _is_alive(session):
            return None
        raise


def opened() -> Any:
    """TVM's ``RPCSession``, for callers that do more with a board than this module does.

    Raises:
        MeasureError: No session is open.
    """
    if _connection.session is None:
        raise MeasureError("The session with the board has ended.")
    return _connection.session


def held() -> dict[str, Any]:
    """Objects that live on the board as long as the session does, by name."""
    return _connection.held


def hang_up() -> None:
    """Ends the open session, if any; imports TVM's client, so that no time limit includes the import."""
    import tvm.rpc  # noqa: F401

    _connection.held.clear()  # it holds the session open, and with it the board
    _connection.session = None


def time_on_board(
    artifact: str, arguments: Arguments, evaluator: Evaluator, device_kind: str, reference: str | None
) -> SessionResult:
    """Times one program in the session that is open, then the reference kernel, and ends the session.

    Args:
        artifact: Path of a shared library, or of an object file (known by its header), which the board links.
        arguments: (dtype, shape) of each argument.
        evaluator: How a latency is taken.
        device_kind: TVM's name for the device.
        reference: Path of the reference kernel's library; None to skip it.
    """
    session = opened()
    hang_up()
    start = time.perf_counter()
    try:
        run_s = _time(session, artifact, "program", arguments, device_kind, evaluator)
        reference_s: tuple[float, ...] = ()
        if reference is not None:
            reference_s = _time(session, reference, "reference", ARGUMENTS, device_kind, REFERENCE_EVALUATOR)
    except Exception as error:
        return SessionResult(blame(session, error), wall_s=time.perf_counter() - start, error=class_and_end(error))
    return SessionResult("ok", run_s, reference_s, time.perf_counter() - start)


def _time(
    session: Any, path: str, name: str, arguments: Arguments, device_kind: str, evaluator: Evaluator
) -> tuple[float, ...]:
    content = bytearray(Path(path).read_bytes())
    # Names of our own: a library sent under the name of one that is loaded would overwrite its code.
    name += ".o" if content[ELF_TYPE] == ELF_RELOCATABLE else Path(path).suffix
    session.upload(content, name)
    module = session.load_module(name)
    device = session.device(device_kind)
    return take(module, device, [to_device(value, device) for value in _filled(arguments)], evaluator)


@lru_cache(maxsize=2)  # the program's and the reference kernel's; those of one workload come consecutively
def _filled(arguments: Arguments) -> list[Any]:
    return on_host(arguments)


def blame(session: Any, error: Exception) -> str:
    """Whether an error comes from the program (``error``) or means that the session is over (``timeout``, ``lost``)."""
    if type(error).__name__ == "RPCSessionTimeoutError":
        return "timeout"
    return "error" if _is_alive(session) else "lost"


def _is_alive(session: Any) -> bool:
    try:
        session.get_function("tvm.rpc.server.upload")
    except Exception:
        return False
    return True


def build_reference(target_json: str, folder: str) -> str:
    """Builds the reference kernel; returns its library, or its object file if nothing here links for the target."""
    import tvm

    from costhub.collector.build.builder import load_target

    target = load_target(target_json)
    path, unlinked = (os.path.join(folder, f"reference.{suffix}") for suffix in ("so", "o"))
    if target.kind.name != "llvm":
        tvm.tirx.build(reference_module(target.kind.name), target=target).export_library(path)
        return path
    tvm.tirx.build(reference_module("cpu"), target=target).write_to_file(unlinked)
    triple = json.loads(target_json).get("mtriple")
    if not can_link(triple):
        return unlinked
    link(triple, [unlinked], path)
    return path
