"""Provides load_programs: the programs of one device with their features, as arrays to learn from."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator, Sequence
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from costhub.dataset.features.cache import FeatureCache
from costhub.dataset.features.featurise import CHUNK_PROGRAMS, Chunk, featurise
from costhub.dataset.features.per_store import WIDTH
from costhub.dataset.folder import DataFolder
from costhub.dataset.latency import median_latency_s
from costhub.dataset.programs import FloatArray, Programs
from costhub.errors import DataError
from costhub.progress import bar

_PART_PROGRAMS = 512


def load_programs(
    path: str | Path, *, device: str | None = None, workloads: set[str] | None = None, progress: bool = True
) -> Programs:
    """Reads the programs that ran on one device, with their features; missing features are computed and kept.

    Args:
        path: A data folder.
        device: The device; may be left out where the folder has only one.
        workloads: Ids of the workloads to keep; all by default.
        progress: Show a progress bar on a terminal while features are computed.

    Returns:
        The programs whose status is `ok` and whose features TVM can compute.

    Raises:
        DataError: The folder cannot be read, has several devices, or no such device.
    """
    folder = DataFolder.open(path)
    device_id = device or _only_device(folder)
    where = pc.field("status") == "ok"
    if workloads is not None:
        where &= _among("workload_id", sorted(workloads))
    table = folder.select_measurements([device_id], ["record_id", "workload_id", "run_s"], where)
    latency_s = median_latency_s(table["run_s"])
    record_ids = np.array(table["record_id"].to_pylist(), dtype=object)
    features = _features(folder, device_id, record_ids.tolist(), progress=progress)
    has_features = np.array([features[i] is not None for i in record_ids], dtype=bool)
    good = np.isfinite(latency_s) & (latency_s > 0) & has_features
    arrays = [rows for i in record_ids[good] if (rows := features[i]) is not None]
    if not arrays:
        none = np.zeros(0, np.int64)
        return Programs(np.zeros((0, WIDTH), np.float32), none, none, (), np.zeros(0))
    names, index = np.unique(np.array(table["workload_id"].to_pylist())[good], return_inverse=True)
    return Programs.from_list(list(arrays), index, tuple(names.tolist()), latency_s[good])


def _only_device(folder: DataFolder) -> str:
    known = folder.device_ids()
    if len(known) != 1:
        raise DataError(
            f"{folder.path} has measurements of {len(known)} devices ({', '.join(known)}); "
            f"name one of them, since latencies of different devices cannot be mixed."
        )
    return known[0]


def _among(column: str, names: Sequence[str]) -> pc.Expression:
    return pc.field(column).isin(pa.array(list(names), pa.string()))


def _features(
    folder: DataFolder, device_id: str, record_ids: Sequence[str], *, progress: bool
) -> dict[str, FloatArray | None]:
    cache = FeatureCache(folder.path, device_id)
    known = cache.read(record_ids)
    missing = [record_id for record_id in record_ids if record_id not in known]
    if missing:
        known.update(_compute(folder, device_id, cache, missing, progress=progress))
    # Programs of a workload that is not in the workloads table have no module to replay.
    return {record_id: known.get(record_id) for record_id in record_ids}


def _compute(
    folder: DataFolder, device_id: str, cache: FeatureCache, missing: Sequence[str], *, progress: bool
) -> dict[str, FloatArray | None]:
    computed: dict[str, FloatArray | None] = {}
    unsaved: dict[str, FloatArray | None] = {}
    chunks = list(_chunks(folder, device_id, missing))
    total = sum(len(chunk.record_ids) for chunk in chunks)
    try:
        # Closed at once on ^C: its child processes would outlive the traceback otherwise.
        with (
            contextlib.closing(featurise(chunks)) as found,
            bar(total, desc="features", unit="program", enabled=progress) as shown,
        ):
            for chunk, features in found:
                unsaved.update(zip(chunk.record_ids, features, strict=True))
                shown.update(len(features))
                if len(unsaved) >= _PART_PROGRAMS:
                    cache.append(list(unsaved), list(unsaved.values()))
                    computed.update(unsaved)
                    unsaved = {}
    finally:
        # Also on ^C: what is computed is not computed again.
        if unsaved:
            cache.append(list(unsaved), list(unsaved.values()))
    return computed | unsaved


def _chunks(folder: DataFolder, device_id: str, record_ids: Sequence[str]) -> Iterator[Chunk]:
    columns = ["record_id", "workload_id", "target", "trace"]
    table = folder.select_measurements([device_id], columns, _among("record_id", record_ids))
    modules = {row["workload_id"]: row["module_json"] for row in folder.workloads().to_pylist()}
    groups: dict[tuple[str, str], list[tuple[str, str]]] = {}
    for row in table.to_pylist():
        groups.setdefault((row["workload_id"], row["target"]), []).append((row["record_id"], row["trace"]))
    for (workload_id, target), programs in groups.items():
        for start in range(0, len(programs) if workload_id in modules else 0, CHUNK_PROGRAMS):
            ids, traces = zip(*programs[start : start + CHUNK_PROGRAMS], strict=True)
            yield Chunk(modules[workload_id], target, ids, traces)
