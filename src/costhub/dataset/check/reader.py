"""Provides Reader: reads files from strangers through a child process that may die of them."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from types import TracebackType
from typing import Any

from costhub.dataset.check.context import Context
from costhub.dataset.check.files import READABLE, Source
from costhub.dataset.check.report import Breach
from costhub.dataset.check.service import SERVICE, Fetch, Next, Open, Piece, Start
from costhub.worker import Worker, WorkerDied, WorkerTimeout

FILE_TIMEOUT_S = 10.0
MEGABYTE_TIMEOUT_S = 10.0
"""A megabyte holds some 5,000 rows, which take half a second on an idle core."""


class Reader:
    """Reads files piece by piece; a file that kills the child or holds it up is a breach, and costs no other.

    Usable for several checks in turn: the child stays.
    """

    def __init__(self) -> None:
        self._worker = Worker(SERVICE)
        self._context = Context()

    def know(self, context: Context) -> None:
        """Sets what the rules know of devices and workloads."""
        self._context = context
        self._worker.is_warm = False

    def read(
        self, source: Source, number: int, on_rows: Callable[[int], object], *, as_dicts: bool = False
    ) -> Iterator[Piece]:
        """Yields what comes of a file, in pieces.

        Args:
            source: The file.
            number: Its number, for the ledger.
            on_rows: Called with the number of rows of every piece.
            as_dicts: Give the rows themselves, and apply no rule.

        Raises:
            MeasureError: The child process does not start.
        """
        end = time.monotonic() + time_limit_s(source)
        request: Open | Next = Open(source, number, as_dicts)
        while True:
            piece = self._ask(request, source, end)
            if isinstance(request, Next):
                on_rows(piece.rows)
            yield piece
            if piece.is_last:
                return
            request = Next()

    def fetch(self, source: Source, rows: tuple[int, ...], columns: tuple[str, ...]) -> list[dict[str, Any]]:
        """Some columns of some rows of a file, in their order; nothing where it cannot be read."""
        try:
            self._prepare()
            found: list[dict[str, Any]] = self._worker.call(
                Fetch(source, rows, columns), timeout_s=time_limit_s(source)
            )
        except (WorkerDied, WorkerTimeout):
            return []
        return found

    def _ask(self, request: Open | Next, source: Source, end: float) -> Piece:
        try:
            if isinstance(request, Open):
                self._prepare()
            piece: Piece = self._worker.call(request, timeout_s=max(0.0, end - time.monotonic()))
        except WorkerDied as error:
            message = f"The process that read it died: {error}"
        except WorkerTimeout:
            message = f"Reading it took more than {time_limit_s(source):,.0f} s."
        else:
            return piece
        return Piece(breaches=[Breach(READABLE.id, source.where, message)], is_last=True)

    def _prepare(self) -> None:
        """Starts the child where there is none, and tells it what the rules know."""
        self._worker.start()
        if not self._worker.is_warm:
            self._worker.call(Start(self._context), timeout_s=FILE_TIMEOUT_S * 10)
            self._worker.is_warm = True

    def __enter__(self) -> Reader:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._worker.kill()


def time_limit_s(source: Source) -> float:
    """Seconds that reading a file may take."""
    return FILE_TIMEOUT_S + MEGABYTE_TIMEOUT_S * source.path.stat().st_size / 1e6
