"""Provides Tracker: asks a TVM tracker which boards exist, and for a free one."""

from __future__ import annotations

import contextlib
import json
import socket
import struct
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from multiprocessing.connection import wait
from typing import Any

from costhub.errors import ArgumentError, MeasureError
from costhub.terminal_text import clean

# The protocol of python/tvm/rpc/tracker.py: a magic number, then JSON prefixed with its length. Implemented without
# TVM, whose import takes seconds and whose client waits forever.
MAGIC = struct.pack("<i", 0x2F271)
SUCCESS, REQUEST, SUMMARY = 0, 4, 6
# A running tracker answers at once; a board may take as long as a program runs.
ANSWER_TIMEOUT_S = 10.0
GIVE_UP_EVERY_S = 0.5
MOST_ANSWER_BYTES = 16 << 20
"""Each board takes a few hundred bytes of a summary."""
MOST_KEY = 200
"""Characters of a key."""


def address_of(tracker: str) -> tuple[str, int]:
    """Host and port of an address ``HOST:PORT``.

    Raises:
        ArgumentError: It is not an address.

    Example:
        >>> address_of("127.0.0.1:9190")
        ('127.0.0.1', 9190)
    """
    host, _, port = tracker.rpartition(":")
    if not host or not port.isdecimal() or not 0 < int(port) < 1 << 16:
        raise ArgumentError(
            f"{tracker!r} is not the address of a tracker; write HOST:PORT, for example 127.0.0.1:9190."
        )
    return host.strip("[]"), int(port)  # the brackets of IPv6


def check_key(key: str) -> None:
    """Refuses a key that would not come back from a tracker as it was sent.

    Raises:
        ArgumentError: It is not a key of boards.

    Example:
        >>> check_key("pi4")
    """
    # TVM's server takes what follows a space in a key as an option.
    if not (key.isascii() and key.isprintable() and " " not in key and 0 < len(key) <= MOST_KEY):
        raise ArgumentError(
            f"{key!r:.99} cannot be the key of boards; write 1 to {MOST_KEY} printable ASCII characters without "
            "spaces, for example pi4."
        )


@dataclass(frozen=True)
class Server:
    """A server that is registered with the tracker."""

    name: str
    """``HOST:PORT``, as the tracker reaches it."""
    key: str


@dataclass(frozen=True)
class Lease:
    """A board that the tracker has assigned to us until we hang up."""

    host: str
    port: int
    match_key: str
    """The token that the board expects from a client sent by the tracker."""

    @property
    def board(self) -> str:
        """The board's name, ``HOST:PORT``."""
        return f"{self.host}:{self.port}"


@dataclass(frozen=True)
class Tracker:
    """A TVM tracker at a given address.

    Each question uses its own connection, so any number of threads may ask.
    """

    host: str
    port: int

    def servers(self, key: str | None = None) -> list[Server]:
        """The servers registered now, sorted by key and name; only those under `key` if it is given.

        Raises:
            MeasureError: No tracker answers there.
        """
        with self._readable():
            infos = self._ask([SUMMARY])[1]["server_info"]
            servers = [Server(_name(*i["addr"]), clean(i["key"].removeprefix("server:"), MOST_KEY)) for i in infos]
        return sorted((s for s in servers if key in (None, s.key)), key=lambda s: (s.key, s.name))

    def free(self, key: str) -> int:
        """Returns how many boards under `key` are waiting for work.

        Raises:
            MeasureError: No tracker answers there.
        """
        with self._readable():
            queues = self._ask([SUMMARY])[1]["queue_info"]
            return int(queues.get(key, {"free": 0})["free"])

    def take(self, key: str, *, give_up: Callable[[], bool]) -> Lease | None:
        """Takes a free board under `key`, in the tracker's order.

        Args:
            key: The boards' key.
            give_up: Called twice a second; once it returns True, the result is None.

        Raises:
            MeasureError: No tracker answers there.
        """
        # The last number is a priority: all of ours have the same.
        with self._readable():
            answer = self._ask([REQUEST, key, "", 1], give_up=give_up)
            return None if answer is None else Lease(*answer[1])

    @contextlib.contextmanager
    def _readable(self) -> Iterator[None]:
        """Turns errors that a malformed answer raises in the block into a readable message."""
        try:
            yield
        except (ValueError, LookupError, TypeError, AttributeError, RecursionError) as error:
            raise MeasureError(
                f"{self.host}:{self.port} answers, but not as a TVM tracker does ({type(error).__name__}). Check the "
                "address, or start a tracker with `costhub board tracker`."
            ) from error

    def _ask(self, question: list[Any], *, give_up: Callable[[], bool] | None = None) -> Any:
        """The tracker's answer, immediately unless `give_up` is given."""
        try:
            with socket.create_connection((self.host, self.port), timeout=ANSWER_TIMEOUT_S) as connection:
                connection.sendall(MAGIC)
                if _receive(connection, len(MAGIC)) != MAGIC:
                    raise OSError("something else answers")
                text = json.dumps(question).encode()
                connection.sendall(struct.pack("<i", len(text)) + text)
                _acknowledge_at_once(connection)
                while give_up and not wait([connection], timeout=GIVE_UP_EVERY_S):
                    if give_up():
                        return None
                return _answer(connection)
        except OSError as error:
            raise MeasureError(
                f"No TVM tracker answers at {self.host}:{self.port} ({error}). Start one with `costhub board "
                "tracker`, or check the address and the tunnel to it."
            ) from error


def _answer(connection: socket.socket) -> Any:
    (size,) = struct.unpack("<i", _receive(connection, 4))
    if not 0 < size <= MOST_ANSWER_BYTES:
        raise OSError(f"it announces an answer of {size:,} bytes")
    answer = json.loads(_receive(connection, size))
    if answer[0] != SUCCESS:
        raise OSError(f"it answered {answer[0]!r}")
    return answer


def _name(host: str, port: int) -> str:
    return f"{clean(host, 200)}:{int(port)}"


def _acknowledge_at_once(connection: socket.socket) -> None:
    # The tracker sends an answer in two pieces, the second only after the first is acknowledged; by
    # itself the system acknowledges after 40 ms (RFC 896 against RFC 1122).
    if hasattr(socket, "TCP_QUICKACK"):
        connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_QUICKACK, 1)


def _receive(connection: socket.socket, count: int) -> bytes:
    parts = bytearray()
    while len(parts) < count:
        part = connection.recv(count - len(parts))
        if not part:
            raise OSError("it hung up")
        parts += part
    return bytes(parts)
