"""Provides Verdicts: the findings of earlier runs about records, so that nothing is replayed twice."""

from __future__ import annotations

import contextlib
import hashlib
import json
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from types import TracebackType
from typing import IO

from costhub.files import cache_root, is_own
from costhub.versions import __version__

FOLDER = "doctor"
"""Folder in the cache."""
_KEY_DIGITS = 32


@dataclass(frozen=True)
class Verdict:
    """The outcome of a record in TVM."""

    why: str | None = None
    """Why it does not replay; None if it does."""
    redone: bool = False
    """Whether TVM 0.27 redid its post-processing."""
    record: str | None = None
    """The record as TVM 0.27 writes it, without its workload; None if it can stay unchanged."""
    is_final: bool = True
    """Whether it is about the record itself; False if the machine was only too busy to tell."""


class Verdicts:
    """The verdicts on the records of one database, in a file in the user's cache that grows batch by batch.

    A run after an interruption, and one that writes a clean copy, reuse existing verdicts. The cache is not
    trusted if it belongs to someone else.

    Args:
        workloads: Digest of the database's workloads, which names the file.

    Example:
        >>> with Verdicts("e3b0") as verdicts:
        ...     verdicts.put([("k1", Verdict(why="it does not fit"))])
        ...     verdicts.get("k1").why
        'it does not fit'
    """

    def __init__(self, workloads: str) -> None:
        path = cache_root() / FOLDER / f"{_digest(workloads, _versions())}.jsonl"
        self._known: dict[str, Verdict] = {}
        self._file: IO[str] | None = None
        # An unusable cache only costs time.
        with contextlib.suppress(OSError):
            path.parent.mkdir(parents=True, exist_ok=True)
            if is_own(path.parent) and not path.is_symlink() and (is_own(path) or not path.exists()):
                self._known = _read(path)
                self._file = path.open("a", encoding="utf-8")

    def __enter__(self) -> Verdicts:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self._close()

    @staticmethod
    def key(module_json: str, line: str) -> str:
        """Makes the key of a record of a workload."""
        return _digest(module_json, line)

    def get(self, key: str) -> Verdict | None:
        """The verdict of an earlier run; None if there is none."""
        return self._known.get(key)

    def put(self, verdicts: Iterable[tuple[str, Verdict]]) -> None:
        """Stores verdicts for this run, and the final ones for later runs."""
        new = dict(verdicts)
        self._known |= new
        if self._file is not None and new:
            final = ((key, v) for key, v in new.items() if v.is_final)
            lines = (json.dumps([key, v.why, v.redone, v.record], separators=(",", ":")) for key, v in final)
            # A full disk ends the caching, not the examination.
            try:
                self._file.write("".join(f"{line}\n" for line in lines))
                self._file.flush()
            except OSError:
                self._close()

    def _close(self) -> None:
        file, self._file = self._file, None
        if file is not None:
            with contextlib.suppress(OSError):  # it writes what a full disk has not taken
                file.close()


def _read(path: Path) -> dict[str, Verdict]:
    """The verdicts in a file, except a last line cut off by an interruption."""
    found = {}
    if path.is_file():
        with path.open(encoding="utf-8", errors="replace") as file:
            for line in file:
                with contextlib.suppress(ValueError, TypeError):
                    key, why, redone, record = json.loads(line)
                    found[str(key)] = Verdict(why, bool(redone), record)
    return found


_RULES = 2
"""Counted up when records are examined in another way, so that older verdicts no longer count."""


def _versions() -> str:
    from importlib.metadata import version

    return f"{version('apache-tvm')} {__version__} {_RULES}"


def _digest(*texts: str) -> str:
    digest = hashlib.sha256()
    for text in texts:
        digest.update(f"{len(text)} ".encode() + text.encode("utf-8", "surrogatepass"))
    return digest.hexdigest()[:_KEY_DIGITS]
