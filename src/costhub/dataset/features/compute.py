"""Provides compute_missing and featurise: they compute features in child processes and add them to the cache."""

from __future__ import annotations

import contextlib
import functools
import itertools
import logging
from collections import deque
from collections.abc import Callable, Generator, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any, Protocol

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from costhub.dataset.features.cache import FeatureCache
from costhub.dataset.features.program_key import KEY_COLUMNS, ProgramKeys, modules_of
from costhub.dataset.features.spec import Features, FeatureSpec, failures_of, tell_failure
from costhub.dataset.features.specs import find_spec, is_own
from costhub.dataset.folder import DataFolder
from costhub.dataset.programs import FloatArray, IntArray
from costhub.dataset.workload import module_from_json
from costhub.errors import CosthubError, DataError, WorkloadError, class_and_line, failing_as
from costhub.isolation.child import WITHOUT_TORCH
from costhub.isolation.limits import FOR_STRANGERS
from costhub.isolation.pool import STARVED, ChildPool, LostCall, default_size
from costhub.isolation.tvm_children import load_tvm
from costhub.progress import bar
from costhub.terminal_text import counted

log = logging.getLogger("costhub")

CHUNK_PROGRAMS = 64
_PART_PROGRAMS = 1024
_ORIGIN_VARIABLE = "COSTHUB_PROGRAMS_OF"
"""Separates children: one damaged by an untrusted trace must not compute cached features of others."""


@dataclass(frozen=True)
class Chunk:
    """Programs of one workload and one target, whose features are computed in one call."""

    module_json: str
    target: str
    keys: tuple[bytes, ...]
    traces: tuple[str, ...]


class ProgramSource(Protocol):
    """Holds programs, as a data folder does."""

    @property
    def path(self) -> Path:
        """Where it lies; programs of different places are computed by different child processes."""
        ...

    def chunks(self, device_id: str, keys: pa.Array) -> Iterator[Chunk]:
        """The programs of a device with these keys, once each."""
        ...


def compute_missing(
    source: DataFolder | ProgramSource, cache: FeatureCache, device_id: str, keys: pa.Array, *, progress: bool = True
) -> None:
    """Computes the features of some programs, one child process per core, and appends them to the cache.

    An interruption keeps the features computed so far. Programs whose workload is not in the source are left out, as
    are those for which the machine was too busy: the next call computes them.

    Args:
        source: The data folder that has measurements of the programs, or what else holds them.
        cache: The cache of the device.
        device_id: The device.
        keys: Distinct keys, of `KEY_TYPE`.
        progress: Show a progress bar on a terminal.
    """
    unsaved: dict[bytes, FloatArray | None] = {}
    chunks = partial(read_chunks, source) if isinstance(source, DataFolder) else source.chunks

    def save() -> None:
        cache.append(list(unsaved), list(unsaved.values()))
        unsaved.clear()

    try:
        # Closed immediately on ^C: its child processes would otherwise outlive the traceback.
        with (
            contextlib.closing(
                featurise(chunks(device_id, keys), cache.spec, origin=str(source.path.absolute()))
            ) as computed,
            bar(len(keys), desc="features", unit="program", enabled=progress) as shown,
        ):
            for chunk, features in computed:
                unsaved.update(zip(chunk.keys, features, strict=True))
                shown.update(len(features))
                if len(unsaved) >= _PART_PROGRAMS:
                    save()
    finally:
        # On ^C as well, so that no feature is computed twice.
        if unsaved:
            save()
        cache.merge()


def read_chunks(folder: DataFolder, device_id: str, keys: pa.Array) -> Iterator[Chunk]:
    """Reads some programs as chunks for `featurise`; skips those whose workload is missing."""
    modules = modules_of(folder)
    program_keys = ProgramKeys(modules)
    left = np.ones(len(keys), dtype=bool)
    for batch in _unmoved(lambda: folder.iter_measurements([device_id], KEY_COLUMNS)):
        # Keys of the very bytes used for the features, whatever an earlier read of the folder returned.
        own = program_keys.of(batch)
        place = pc.index_in(own, value_set=keys).fill_null(-1).to_numpy()
        is_chosen = (place >= 0) & left[place] & _is_first(place)  # a program measured twice is computed once
        left[place[is_chosen]] = False
        chosen = pa.array(is_chosen)
        yield from chunks_of_rows(batch.filter(chosen).to_pylist(), own.filter(chosen).to_pylist(), modules)


def _unmoved(batches: Callable[[], Iterator[pa.RecordBatch]]) -> Iterator[pa.RecordBatch]:
    """Batches of a folder, from the beginning again where a writer has moved its shards meanwhile.

    Raises:
        DataError: It cannot be read: this time, reading came no further than before.
    """
    most = 0
    while True:
        rows = 0
        try:
            for batch in batches():
                rows += batch.num_rows
                yield batch
            return
        except DataError:
            if rows <= most:
                raise
            most = rows


def _is_first(places: IntArray) -> npt.NDArray[np.bool_]:
    """Where a number occurs for the first time."""
    is_first = np.zeros(len(places), dtype=bool)
    is_first[np.unique(places, return_index=True)[1]] = True
    return is_first


