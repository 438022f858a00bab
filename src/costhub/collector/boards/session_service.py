"""Holds one RPC session with a board, inside a child process of its own."""

from __future__ import annotations

import json
import os
import time
from dataclasses import dataclass, replace
from functools import lru_cache
from pathlib import Path
from typing import Any

from costhub.collector.boards.server import IDENTIFY
from costhub.collector.boards.tracker import Lease
from costhub.collector.build.linker import can_link, link
from costhub.collector.run.evaluator import Arguments, Evaluator, on_host, take, to_device
from costhub.collector.run.reference import ARGUMENTS, reference_module
from costhub.errors import MeasureError, class_and_end

# Where the header of an ELF file states its type, and the type of an object that is not linked yet.
ELF_TYPE, ELF_RELOCATABLE = slice(16, 18), b"\x01\x00"
REFERENCE_EVALUATOR = Evaluator(number=1, repeat=3, min_repeat_ms=10)


@dataclass(frozen=True)
class OpenRequest:
    """Connect to a board that the tracker has given us."""

    lease: Lease
    timeout_s: float
    """The board ends the session after so long."""


@dataclass(frozen=True)
class TimeRequest:
    """Time one program in the session that is open, then the reference kernel, and close the session."""

    artifact: str
    """Path of a shared library, or of an object file (known by its header), which the board links."""
    arguments: Arguments
    evaluator: Evaluator
    device_kind: str
    reference: str | None
    """Path of the reference kernel's library; None leaves it out."""


@dataclass(frozen=True)
class BuildReferenceRequest:
    """Build the reference kernel for a target."""

    target: str
    folder: str


@dataclass(frozen=True)
class OpenReply:
    """Whether the session is open."""

    identity: str | None
    """What the board says of itself, as JSON; None from a plain TVM server."""
    error: str | None


@dataclass(frozen=True)
class TimeReply:
    """What became of a program on the board."""

    outcome: str
    """``ok``, ``error`` (of the program), ``timeout`` (of the session) or ``lost`` (the session ended)."""
    run_s: tuple[float, ...] = ()
    reference_s: tuple[float, ...] = ()
    wall_s: float = 0.0
    error: str | None = None


_open: dict[str, Any] = {}


def opened() -> Any:
    """TVM's ``RPCSession``, after an `OpenRequest`, for services that do more with a board than this one.

    Raises:
        MeasureError: No session is open.
    """
    if "session" not in _open:
        raise MeasureError("The session with the board has ended.")
    return _open["session"]


def handle(request: OpenRequest | TimeRequest | BuildReferenceRequest | None) -> Any:
    """Does what is requested; None hangs up, and imports TVM, so that start-up is never part of a limit."""
    import tvm.rpc

    if isinstance(request, OpenRequest):
        return _connect(request)
    if isinstance(request, TimeRequest):
        return _measure(request)
    if isinstance(request, BuildReferenceRequest):
        return _build_reference(request)
    _open.clear()
    return tvm.__version__


def _connect(request: OpenRequest) -> OpenReply:
    from tvm import rpc

    _open.clear()  # hangs up where the last session was not used
    lease = request.lease
    try:
        session = rpc.connect(lease.host, lease.port, lease.match_key, session_timeout=request.timeout_s)
    except Exception as error:
        return OpenReply(None, class_and_end(error))
    _open["session"] = session
    try:
        return OpenReply(str(session.get_function(IDENTIFY)()), None)
    except Exception as error:
        # A plain TVM server does not know the function; a session that is over knows none at all.
        return OpenReply(None, None if _is_alive(session) else class_and_end(error))


def _measure(request: TimeRequest) -> TimeReply:
    session = _open.pop("session")
    start = time.perf_counter()
    try:
        reply = _time_both(session, request)
    except Exception as error:
        reply = TimeReply(blame(session, error), error=class_and_end(error))
    return replace(reply, wall_s=time.perf_counter() - start)


def _time_both(session: Any, request: TimeRequest) -> TimeReply:
    kind, evaluator = request.device_kind, request.evaluator
    run_s = _time(session, request.artifact, "program", request.arguments, kind, evaluator)
    if request.reference is None:
        return TimeReply("ok", run_s)
    reference_s = _time(session, request.reference, "reference", ARGUMENTS, kind, REFERENCE_EVALUATOR)
    return TimeReply("ok", run_s, reference_s)


def _time(
    session: Any, path: str, name: str, arguments: Arguments, device_kind: str, evaluator: Evaluator
) -> tuple[float, ...]:
    content = bytearray(Path(path).read_bytes())
    # Names of our own: a library sent under the name of one that is loaded would be written over its code.
    name += ".o" if content[ELF_TYPE] == ELF_RELOCATABLE else Path(path).suffix
    session.upload(content, name)
    module = session.load_module(name)
    device = session.device(device_kind)
    return take(module, device, [to_device(value, device) for value in _filled(arguments)], evaluator)


@lru_cache(maxsize=2)  # the program's and the reference kernel's; those of one workload come in a row
def _filled(arguments: Arguments) -> list[Any]:
    return on_host(arguments)


def blame(session: Any, error: Exception) -> str:
    """Whether an error is one of the program (``error``), or the session is over (``timeout``, ``lost``)."""
    if type(error).__name__ == "RPCSessionTimeoutError":
        return "timeout"
    return "error" if _is_alive(session) else "lost"


def _is_alive(session: Any) -> bool:
    try:
        session.get_function("tvm.rpc.server.upload")
    except Exception:
        return False
    return True


def _build_reference(request: BuildReferenceRequest) -> str:
    """Path of the library; of the object file where nothing here links for the target."""
    import tvm

    from costhub.collector.build.builder import load_target

    target = load_target(request.target)
    path, unlinked = (os.path.join(request.folder, f"reference.{suffix}") for suffix in ("so", "o"))
    if target.kind.name != "llvm":
        tvm.tirx.build(reference_module(target.kind.name), target=target).export_library(path)
        return path
    tvm.tirx.build(reference_module("cpu"), target=target).write_to_file(unlinked)
    triple = json.loads(request.target).get("mtriple")
    if not can_link(triple):
        return unlinked
    link(triple, [unlinked], path)
    return path
