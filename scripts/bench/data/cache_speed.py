"""Measures how fast cached features are read, beside a bare read of the same files by pyarrow."""

from __future__ import annotations

from pathlib import Path
from time import perf_counter

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from costhub.dataset.features.cache import FeatureCache
from costhub.dataset.features.specs import find_spec
from costhub.dataset.folder import DataFolder


def good_ids(path: Path, device: str) -> pa.Array:
    """The record ids of the good measurements of a device."""
    table = DataFolder.open(path).measurements(device, ["record_id"], "ok")
    return table["record_id"].combine_chunks()


def reading(path: Path, device: str, *, spec: str = "per_store@1", repeats: int = 5) -> dict[str, float]:
    """GB of arrays per second out of the cache, and of the same files by pyarrow; best of some repeats."""
    ids, layout = good_ids(path, device), find_spec(spec)
    files = [str(file) for file in sorted(FeatureCache(path, device, layout).folder.glob("part-*"))]
    ours, bare, gigabytes = [], [], 0.0
    for _ in range(repeats):
        start = perf_counter()
        cache = FeatureCache(path, device, layout)
        gigabytes = cache.read(cache.find(ids)).nbytes / 1e9
        ours.append(perf_counter() - start)
        start = perf_counter()
        pq.read_table(files, partitioning=None)
        bare.append(perf_counter() - start)
    speeds = {"gb_per_s": gigabytes / min(ours), "pyarrow_gb_per_s": gigabytes / min(bare)}
    return {"gigabytes": gigabytes, **speeds, "ratio": min(bare) / min(ours), "files": len(files)}


def fill(path: Path, device: str, real: Path, real_device: str, *, spec: str = "per_store@1") -> None:
    """Gives every measurement of a synthetic device the features of real programs, in turn."""
    layout = find_spec(spec)
    real_cache = FeatureCache(real, real_device, layout)
    entries = real_cache.find(good_ids(real, real_device))
    features = np.split(real_cache.read(entries), np.cumsum(np.maximum(entries.counts, 0))[:-1])
    cache, done = FeatureCache(path, device, layout), 0
    for batch in DataFolder.open(path).iter_measurements([device], ["record_id"]):
        numbers = np.arange(done, done + len(batch)) % len(features)
        cache.append(batch["record_id"].to_pylist(), [features[i] for i in numbers])
        done += len(batch)
    cache.merge()
