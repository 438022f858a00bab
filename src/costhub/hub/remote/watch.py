"""Provides watched: checks a hub's answers about a repository against its own listing and against valid paths.

The Hugging Face client trusts its server: it names cache files after a header, waits indefinitely
for an answer, and writes as many bytes as arrive. $HF_ENDPOINT may name any server.
"""

from __future__ import annotations

import contextlib
import re
import threading
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any
from urllib.parse import quote

from costhub.errors import CosthubError
from costhub.terminal_text import clean

if TYPE_CHECKING:
    from huggingface_hub.utils import httpx  # type: ignore[attr-defined]  # documented, but not re-exported

MOST_PAGES = 2000
"""Maximum number of answers about one repository other than files: a listing page has up to a thousand entries."""
MAX_ANSWER_BYTES = 64 << 20
"""Size limit for anything but a file: a listing of a hundred thousand files takes 20 MB."""
ANSWER_S = 20.0
"""A server that is silent for this long counts as unreachable."""
WRITE_S = 300.0
"""The same limit for writing: a server may take minutes for a commit of many files."""
_SPACE_BYTES = 1 << 20
"""Bytes that a file may exceed its listed size by: its hash then differs, which gives the better message."""
_PLAIN = {
    "etag": re.compile(r'(?:W/)?"?[A-Za-z0-9._+=-]{1,128}"?'),
    "x-linked-etag": re.compile(r'(?:W/)?"?[A-Za-z0-9._+=-]{1,128}"?'),
    "x-repo-commit": re.compile(r"[0-9a-f]{7,64}"),
}
"""Headers that are used as file names."""


@dataclass(eq=False)
class Watch:
    """A repository whose answers are checked.

    Two watches of the same repository are distinct: each thread removes its own from the list.
    """

    repo: str
    """ORG/NAME."""
    sizes: dict[str, int] | None = None
    """Path, as in an address -> bytes, as listed; None before there is a listing."""
    pages: int = 0
    """Number of answers so far that were not files."""
    moved: dict[str, int | None] = field(default_factory=dict)
    """Redirect target -> number of bytes allowed from there."""

    def expect(self, sizes: Mapping[str, int]) -> None:
        """Sets the allowed size of each file from now on; other files are not downloaded."""
        self.sizes = {quote(path): size for path, size in sizes.items()}

    def limit(self, url: httpx.URL) -> int | None:
        """Maximum number of bytes allowed from an address; None if it belongs to something else."""
        if str(url) in self.moved:
            return self.moved[str(url)]
        path = url.raw_path.decode("ascii", "replace").partition("?")[0]
        if f"/{self.repo}/" not in f"{path}/":
            return None
        if "/resolve/" not in path or self.sizes is None:
            return MAX_ANSWER_BYTES
        file = path.split("/resolve/", 1)[1].partition("/")[2]
        return self.sizes.get(file, 0) + _SPACE_BYTES


_watches: list[Watch] = []
_waits: list[float] = []
"""Seconds of the `answered_within` blocks in progress."""
_lock = threading.Lock()
_is_installed = False


@contextlib.contextmanager
def watched(repo: str) -> Iterator[Watch]:
    """Checks every answer about a repository while the block runs, in all threads; other answers pass through.

    In the block, the client raises `httpx.HTTPError` for an invalid answer.

    Args:
        repo: ORG/NAME.
    """
    watch = Watch(repo)
    with _lock:
        _install()
        _watches.append(watch)
    try:
        yield watch
    finally:
        with _lock:
            _watches.remove(watch)


@contextlib.contextmanager
def answered_within(seconds: float) -> Iterator[None]:
    """Lets a server be silent for at most `seconds` while the block runs, in all threads.

    Requests under a watch keep its limit; of several blocks, the longest limit counts.
    In the block, the client raises `httpx.TimeoutException` when a server says nothing for longer.
    """
    with _lock:
        _install()
        _waits.append(seconds)
    try:
        yield
    finally:
        with _lock:
            _waits.remove(seconds)


