"""A synthetic data folder of any size with its features, for benchmarks of training."""

from __future__ import annotations

import tempfile
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from costhub.dataset.features.cache import FeatureCache
from costhub.dataset.features.specs import find_spec
from costhub.dataset.folder import DataFolder
from costhub.dataset.load import load_programs
from costhub.dataset.programs import FloatArray
from scripts.bench.common.data import DEVICE, copy_dataset
from scripts.bench.common.synthetic import record_id, synthetic_batches

SPEC = find_spec("per_store@1")
DEVICES = tuple(f"{DEVICE}-synthetic-{number}" for number in range(4))
TILES = 3
"""How often the rows of a real program are repeated, to have 7 rows per program, as on a GPU."""
JITTER = 0.01


def write_folder(path: Path, programs: int) -> None:
    """Writes measurements of four devices, made from real ones, and their features.

    A program's latency is within 5 % of a real one, and its features are within 1 % of the same program's, so
    there is as much to learn as in the real data. Traces do not match the features.
    """
    folder = DataFolder.create(path)
    with tempfile.TemporaryDirectory() as temporary:
        source = DataFolder.open(copy_dataset(temporary))
        folder.put_workloads(source.workloads().to_pylist())
        about = source.devices().to_pylist()[0]
        real = source.measurements(DEVICE, status="ok")
        features = real_features(source.path, real["record_id"].combine_chunks())
    for device in DEVICES:
        folder.put_device(about | {"device_id": device, "aliases": []})
        with folder.writer(device) as writer:
            for batch in synthetic_batches(real, device, programs // len(DEVICES)):
                writer.extend(batch)
        write_features(path, device, features, programs // len(DEVICES))


def real_features(data: Path, record_ids: pa.Array) -> list[FloatArray | None]:
    """The features of real programs, computed in the folder."""
    load_programs(data, device=DEVICE, progress=False)
    cache = FeatureCache(data, DEVICE, SPEC)
    entries = cache.find(record_ids)
    ends = np.cumsum(np.maximum(entries.counts, 0))
    parts = np.split(cache.read(entries), ends[:-1])
    return [part if count >= 0 else None for part, count in zip(parts, entries.counts, strict=True)]


def write_features(path: Path, device: str, features: list[FloatArray | None], programs: int) -> None:
    """Puts features into the cache in the order of the measurements, as if they had been computed."""
    numbers = pa.array([record_id(device, number) for number in range(programs)])
    cache, rng = FeatureCache(path, device, SPEC), np.random.default_rng(0)
    for batch in DataFolder.open(path).iter_measurements([device], ["record_id"]):
        places = pc.index_in(batch["record_id"], value_set=numbers).to_numpy() % len(features)
        cache.append(batch["record_id"].to_pylist(), list(_jittered([features[i] for i in places], rng)))
    cache.merge()


def _jittered(features: list[FloatArray | None], rng: np.random.Generator) -> Iterator[FloatArray | None]:
    present = [np.tile(rows, (TILES, 1)) for rows in features if rows is not None]
    rows = np.concatenate(present)
    rows *= 1.0 + JITTER * rng.standard_normal(rows.shape, dtype=np.float32)
    pieces = iter(np.split(rows, np.cumsum([len(part) for part in present])[:-1]))
    for own in features:
        yield None if own is None else next(pieces)
