"""Provides handle: runs forms of a network on a board, from the child process that holds the session."""

from __future__ import annotations

import math
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from costhub.collector.boards import session_service
from costhub.collector.boards.session_service import OpenRequest
from costhub.collector.run.evaluator import to_device
from costhub.errors import MeasureError, class_and_line
from costhub.search.whole_network.time_service import LoadedNetwork, flatten_outputs

MAX_CALLS = 1000
"""In one turn; they are enough for a network that takes microseconds."""


@dataclass(frozen=True)
class LoadOnBoard:
    """Send a library of `compile_network` to the board, and call it once."""

    name: str
    path: str
    inputs: tuple[Any, ...]
    """NumPy arrays."""


@dataclass(frozen=True)
class TimeOnBoard:
    """Time calls of a form for about so many seconds, one at least."""

    name: str
    seconds: float


@dataclass(frozen=True)
class BoardLost:
    """The session with the board is over."""

    reason: str


@dataclass(frozen=True)
class _BoardForm:
    machine: Any
    """TVM's virtual machine, on the board."""
    device: Any
    """The board's CPU."""

    def take(self, repeat: int) -> list[float]:
        """Seconds of each call; by the board's clock, so the way to the board does not count."""
        timed = self.machine.time_evaluator("invoke_stateful", self.device, number=1, repeat=repeat)
        return list(timed("main").results)


_board_forms: dict[str, _BoardForm] = {}


def handle(request: LoadOnBoard | TimeOnBoard | OpenRequest | None) -> Any:
    """Does what is asked, or what `costhub.collector.boards.session_service.handle` does.

    Returns:
        `LoadedNetwork`, or the seconds of each call; `BoardLost`, or a reason (a string), where it fails.
    """
    if not isinstance(request, LoadOnBoard | TimeOnBoard):
        _board_forms.clear()  # They hold the session open, and with it the board.
        return session_service.handle(request)
    try:
        board = session_service.opened()
    except MeasureError as error:
        return BoardLost(str(error))
    try:
        return _load(board, request) if isinstance(request, LoadOnBoard) else _take(request)
    except Exception as error:
        reason = class_and_line(error)
        return reason if session_service.blame(board, error) == "error" else BoardLost(reason)


def _load(board: Any, request: LoadOnBoard) -> LoadedNetwork:
    from tvm import relax

    library = f"{request.name}.so"
    board.upload(bytearray(Path(request.path).read_bytes()), library)
    device = board.cpu(0)
    machine = relax.VirtualMachine(board.load_module(library), device)
    # Values stay on the board between calls; only this way does TVM hand tensors to a network elsewhere.
    machine.set_input("main", *(to_device(value, device) for value in request.inputs))
    machine.invoke_stateful("main")
    _board_forms[request.name] = _BoardForm(machine, device)
    return LoadedNetwork(tuple(flatten_outputs(machine.get_outputs("main"))))


def _take(request: TimeOnBoard) -> list[float]:
    form = _board_forms[request.name]
    (first_s,) = form.take(1)
    left = min(MAX_CALLS, math.floor(request.seconds / first_s) - 1)
    return form.take(left) if left > 0 else [first_s]
