"""A proxy between client and server that cuts the connection after so many bytes of a message."""

from __future__ import annotations

import contextlib
import random
import socket
import socketserver
import threading
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from io import BufferedIOBase
from typing import BinaryIO

PARTS = ("request head", "request body", "response head", "response body")
BODILESS = (b" 204 ", b" 304 ")


@dataclass(frozen=True)
class CutPoint:
    """A point in the traffic of a command: the first message from exchange `number` on that has the part."""

    number: int
    part: str
    share: float
    """Of the bytes of the part: how much still goes through."""


class HttpMessage:
    """Head and body of a request or an answer, as bytes; empty where the other side has hung up."""

    def __init__(self, file: BinaryIO | BufferedIOBase, *, answers: bytes = b"") -> None:
        self.head = b""
        while not self.head.endswith(b"\r\n\r\n") and (line := file.readline()):
            self.head += line
        fields = dict(line.lower().split(b":", 1) for line in self.head.split(b"\r\n")[1:] if b":" in line)
        bodiless = answers.startswith(b"HEAD ") or any(code in self.head[:20] for code in BODILESS)
        chunked = b"chunked" in fields.get(b"transfer-encoding", b"")
        size = 0 if bodiless else int(fields.get(b"content-length", b"0"))
        self.body = _chunks(file) if chunked else file.read(size)


def _chunks(file: BinaryIO | BufferedIOBase) -> bytes:
    """A chunked body, as sent."""
    read = b""
    while line := file.readline():
        size = int(line.split(b";")[0], 16)
        read += line + file.read(size + 2)
        if not size:
            break
    return read


class CuttingProxy:
    """Forwards HTTP to a port of this machine while it is entered; counts the bytes of every exchange."""

    def __init__(self, upstream: int) -> None:
        self.upstream = upstream
        self.sizes: list[dict[str, int]] = []
        """Of each exchange: part -> bytes."""
        self.point: CutPoint | None = None
        self.stays_away = False
        """Whether it serves nobody after the cut."""
        self.instead: Callable[[], object] | None = None
        """Called at the point instead of a cut."""
        self.reached: str | None = None
        """The request that the point was in."""
        self._lock = threading.Lock()
        handler = type("Handler", (_Handler,), {"proxy": self})
        self._server = _Server(("127.0.0.1", 0), handler)
        self._thread = threading.Thread(target=self._server.serve_forever, args=(0.02,), daemon=True)

    @property
    def url(self) -> str:
        """Where clients find it."""
        return f"http://127.0.0.1:{self._server.server_address[1]}"

    @property
    def away(self) -> bool:
        """Whether it serves nobody."""
        return self.stays_away and self.reached is not None

    def heal(self) -> None:
        """From now on nothing goes wrong."""
        self.point, self.stays_away, self.instead = None, False, None

    def begin(self) -> int:
        """The number of an exchange that begins."""
        with self._lock:
            self.sizes.append(dict.fromkeys(PARTS, 0))
            return len(self.sizes) - 1

    def allowed(self, number: int, part: str, content: bytes, request: bytes) -> tuple[bytes, bool]:
        """How much of a part goes through, and whether the connection is cut after it."""
        with self._lock:
            self.sizes[number][part] = len(content)
            point = self.point
            if point is None or self.reached or not content or part != point.part or number < point.number:
                return content, False
            self.reached = request.split(b"\r\n")[0].decode("latin-1")
        if self.instead is not None:
            self.instead()
            return content, False
        return content[: int(point.share * len(content))], True

    def __enter__(self) -> CuttingProxy:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._server.shutdown()
        self._server.server_close()
        self._thread.join()


class _Server(socketserver.ThreadingTCPServer):
    daemon_threads = True
    allow_reuse_address = True

    def handle_error(self, request: object, client_address: object) -> None:
        """Ignores clients that hang up in the middle, which is the purpose of the proxy."""


class _Handler(socketserver.StreamRequestHandler):
    proxy: CuttingProxy

    def handle(self) -> None:
        if self.proxy.away:
            return
        with (
            contextlib.suppress(OSError),
            socket.create_connection(("127.0.0.1", self.proxy.upstream)) as server,
            server.makefile("rb") as answers,
        ):
            while self._exchange(server, answers):
                pass

    def _exchange(self, server: socket.socket, answers: BinaryIO) -> bool:
        request = HttpMessage(self.rfile)
        if not request.head or self.proxy.away:
            return False
        number = self.proxy.begin()
        if not self._forward(server, number, "request", request, request.head):
            return False
        answer = HttpMessage(answers, answers=request.head)
        return bool(answer.head) and self._forward(self.connection, number, "response", answer, request.head)

    def _forward(self, to: socket.socket, number: int, kind: str, message: HttpMessage, request: bytes) -> bool:
        for part, content in (("head", message.head), ("body", message.body)):
            through, cut = self.proxy.allowed(number, f"{kind} {part}", content, request)
            to.sendall(through)
            if cut:
                return False
        return True


def random_point(sizes: Sequence[dict[str, int]], rng: random.Random) -> CutPoint:
    """A point in traffic like that of a run without faults, each of the four parts as often as the others."""
    part = rng.choice([part for part in PARTS if any(size[part] for size in sizes)])
    number = rng.choice([number for number, size in enumerate(sizes) if size[part]])
    return CutPoint(number, part, rng.random())
