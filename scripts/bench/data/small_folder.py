"""A small folder of real measurements, in shards of a few kilobytes with several row groups."""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq

import costhub
from costhub.dataset.folder import DataFolder
from costhub.dataset.schema import arrow_schema
from costhub.dataset.shards.shard import BLANK_SEAL, SEAL_KEY, write_seal

DATASET, DEVICE = "amd-epyc-zen5", "amd-epyc-zen5-1c"
EMBEDDED = Path(costhub.__file__).parent / "hub/embedded/datasets/costhub" / DATASET
NAMES = ("softmax.64x1000", "metaschedule.nrm")
ROWS = 24


def small_folder(path: Path) -> Path:
    """Makes the folder: one device, two workloads, 24 rows of each."""
    source, folder = DataFolder.open(EMBEDDED), DataFolder.create(path)
    workloads = [row for row in source.workloads().to_pylist() if row["name"] in NAMES]
    rows = source.measurements(DEVICE).to_pylist()
    chosen = [[r for r in rows if r["workload_id"] == w["workload_id"]][:ROWS] for w in workloads]
    _write(path / "measurements" / DEVICE, "measurements", [row for part in chosen for row in part])
    _write(path / "workloads", "workloads", workloads)
    _write(path / "devices", "devices", source.devices().to_pylist())
    return folder.path


def _write(folder: Path, table: str, rows: list[dict[str, object]]) -> None:
    folder.mkdir(exist_ok=True)
    path = folder / "train-00000-of-00001.parquet"
    whole = pa.Table.from_pylist(rows, schema=arrow_schema(table))
    with pq.ParquetWriter(path, whole.schema, compression="zstd", write_page_checksum=True) as writer:
        writer.write_table(whole, row_group_size=max(1, len(rows) // 4))
        writer.add_key_value_metadata({SEAL_KEY: BLANK_SEAL})
    write_seal(path)