def chunks_of_rows(
    rows: Sequence[Mapping[str, Any]], keys: Sequence[bytes], modules: Mapping[str, str]
) -> Iterator[Chunk]:
    """Programs as chunks; without those whose workload is missing.

    Args:
        rows: Each has the columns `KEY_COLUMNS`.
        keys: The key of each.
        modules: Workload id -> JSON of its module.
    """
    groups: dict[tuple[str, str], list[tuple[bytes, str]]] = {}
    for row, key in zip(rows, keys, strict=True):
        groups.setdefault((row["workload_id"], row["target"]), []).append((key, row["trace"]))
    for (workload_id, target), programs in groups.items():
        for start in range(0, len(programs) if workload_id in modules else 0, CHUNK_PROGRAMS):
            own, traces = zip(*programs[start : start + CHUNK_PROGRAMS], strict=True)
            yield Chunk(modules[workload_id], target, own, traces)


def featurise(
    chunks: Iterable[Chunk], spec: FeatureSpec, *, workers: int | None = None, origin: str = ""
) -> Generator[tuple[Chunk, Features], None, None]:
    """Computes the features of every program, and yields the chunks in order.

    Chunks are taken only as needed. A spec that needs no TVM is computed in this process.

    Args:
        chunks: The programs.
        spec: The layout of the features.
        workers: Child processes; by default `default_size`.
        origin: Where the programs come from. A child process that handled programs of one origin gets none of another.

    Yields:
        A chunk, and for each of its programs a (rows, width) array, or None if that fails. Programs for which the
        machine was too busy are left out of the chunk, and a warning counts them at the end.

    Raises:
        MeasureError: No child process can be started.
        DataError: The code of a user's spec fails, or gives rows of another number of programs.
    """
    if not spec.needs_tvm:
        for chunk in chunks:
            with failing_as(DataError, f"The code of the feature spec {spec.name}"):
                found = spec.extract(None, chunk.traces, chunk.target)
            _check_count(len(found), len(chunk.traces), spec)
            yield chunk, found
        return
    source = iter(chunks)
    first = list(itertools.islice(source, workers or default_size()))
    if first:
        environment = {_ORIGIN_VARIABLE: origin, **(WITHOUT_TORCH if is_own(spec.name) else {})}
        with ChildPool(len(first), prepare=load_tvm, limits=FOR_STRANGERS, environment=environment) as pool:
            yield from _in_children(pool, itertools.chain(first, source), spec)


def _in_children(
    pool: ChildPool, chunks: Iterable[Chunk], spec: FeatureSpec
) -> Generator[tuple[Chunk, Features], None, None]:
    taken: deque[Chunk] = deque()
    starved = 0

    def calls() -> Iterator[tuple[Any, ...]]:
        for chunk in chunks:
            taken.append(chunk)
            yield spec.name, chunk.module_json, chunk.target, chunk.traces

    for parts in pool.map(extract_told, calls(), pieces=_one_by_one):
        features: Features = []
        known: list[bool] = []
        for part in parts:
            if isinstance(part, LostCall):  # a single program: a lost chunk is taken apart
                features.append(None)
                known.append(part.why != STARVED)
                continue
            own, failures = part
            _check_count(len(own), len(taken[0].traces) if len(parts) == 1 else 1, spec)
            features += own
            known += [True] * len(own)
            for name, what in failures.items():
                tell_failure(name, what)
        starved += known.count(False)
        yield _of(taken.popleft(), known), list(itertools.compress(features, known))
    if starved:
        log.warning(
            f"{counted(starved, 'program')} will be left out: other programs kept this machine too busy to compute "
            "their features in time. The next command that reads them tries again."
        )


def _check_count(found: int, asked: int, spec: FeatureSpec) -> None:
    """Refuses rows that would be kept under the names of other programs."""
    if found != asked:
        raise DataError(
            f"The feature spec {spec.name} gave rows of {found} programs for {counted(asked, 'program')}: `extract` "
            "returns one array for each trace, or None for one without features."
        )


def _of(chunk: Chunk, chosen: Sequence[bool]) -> Chunk:
    """The chunk with the chosen programs alone."""
    keys, traces = itertools.compress(chunk.keys, chosen), itertools.compress(chunk.traces, chosen)
    return replace(chunk, keys=tuple(keys), traces=tuple(traces))


def _one_by_one(args: tuple[Any, ...]) -> list[tuple[Any, ...]]:
    *workload, traces = args
    return [(*workload, some) for some in ((), *((trace,) for trace in traces))]


def extract_features(spec: str, module_json: str, target: str, traces: Sequence[str]) -> Features:
    """Computes one (rows, width) array per trace, None where TVM cannot replay it; call it in a child process."""
    found = find_spec(spec)
    try:
        return found.extract(_cached_module(module_json), traces, target)
    except WorkloadError:
        return [None] * len(traces)
    except (CosthubError, MemoryError):
        raise
    except Exception as error:  # whatever TVM raises for a stranger's module, or the user's own code
        if not is_own(spec):
            raise DataError(f"The code of the feature spec {spec} failed ({class_and_line(error)}).") from error
        if len(traces) == 1:
            return [None]
        return [rows for trace in traces for rows in extract_features(spec, module_json, target, [trace])]


def extract_told(spec: str, module_json: str, target: str, traces: Sequence[str]) -> tuple[Features, dict[str, str]]:
    """What `extract_features` and `failures_of` return: what a child process logs is seen by nobody."""
    return extract_features(spec, module_json, target, traces), failures_of(spec)


@functools.lru_cache(maxsize=4)
def _cached_module(module_json: str) -> Any:
    return module_from_json(module_json)
