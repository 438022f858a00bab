"""Provides synthetic measurements for tests of scale: real rows, repeated with other decisions and latencies.

Every row says `proposed_by` = "synthetic". The rows serve benchmarks and are never published.
"""

from __future__ import annotations

import hashlib
import json
import time
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from costhub.dataset.features.cache import FeatureCache
from costhub.dataset.features.program_key import KEY_COLUMNS, ProgramKeys, key_array, modules_of
from costhub.dataset.features.specs import find_spec
from costhub.dataset.folder import DataFolder
from costhub.dataset.trace import program_id
from scripts.bench.common.data import DEVICE, REAL

DEVICES = tuple(f"{DEVICE}-synthetic-{number}" for number in range(4))
SPREAD = 0.05
_START_US = 1_700_000_000_000_000


def write_measurements(path: Path, rows: int, *, like: str | None = None) -> float:
    """Writes measurements of the synthetic devices to a new data folder.

    Args:
        path: The folder.
        rows: Of all devices together.
        like: A device of the embedded dataset whose measurements are repeated; all its devices by default.

    Returns:
        The seconds of writing, without those of generating.
    """
    source, folder = DataFolder.open(REAL), DataFolder.create(path)
    folder.put_workloads(source.workloads().to_pylist())
    about = source.devices().to_pylist()[0]
    real = source.measurements(like, status="ok")
    seconds = 0.0
    for name in DEVICES:
        folder.put_device(about | {"device_id": name, "aliases": []})
        for batch in synthetic_batches(real, name, rows // len(DEVICES)):
            start = time.perf_counter()
            with folder.writer(name) as writer:
                writer.extend(batch)
            seconds += time.perf_counter() - start
    return seconds


def copy_features(path: Path, device: str, *, spec: str = "per_store@1") -> None:
    """Gives every measurement of a synthetic device the cached features of the real `DEVICE`, in turn.

    Some traces are real, so $COSTHUB_CACHE should name a folder that goes afterwards.
    """
    layout = find_spec(spec)
    real_cache = FeatureCache(DEVICE, layout)
    entries = real_cache.find(good_keys(REAL, DEVICE))
    features = np.split(real_cache.read(entries), np.cumsum(np.maximum(entries.counts, 0))[:-1])
    cache, done = FeatureCache(device, layout), 0
    for _, keys in program_keys(path, device):
        numbers = np.arange(done, done + len(keys)) % len(features)
        cache.append(keys.to_pylist(), [features[i] for i in numbers])
        done += len(keys)
    cache.merge()


def good_keys(path: Path, device: str) -> pa.Array:
    """The keys of the programs of a device that ran."""
    good = pc.field("status") == "ok"
    return pa.concat_arrays([key_array([]), *(keys for _, keys in program_keys(path, device, good))])


def program_keys(
    path: Path, device: str, where: pc.Expression | None = None
) -> Iterator[tuple[pa.Array, pa.FixedSizeBinaryArray]]:
    """Record ids of the measurements of a device, with the keys of their programs, in batches."""
    folder = DataFolder.open(path)
    keys = ProgramKeys(modules_of(folder))
    for batch in folder.iter_measurements([device], ["record_id", *KEY_COLUMNS], where):
        yield batch["record_id"], keys.of(batch)


def synthetic_batches(real: pa.Table, device_id: str, rows: int, *, batch: int = 50_000) -> Iterator[pa.Table]:
    """Yields `rows` measurements of `device_id`, made from the good ones in `real`, `batch` rows a table."""
    rng = np.random.default_rng(int.from_bytes(device_id.encode(), "big") % 2**32)
    for start in range(0, rows, batch):
        yield _batch(real, device_id, start, min(batch, rows - start), rng)


def record_id(device_id: str, number: int) -> str:
    """The id of a synthetic measurement; its source is the real row `number` modulo the number of rows."""
    return hashlib.sha256(f"{device_id} {number}".encode()).hexdigest()[:32]


def _batch(real: pa.Table, device_id: str, start: int, count: int, rng: np.random.Generator) -> pa.Table:
    numbers = np.arange(start, start + count)
    table = real.take(pa.array(numbers % real.num_rows))
    again = numbers >= real.num_rows  # the first round keeps the real traces
    traces = [
        _other(trace, rng) if changed else trace
        for trace, changed in zip(table["trace"].to_pylist(), again, strict=True)
    ]
    programs = [program_id(w, t) for w, t in zip(table["workload_id"].to_pylist(), traces, strict=True)]
    repeats = [
        [float(s) for s in np.array(run_s) * factor]
        for run_s, factor in zip(table["run_s"].to_pylist(), np.exp(SPREAD * rng.standard_normal(count)), strict=True)
    ]
    columns = {
        "record_id": [record_id(device_id, int(number)) for number in numbers],
        "program_id": programs,
        "device_id": [device_id] * count,
        "trace": traces,
        "run_s": repeats,
        "proposed_by": ["synthetic"] * count,
        "session": ["synthetic"] * count,
        "timestamp": _START_US + numbers * 100_000,
    }
    for name, values in columns.items():
        field = table.schema.field(name)
        table = table.set_column(table.schema.get_field_index(name), field, pa.array(values, field.type))
    return table


def _other(trace: str, rng: np.random.Generator) -> str:
    """The trace with the factors of every tile in another order; it need not be a valid program."""
    instructions, decisions = json.loads(trace)
    for decision in decisions:
        if isinstance(decision[1], list):
            rng.shuffle(decision[1])
    return json.dumps([instructions, decisions], separators=(",", ":"))
