"""Provides FeatureCache: computed features on disk, by record id; all of it can be computed again."""

from __future__ import annotations

import uuid
from collections.abc import Collection, Sequence
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from costhub.dataset.features.per_store import PER_STORE, WIDTH
from costhub.dataset.programs import FloatArray
from costhub.dataset.shard import write_parquet

FAILED = -1
"""The n_rows of a program that has no features, so that it is not tried at every load."""

_SCHEMA = pa.schema([("record_id", pa.string()), ("n_rows", pa.int32()), ("rows", pa.list_(pa.float32()))])


class FeatureCache:
    """The features of one device's programs, in the layout per_store@1."""

    def __init__(self, root: Path, device_id: str) -> None:
        """Names the cache of a device in the data folder `root`; nothing is read yet."""
        self.folder = root / "features" / PER_STORE / device_id

    def read(self, record_ids: Collection[str]) -> dict[str, FloatArray | None]:
        """Reads what is known of `record_ids`.

        A part that cannot be read is removed: it is computed again.

        Returns:
            For each known id a (rows, 172) array, or None for a program that has no features.
        """
        wanted = pa.array(list(record_ids), pa.string())
        known: dict[str, FloatArray | None] = {}
        for path in sorted(self.folder.glob("part-*.parquet")):
            part = _read_part(path)
            if part is not None:
                known.update(_unpack(part.filter(pc.is_in(part["record_id"], value_set=wanted))))
        return known

    def append(self, record_ids: Sequence[str], features: Sequence[FloatArray | None]) -> None:
        """Adds a part with these programs.

        Args:
            record_ids: The records.
            features: For each a (rows, 172) array, or None for a program that has no features.
        """
        self.folder.mkdir(parents=True, exist_ok=True)
        table = pa.table(
            [
                pa.array(list(record_ids), pa.string()),
                pa.array([FAILED if f is None else len(f) for f in features], pa.int32()),
                pa.array([None if f is None else f.ravel() for f in features], pa.list_(pa.float32())),
            ],
            schema=_SCHEMA,
        )
        write_parquet(table, self.folder / f"part-{uuid.uuid4().hex}.parquet")


def _read_part(path: Path) -> pa.Table | None:
    try:
        part = pq.read_table(path, partitioning=None)
    except FileNotFoundError:
        return None
    except (pa.ArrowException, OSError):
        part = None
    if part is None or not _is_sound(part):
        path.unlink(missing_ok=True)
        return None
    return part


def _is_sound(part: pa.Table) -> bool:
    if not part.schema.equals(_SCHEMA) or part["record_id"].null_count or part["n_rows"].null_count:
        return False
    lengths = pc.fill_null(pc.list_value_length(part["rows"]), 0)
    expected = pc.multiply(pc.max_element_wise(part["n_rows"], 0), WIDTH)
    return bool(pc.all(pc.equal(lengths, expected), min_count=0).as_py())


def _unpack(part: pa.Table) -> dict[str, FloatArray | None]:
    counts = part["n_rows"].to_numpy()
    values = np.asarray(pc.list_flatten(part["rows"]).to_numpy(), np.float32).reshape(-1, WIDTH)
    ends = np.cumsum(np.maximum(counts, 0))
    found: dict[str, FloatArray | None] = {}
    for record_id, count, end in zip(part["record_id"].to_pylist(), counts, ends, strict=True):
        found[record_id] = None if count == FAILED else values[end - count : end]
    return found
