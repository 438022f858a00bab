"""Provides compute_missing: computes features that are not in the cache, and keeps them there."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from costhub.dataset.features.cache import FeatureCache
from costhub.dataset.features.featurise import CHUNK_PROGRAMS, Chunk, featurise
from costhub.dataset.folder import DataFolder
from costhub.dataset.programs import FloatArray
from costhub.progress import bar

_PART_PROGRAMS = 1024


def compute_missing(
    folder: DataFolder, cache: FeatureCache, device_id: str, record_ids: pa.Array, *, progress: bool = True
) -> None:
    """Computes the features of some measurements, one child process per core, and appends them to the cache.

    What is done when it is interrupted is kept. Measurements whose workload is not in the folder are left
    out.

    Args:
        folder: The data folder of the measurements.
        cache: The cache of the device.
        device_id: The device.
        record_ids: Different records, as Arrow strings.
        progress: Show a progress bar on a terminal.
    """
    unsaved: dict[str, FloatArray | None] = {}

    def save() -> None:
        cache.append(list(unsaved), list(unsaved.values()))
        unsaved.clear()

    try:
        # Closed at once on ^C: its child processes would outlive the traceback otherwise.
        with (
            contextlib.closing(featurise(chunks_of(folder, device_id, record_ids), cache.spec)) as found,
            bar(len(record_ids), desc="features", unit="program", enabled=progress) as shown,
        ):
            for chunk, features in found:
                unsaved.update(zip(chunk.record_ids, features, strict=True))
                shown.update(len(features))
                if len(unsaved) >= _PART_PROGRAMS:
                    save()
    finally:
        # Also on ^C: what is computed is not computed again.
        if unsaved:
            save()
        cache.merge()


def chunks_of(folder: DataFolder, device_id: str, record_ids: pa.Array) -> Iterator[Chunk]:
    """Reads some measurements as chunks to be featurised; those whose workload is unknown are left out."""
    modules = {row["workload_id"]: row["module_json"] for row in folder.workloads().to_pylist()}
    columns = ["record_id", "workload_id", "target", "trace"]
    left = np.ones(len(record_ids), dtype=bool)
    for batch in folder.iter_measurements([device_id], columns):
        place = pc.index_in(batch["record_id"], value_set=record_ids).fill_null(-1).to_numpy()
        # A record that lies in two places is computed once.
        wanted = (place >= 0) & left[place]
        left[place[wanted]] = False
        yield from _of_batch(batch.filter(pa.array(wanted)), modules)


def _of_batch(batch: pa.RecordBatch, modules: dict[str, str]) -> Iterator[Chunk]:
    groups: dict[tuple[str, str], list[tuple[str, str]]] = {}
    for row in batch.to_pylist():
        groups.setdefault((row["workload_id"], row["target"]), []).append((row["record_id"], row["trace"]))
    for (workload_id, target), programs in groups.items():
        for start in range(0, len(programs) if workload_id in modules else 0, CHUNK_PROGRAMS):
            ids, traces = zip(*programs[start : start + CHUNK_PROGRAMS], strict=True)
            yield Chunk(modules[workload_id], target, ids, traces)
