"""Measures what a row takes in a shard, column by column, and how long one workload of a million rows takes to read.

Both are measured for schema version 2 as well: the same rows, written as costhub 0.1 wrote them.
"""

from __future__ import annotations

import statistics
import tempfile
import time
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import click
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from costhub.cards.tables import TableColumn, number, plain_table
from costhub.dataset.schema import MEASUREMENTS, arrow_schema
from costhub.dataset.shards.shard import ROW_GROUP_ROWS, read_shard, write_shard
from costhub.dataset.trace import record_id
from costhub.hub.catalogue.hubs import dataset_folders
from scripts.bench.common import machine, options
from scripts.bench.common.synthetic import DEVICES, synthetic_batches

SHARD_ROWS = 250_000
REPEATS = 5
COLUMNS = (
    TableColumn("column", "column"),
    number("before", "bytes a row, version 2", ".2f"),
    number("after", "version 3", ".2f"),
)


def write_version_2(rows: pa.Table, path: Path) -> None:
    """Writes measurements as costhub 0.1 did: whole ids and traces, zstd's usual level."""
    schema = arrow_schema("measurements", version=2)
    few = [column.name for column in MEASUREMENTS if column.repeats and column.since <= 2]
    table = rows.take(pc.sort_indices(rows, sort_keys=[("workload_id", "ascending")]))
    with pq.ParquetWriter(
        path,
        schema,
        compression="zstd",
        use_dictionary=few,
        write_statistics=few,
        write_page_index=True,
        write_page_checksum=True,
        use_content_defined_chunking=True,
    ) as writer:
        writer.write_table(table.select(schema.names).cast(schema), row_group_size=ROW_GROUP_ROWS)


def column_bytes(path: Path) -> Counter[str]:
    """Compressed bytes of every column of a shard, and those of its footer and indices."""
    metadata = pq.read_metadata(path)
    sizes: Counter[str] = Counter()
    for group in range(metadata.num_row_groups):
        for place in range(metadata.num_columns):
            chunk = metadata.row_group(group).column(place)
            sizes[chunk.path_in_schema.split(".")[0]] += chunk.total_compressed_size
    sizes["footer and indices"] = path.stat().st_size - sizes.total()
    return sizes


def real_rows(place: Path) -> Iterator[dict[str, Any]]:
    """What the rows of every device in the package take in both versions, all of its shards together."""
    for name, folder in sorted(dataset_folders().items()):
        for device in sorted((folder / "measurements").iterdir()):
            count, sizes = 0, {2: Counter[str](), 3: Counter[str]()}
            for shard in sorted(device.glob("*.parquet")):
                rows = read_shard(shard)
                write_version_2(rows, place / "2.parquet")
                write_shard(rows, place / "3.parquet")
                count += rows.num_rows
                for version, sums in sizes.items():
                    sums.update(column_bytes(place / f"{version}.parquet"))
            yield {
                "dataset": name,
                "device": device.name,
                "rows": count,
                "before": {key: size / count for key, size in sizes[2].items()},
                "after": {key: size / count for key, size in sizes[3].items()},
            }


def _with_ids(rows: pa.Table) -> pa.Table:
    """Rows with the record ids that a collection would give them."""
    columns = (rows[name].to_pylist() for name in ("program_id", "device_id", "session", "timestamp"))
    ids = [record_id(*values) for values in zip(*columns, strict=True)]
    return rows.set_column(0, rows.schema.field(0), pa.array(ids, pa.string()))


def scale(place: Path, rows: int) -> list[dict[str, Any]]:
    """Reads one workload, and all rows, of synthetic measurements in both versions, in turn."""
    (source,) = (dataset_folders()["costhub/amd-epyc-zen5"] / "measurements").glob("amd-epyc-zen5-2c/*.parquet")
    real = read_shard(source)
    workload = real["workload_id"][real.num_rows // 2].as_py()
    writers = {2: write_version_2, 3: write_shard}
    written: Counter[int] = Counter()
    for number_, start in enumerate(range(0, rows, SHARD_ROWS)):
        many = min(SHARD_ROWS, rows - start)
        table = _with_ids(pa.concat_tables(synthetic_batches(real, DEVICES[number_ % len(DEVICES)], many)))
        for version, write in writers.items():
            begun = time.perf_counter()
            write(table, place / f"{version}-{number_}.parquet")
            written[version] += int(1e6 * (time.perf_counter() - begun))
    where = pc.field("workload_id") == workload
    queries: dict[str, dict[str, Any]] = {
        "one workload, all columns": {"where": where},
        "one workload, run_s": {"where": where, "columns": ["run_s"]},
        "all rows, run_s": {"columns": ["workload_id", "run_s"]},
    }
    seconds: dict[tuple[str, int], list[float]] = {(name, version): [] for name in queries for version in writers}
    for _ in range(REPEATS):
        for (name, version), taken in seconds.items():
            begun = time.perf_counter()
            for path in sorted(place.glob(f"{version}-*.parquet")):
                read_shard(path, **queries[name])
            taken.append(time.perf_counter() - begun)
    sizes = {v: sum(path.stat().st_size for path in place.glob(f"{v}-*.parquet")) / rows for v in writers}
    results = [
        {
            "what": name,
            "before_s": statistics.median(seconds[name, 2]),
            "after_s": statistics.median(seconds[name, 3]),
            "ratio": statistics.median(seconds[name, 3]) / statistics.median(seconds[name, 2]),
        }
        for name in queries
    ]
    results.append({"what": "write", "before_s": written[2] / 1e6, "after_s": written[3] / 1e6})
    results.append({"what": "bytes a row", "before": sizes[2], "after": sizes[3]})
    return results


@click.command()
@options.quick("10^5 rows instead of 10^6.")
@options.json_file()
def main(quick: bool, path: Path | None) -> None:
    """Prints bytes a row by column; run it with nothing else on the machine."""
    with tempfile.TemporaryDirectory() as place:
        devices = list(real_rows(Path(place)))
        count = 100_000 if quick else 1_000_000
        large = scale(Path(place), count)
    total = sum(device["rows"] for device in devices)
    names = dict.fromkeys(name for device in devices for side in ("before", "after") for name in device[side])
    rows = [
        {
            "column": name,
            **{
                side: sum(device[side].get(name, 0.0) * device["rows"] for device in devices) / total
                for side in ("before", "after")
            },
        }
        for name in names
    ]
    rows.append({"column": "all", **{side: sum(row[side] for row in rows) for side in ("before", "after")}})
    click.echo(plain_table(rows, COLUMNS))
    click.echo("\n".join(str(row) for row in large))
    machine.write_result(path, {"devices": devices, "columns": rows, "scale": {"rows": count, "results": large}})