@contextlib.contextmanager
def sound_answers(where: str, kind: type[CosthubError]) -> Iterator[None]:
    """Turns the client's errors about malformed answers into readable messages.

    Args:
        where: The address, for the message.
        kind: The error to raise.
    """
    try:
        yield
    except CosthubError:
        raise
    except (ValueError, TypeError, LookupError, AttributeError, RecursionError) as error:
        reason = clean(" ".join(str(error).split()), 200)
        raise kind(
            f"{where} got an answer that no Hugging Face hub gives ({type(error).__name__}: {reason}). Check "
            "HF_ENDPOINT; if it is right, report this to the operator of the server."
        ) from error


def _install() -> None:
    """Wraps the client factory once: a client closed after an error is replaced by a new one.

    An existing client is watched as well. `set_client_factory` would close it, and break any download of another
    thread that uses it.
    """
    global _is_installed  # noqa: PLW0603 - the factory is one of the whole process, too
    if _is_installed:
        return
    from huggingface_hub.utils import _http

    make: Callable[[], Any] = _http._GLOBAL_CLIENT_FACTORY  # there is no public way to get it
    with _http._CLIENT_LOCK:
        _http._GLOBAL_CLIENT_FACTORY = lambda: _with_hooks(make())
        if _http._GLOBAL_CLIENT is not None:
            _with_hooks(_http._GLOBAL_CLIENT)
    _is_installed = True


def _with_hooks(client: Any) -> Any:
    hooks = client.event_hooks
    client.event_hooks = {
        "request": [*hooks["request"], _before],
        "response": [*hooks["response"], _after],
    }
    return client


def _limit(url: httpx.URL) -> tuple[list[Watch], int | None]:
    with _lock:
        fitting = [(watch, limit) for watch in _watches if (limit := watch.limit(url)) is not None]
    return [watch for watch, _ in fitting], max((limit for _, limit in fitting), default=None)


def _before(request: httpx.Request) -> None:
    """Sets a time limit if the client has none, and requests uncompressed bytes, which can be counted."""
    _, limit = _limit(request.url)
    with _lock:
        seconds = max(_waits, default=None) if limit is None else ANSWER_S
    if seconds is None:
        return
    limits = request.extensions.get("timeout") or {}
    keys = ("connect", "read", "write", "pool")
    request.extensions["timeout"] = {key: limits.get(key) or seconds for key in keys}
    if limit is not None:
        request.headers["Accept-Encoding"] = "identity"


def _after(response: httpx.Response) -> None:
    watches, limit = _limit(response.request.url)
    if limit is None:
        return
    if "/resolve/" not in response.request.url.path:
        for watch in watches:
            watch.pages += 1
        if all(watch.pages > MOST_PAGES for watch in watches):
            raise _refusal("its pages do not end", response)
    for name, form in _PLAIN.items():
        value = response.headers.get(name)
        if value is not None and not form.fullmatch(value):
            raise _refusal(f"its {name} is {clean(value, 80)!r}", response)
    if response.headers.get("content-encoding", "identity") != "identity":
        raise _refusal("it is compressed, though plain bytes were asked for", response)
    if response.has_redirect_location:
        target = response.url.join(response.headers["location"])
        if target.scheme not in ("http", "https"):
            raise _refusal(f"it leads to {clean(str(target), 80)}", response)
        with _lock:
            for watch in watches:
                watch.moved[str(target)] = limit
    response.stream = _bounded(response.stream, limit, response)


def _refusal(reason: str, response: httpx.Response) -> Exception:
    from huggingface_hub.utils import httpx  # type: ignore[attr-defined]  # documented, but not re-exported

    # Not a class of error after which the client retries.
    error = httpx.HTTPError(f"the answer for {clean(response.url.path, 120)} is refused: {reason}")
    error.request = response.request
    return error


def _bounded(stream: Any, limit: int, response: httpx.Response) -> Any:
    """The bytes of an answer, unless there are too many."""
    from huggingface_hub.utils import httpx  # type: ignore[attr-defined]  # documented, but not re-exported

    class Bounded(httpx.SyncByteStream):
        def __iter__(self) -> Iterator[bytes]:
            left = limit
            for piece in stream:
                left -= len(piece)
                if left < 0:
                    raise _refusal(f"it has more than the {limit:,} bytes that were expected", response)
                yield piece

        def close(self) -> None:
            stream.close()

    return Bounded()
