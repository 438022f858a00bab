"""Synthetic measurements for tests of scale: real rows, repeated with other decisions and latencies.

Every row says `proposed_by` = "synthetic". The rows serve benchmarks and are never published.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterator

import numpy as np
import pyarrow as pa

from costhub.dataset.trace import program_id

SPREAD = 0.05
_START_US = 1_700_000_000_000_000


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
