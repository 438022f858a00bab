"""Provides ExportPool: child processes that write records, of which a crash costs one."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import replace

from costhub.crash_pool import CrashPool, Lost
from costhub.dataset.metaschedule.export_service import SERVICE, RecordsRequest, WorkloadLine, WorkloadRequest

Records = list[str | None]


class ExportPool:
    """Child processes that replay programs and write them as records.

    Raises:
        MeasureError: A child process does not start at all.

    Example:
        >>> with ExportPool(workers=1) as pool:
        ...     list(pool.records([]))
        []
    """

    def __init__(self, *, workers: int | None = None) -> None:
        self._pool = CrashPool(SERVICE, warm=WorkloadRequest(), workers=workers)

    def __enter__(self) -> ExportPool:
        self._pool.__enter__()
        return self

    def __exit__(self, *_: object) -> None:
        self._pool.close()

    def workload(self, module_json: str) -> WorkloadLine | None:
        """The line of a workload; None for one that TVM cannot read, or that brings it down."""
        reply = self._pool.ask(WorkloadRequest(module_json))
        return reply if isinstance(reply, WorkloadLine) else None

    def records(self, requests: Iterable[RecordsRequest]) -> Iterator[Records]:
        """Yields the records of each request, in order; at most two requests per process are under way."""
        for replies in self._pool.map(requests, pieces=_pieces):
            yield [text for reply in replies for text in ([None] if isinstance(reply, Lost) else reply)]


def _pieces(request: RecordsRequest) -> list[RecordsRequest]:
    return [replace(request, programs=programs) for programs in ((), *((p,) for p in request.programs))]
