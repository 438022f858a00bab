"""Changes the tables of a data folder as a forger does: past costhub's own checks, and sealed again."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from costhub.dataset.schema import arrow_schema, stored_schema
from costhub.dataset.shards.shard import BLANK_SEAL, SEAL_KEY, read_shard, write_seal, write_shard
from scripts.bench.common.data import DEVICE

SHARD = "train-00000-of-00001.parquet"
TABLES = {"measurements": f"measurements/{DEVICE}", "workloads": "workloads", "devices": "devices"}
Rows = list[dict[str, Any]]


def shard(folder: Path, table: str = "measurements") -> Path:
    """The one shard of a table."""
    return folder / TABLES[table] / SHARD


def read(folder: Path, table: str = "measurements") -> Rows:
    """Its rows."""
    rows: Rows = read_shard(shard(folder, table)).to_pylist()
    return rows


def write(folder: Path, rows: Rows, table: str = "measurements") -> None:
    """Writes it anew, sealed, whatever the rows say."""
    write_shard(pa.Table.from_pylist(rows, schema=arrow_schema(table)), shard(folder, table))


def change(folder: Path, table: str = "measurements", *, rows: int = 1, **values: Any) -> None:
    """Gives columns of the first rows other values; a function gets the old one."""
    found = read(folder, table)
    for row in found[:rows]:
        row |= {name: value(row[name]) if callable(value) else value for name, value in values.items()}
    write(folder, found, table)


def rename(folder: Path, table: str, column: str, new: str) -> None:
    """Gives the first workload, or the device, another name in every table that has it."""
    old = read(folder, table)[0][column]
    for each in ("measurements", table):
        rows = read(folder, each)
        for row in rows:
            row[column] = new if row.get(column) == old else row.get(column)
        write(folder, rows, each)


def write_table(path: Path, table: pa.Table, **options: Any) -> None:
    """Writes any table with pyarrow's own options, and seals it."""
    with pq.ParquetWriter(path, table.schema, write_page_checksum=True, **options) as writer:
        writer.write_table(table)
        writer.add_key_value_metadata({SEAL_KEY: BLANK_SEAL})
    write_seal(path)


def with_column(folder: Path, name: str, make: Callable[[int], pa.ChunkedArray | pa.Array]) -> pa.Table:
    """The measurements with another column in the place of one, made for so many rows."""
    table = pq.ParquetFile(shard(folder)).read()
    table = table.replace_schema_metadata(stored_schema("measurements").metadata)
    number = table.schema.get_field_index(name)
    column = make(table.num_rows)
    field = pa.field(name, column.type, table.schema.field(number).nullable, table.schema.field(number).metadata)
    return table.set_column(number, field, column)


def journal(folder: Path, lines: bytes) -> Path:
    """Writes a journal beside the shards."""
    path = folder / TABLES["measurements"] / "journal.jsonl"
    path.write_bytes(lines)
    return path


def journal_row(folder: Path, **values: Any) -> bytes:
    """A line of a journal: the first measurement, as another record, with other values."""
    row = read(folder)[0] | {"record_id": "f" * 64} | values
    if row["timestamp"] is not None and not isinstance(row["timestamp"], str):
        row["timestamp"] = row["timestamp"].isoformat()
    return json.dumps(row).encode() + b"\n"


def split(folder: Path, name: str, text: str | bytes) -> Path:
    """Writes a file beside the splits."""
    path = folder / "splits" / f"{name}.json"
    path.parent.mkdir(exist_ok=True)
    path.write_bytes(text.encode("utf-8", "surrogatepass") if isinstance(text, str) else text)
    return path


def split_content(folder: Path, name: str = "a", **values: Any) -> dict[str, Any]:
    """The content of a sound split of the two workloads."""
    ids = [row["workload_id"] for row in read(folder, "workloads")]
    sound = {"costhub": "split", "version": 1, "name": name, "seed": 0, "kind": "workload"}
    return sound | {"train": ids[:1], "test": ids[1:]} | values
