"""Provides featurise: computes the features of many programs in child processes."""

from __future__ import annotations

import itertools
import os
from collections import deque
from collections.abc import Generator, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace

from costhub.crash_pool import CrashPool, Lost
from costhub.dataset.features.service import SERVICE, FeatureRequest
from costhub.dataset.features.spec import Features, FeatureSpec

CHUNK_PROGRAMS = 64


@dataclass(frozen=True)
class Chunk:
    """Programs of one workload and one target, whose features are computed in one request."""

    module_json: str
    target: str
    record_ids: tuple[str, ...]
    traces: tuple[str, ...]


def featurise(
    chunks: Iterable[Chunk], spec: FeatureSpec, *, workers: int | None = None
) -> Generator[tuple[Chunk, Features], None, None]:
    """Computes the features of every program, and yields chunks in their order.

    Chunks are taken from `chunks` as they are needed. A spec that needs no TVM is computed in this process.

    Args:
        chunks: The programs.
        spec: The layout of the features.
        workers: Child processes; one per core by default.

    Yields:
        A chunk, and for each of its programs a (rows, width) array, or None where it cannot be computed.

    Raises:
        MeasureError: A child process does not start at all.
    """
    if not spec.needs_tvm:
        for chunk in chunks:
            yield chunk, spec.extract(None, chunk.traces, chunk.target)
        return
    source = iter(chunks)
    first = list(itertools.islice(source, workers or os.cpu_count() or 1))
    if first:
        yield from _in_children(itertools.chain(first, source), spec, first)


def _in_children(
    chunks: Iterable[Chunk], spec: FeatureSpec, first: Sequence[Chunk]
) -> Generator[tuple[Chunk, Features], None, None]:
    taken: deque[Chunk] = deque()

    def requests() -> Iterator[FeatureRequest]:
        for chunk in chunks:
            taken.append(chunk)
            yield FeatureRequest(chunk.module_json, chunk.target, chunk.traces, spec.name)

    # A new child imports TVM and the intrinsics of the first target outside the time limit of a program.
    warm = FeatureRequest(first[0].module_json, first[0].target, (), spec.name)
    with CrashPool(SERVICE, warm=warm, workers=len(first)) as pool:
        for replies in pool.map(requests(), pieces=_pieces):
            yield taken.popleft(), _joined(replies)


def _pieces(request: FeatureRequest) -> list[FeatureRequest]:
    return [replace(request, traces=traces) for traces in ((), *((trace,) for trace in request.traces))]


def _joined(replies: Sequence[Features | Lost]) -> Features:
    found: Features = []
    for reply in replies:
        found += [None] if isinstance(reply, Lost) else reply
    return found
