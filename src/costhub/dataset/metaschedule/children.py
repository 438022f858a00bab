"""Provides Children: child processes that read workloads and replay traces side by side."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace

from costhub.crash_pool import CrashPool, Lost
from costhub.dataset.metaschedule.service import (
    SERVICE,
    LoadedWorkload,
    LoadRequest,
    ReplayReply,
    ReplayRequest,
)


class Children:
    """Child processes, in which a crash or a hang costs the one record that causes it."""

    def __init__(self, workers: int | None = None) -> None:
        """Prepares for `workers` children, one per core by default; they start on entering."""
        self._pool = CrashPool(SERVICE, warm=LoadRequest(), workers=workers)

    def __enter__(self) -> Children:
        self._pool.__enter__()
        return self

    def __exit__(self, *_: object) -> None:
        self._pool.close()

    def load(self, lines: Sequence[bytes]) -> Iterator[LoadedWorkload | str]:
        """Reads workloads, in order; a string says why one cannot be read."""
        requests = [LoadRequest(line) for line in lines]
        for [reply] in self._pool.map(requests, pieces=lambda request: [LoadRequest(), request]):
            yield _how(reply) if isinstance(reply, Lost) else reply

    def replay(self, requests: Sequence[ReplayRequest]) -> Iterator[ReplayReply | str]:
        """Replays traces, in order; a string says why none of a request can be replayed."""
        for replies in self._pool.map(requests, pieces=_pieces):
            yield _joined([_how(reply) if isinstance(reply, Lost) else reply for reply in replies])


def _pieces(request: ReplayRequest) -> list[ReplayRequest]:
    return [replace(request, traces=traces) for traces in ((), *((trace,) for trace in request.traces))]


def _joined(replies: Sequence[ReplayReply | str]) -> ReplayReply | str:
    found = [reply for reply in replies if isinstance(reply, ReplayReply)]
    if not found:
        return str(replies[0]) if replies else "TVM crashed on its workload or target"
    programs = [reply.programs if isinstance(reply, ReplayReply) else (reply,) for reply in replies]
    return replace(found[0], programs=tuple(program for part in programs for program in part))


def _how(lost: Lost) -> str:
    return f"TVM {lost.why} on it" if lost.why == "crashed" else f"TVM {lost.why} over it"
