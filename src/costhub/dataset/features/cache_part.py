"""Provides the parts of the feature cache: sealed Parquet files whose arrays are read without a copy.

A part has one row per program and one row group. The feature rows are the bytes of a float32 array, little-endian,
row by row: lists of floats cost Parquet a repetition level for each number and are read at half the speed.
"""

from __future__ import annotations

import functools
import json
import time
import uuid
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from costhub.dataset.features.program_key import KEY_TYPE, key_array
from costhub.dataset.features.spec import FeatureSpec
from costhub.dataset.programs import FloatArray
from costhub.dataset.shards.shard import new_parquet, seal_state
from costhub.errors import DataError
from costhub.versions import installed_versions

PART_PATTERN = "part-*.parquet"
FAILED = -1
"""The n_rows of a program without features, so that no load tries to compute it again."""

_KEY = b"costhub.features"
_FIELDS = [
    pa.field("program", KEY_TYPE, nullable=False),
    pa.field("n_rows", pa.int32(), nullable=False),
    pa.field("rows", pa.binary(), nullable=False),
]


class PartLost(Exception):
    """A part has become damaged, or another process has merged it."""


@dataclass(frozen=True)
class CachePart:
    """The index of a part, without the feature rows."""

    path: Path
    keys: pa.ChunkedArray
    counts: npt.NDArray[np.int32]
    """(n,) rows of each program, or FAILED."""

    @property
    def rows(self) -> int:
        """Number of feature rows in the part."""
        return int(np.maximum(self.counts, 0).sum())


@functools.lru_cache(maxsize=16)
def part_schema(spec: FeatureSpec) -> pa.Schema:
    """Returns the Arrow schema of the parts of a spec; its metadata name the versions that computed the rows."""
    made_with = {
        "spec": spec.name,
        "columns": spec.columns_hash,
        "tvm": installed_versions().get("tvm") if spec.needs_tvm else None,
    }
    return pa.schema(_FIELDS, metadata={_KEY: json.dumps(made_with, sort_keys=True).encode()})


def new_part_path(folder: Path) -> Path:
    """Returns a path for a new part whose name sorts after those of older parts."""
    return folder / f"part-{time.time_ns():020d}-{uuid.uuid4().hex[:8]}.parquet"


def pack_features(spec: FeatureSpec, keys: Sequence[bytes], features: Sequence[FloatArray | None]) -> pa.Table:
    """Packs programs into a table for `write_part`.

    Args:
        spec: The layout of the features.
        keys: The key of each program.
        features: A (rows, width) array for each, or None for a program without features.

    Raises:
        DataError: The rows of a program have another width than the layout, which reading them would take for damage.
    """
    for f in features:
        if f is not None and len(f) and f.shape[1:] != (spec.width,):
            raise DataError(f"{spec.name} has {spec.width} columns, but its code gave rows of shape {f.shape}.")
    counts = [FAILED if f is None else len(f) for f in features]
    rows = [b"" if f is None else np.ascontiguousarray(f, "<f4").tobytes() for f in features]
    return pa.table([key_array(keys), counts, rows], schema=part_schema(spec))


def write_part(table: pa.Table, path: Path) -> None:
    """Writes a table from `pack`, or several joined, as one part."""
    with new_parquet(path, table.schema) as writer:
        writer.write_table(table, row_group_size=max(1, table.num_rows))


def read_part(path: Path, spec: FeatureSpec) -> CachePart | None:
    """Opens a part; None where it is damaged or was computed with another version of TVM or of the spec.

    Raises:
        FileNotFoundError: The part no longer exists.
        MemoryError: There is not enough memory; the part may be sound.
    """
    if seal_state(path) != "sealed":
        return None
    schema = part_schema(spec)
    try:
        with pq.ParquetFile(path) as file:
            if not file.schema_arrow.equals(schema) or not _made_with_same_versions(file.schema_arrow, schema):
                return None
            table = file.read(columns=["program", "n_rows"], use_threads=False)
    except pa.ArrowMemoryError:
        raise
    except pa.ArrowException:
        return None
    return CachePart(path, table["program"], table["n_rows"].to_numpy())


def _made_with_same_versions(schema: pa.Schema, expected: pa.Schema) -> bool:
    """Whether the rows were computed with the same versions; the seal, also metadata, is ignored."""
    return bool((schema.metadata or {}).get(_KEY) == expected.metadata[_KEY])


def read_table(part: CachePart) -> pa.Table:
    """Reads a whole part, to merge it with others.

    Raises:
        PartLost: The part no longer exists or can no longer be read.
        MemoryError: There is not enough memory; the part may be sound.
    """
    try:
        with pq.ParquetFile(part.path) as file:
            return file.read(use_threads=False)
    except pa.ArrowMemoryError:
        raise
    except (pa.ArrowException, OSError) as error:
        raise PartLost(str(part.path)) from error


def read_rows(part: CachePart, width: int) -> FloatArray:
    """Reads the feature rows of all programs of a part, in order, as Arrow decoded them.

    Returns:
        (rows, width) array, read-only.

    Raises:
        PartLost: The part no longer exists or can no longer be read, or its programs have other numbers of rows.
        MemoryError: There is not enough memory; the part may be sound.
    """
    try:
        with pq.ParquetFile(part.path) as file:
            column = file.read(columns=["rows"], use_threads=False)["rows"]
    except pa.ArrowMemoryError:
        raise
    except (pa.ArrowException, OSError) as error:
        raise PartLost(str(part.path)) from error
    lengths = pc.binary_length(column).to_numpy()
    if not np.array_equal(lengths, np.maximum(part.counts, 0) * (4 * width)):
        raise PartLost(str(part.path))
    chunk = column.chunk(0) if column.num_chunks == 1 else pa.concat_arrays(column.chunks)
    _, offsets, data = chunk.buffers()
    if not part.rows:
        return np.zeros((0, width), np.float32)
    start = int(np.frombuffer(offsets, np.int32, count=1, offset=4 * chunk.offset)[0])
    return np.frombuffer(data, "<f4", count=part.rows * width, offset=start).reshape(-1, width)
