"""Damages a small real folder in many ways and runs `costhub check` on each."""

from __future__ import annotations

import functools
import tempfile
import time
from collections import Counter, defaultdict
from collections.abc import Callable
from pathlib import Path
from typing import Any

import click
import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from costhub.dataset.check.folder import Reader, check_folder
from costhub.dataset.shards.shard import SEAL_KEY, write_seal
from scripts.bench.common import machine, options
from scripts.bench.common.data import small_folder

Rng = np.random.Generator
Mutation = Callable[[Path, Rng], None]


def _bytes(change: Callable[[bytearray, Rng], Any], path: Path, rng: Rng, *, seal: bool = False) -> None:
    content = bytearray(path.read_bytes())
    path.write_bytes(change(content, rng) or content)
    if seal:  # a forger could do this; it tests the checks behind the seal
        try:
            write_seal(path)
        except ValueError:
            return


def _table(change: Callable[[pa.Table, Rng], pa.Table], path: Path, rng: Rng, *, keep: str) -> None:
    """Rewrites the file with pyarrow; `keep` says which metadata survives: all, table or none."""
    table = pq.ParquetFile(path).read()
    metadata = dict(table.schema.metadata or {})
    changed = change(table, rng)
    kept = {key: value for key, value in metadata.items() if keep == "all" or key != SEAL_KEY.encode()}
    pq.write_table(changed.replace_schema_metadata(kept if keep != "none" else None), path, compression="zstd")


def flip_bit(content: bytearray, rng: Rng) -> None:
    """Changes one bit."""
    content[rng.integers(len(content))] ^= 1 << int(rng.integers(8))


def flip_byte(content: bytearray, rng: Rng) -> None:
    """Changes one byte."""
    content[rng.integers(len(content))] ^= int(rng.integers(1, 256))


def flip_in_footer(content: bytearray, rng: Rng) -> None:
    """Changes one byte of the footer, which Parquet does not protect."""
    length = int.from_bytes(content[-8:-4], "little")
    content[len(content) - 8 - int(rng.integers(length))] ^= int(rng.integers(1, 256))


def burst(content: bytearray, rng: Rng) -> None:
    """Overwrites 2 to 64 bytes with noise."""
    start, size = int(rng.integers(len(content))), int(rng.integers(2, 65))
    size = min(size, len(content) - start)
    content[start : start + size] = bytes(b ^ int(rng.integers(1, 256)) for b in content[start : start + size])


def truncate(content: bytearray, rng: Rng) -> None:
    """Cuts off the end."""
    del content[int(rng.integers(len(content))) :]


def zero_block(content: bytearray, rng: Rng) -> None:
    """Overwrites a block with zeros, as a bad sector or a hole does."""
    start = int(rng.integers(len(content))) // 512 * 512
    block = len(content[start : start + 512])
    content[start : start + 512] = bytes(block)


def insert_bytes(content: bytearray, rng: Rng) -> None:
    """Inserts 1 to 16 bytes."""
    start = int(rng.integers(len(content)))
    content[start:start] = rng.bytes(int(rng.integers(1, 17)))


def double(content: bytearray, rng: Rng) -> bytes:
    """Writes the file twice, one after the other."""
    return bytes(content) * 2


def _pair(table: pa.Table, rng: Rng) -> tuple[int, int]:
    """Two columns of one type."""
    while True:
        a, b = (int(n) for n in rng.integers(table.num_columns, size=2))
        if a != b and table.schema.types[a] == table.schema.types[b]:
            return a, b


def swap_columns(table: pa.Table, rng: Rng) -> pa.Table:
    """Exchanges the values of two columns of one type."""
    a, b = _pair(table, rng)
    return pa.table([table[{a: b, b: a}.get(n, n)] for n in range(table.num_columns)], names=table.column_names)


def swap_row_groups(table: pa.Table, rng: Rng) -> pa.Table:
    """Exchanges the two halves."""
    half = max(1, table.num_rows // 2)
    return pa.concat_tables([table.slice(half), table.slice(0, half)])


def change_value(table: pa.Table, rng: Rng) -> pa.Table:
    """Replaces one value by another, or by null."""
    column, row = int(rng.integers(table.num_columns)), int(rng.integers(table.num_rows))
    values = table.column(column).to_pylist()
    value = values[row]
    other = {float: 1.25, int: 7, str: f"{value}x", bool: not value, list: []}.get(type(value))
    values[row] = other
    field = table.schema.field(column).with_nullable(True)
    return table.set_column(column, field, pa.array(values, field.type))


def rename_column(table: pa.Table, rng: Rng) -> pa.Table:
    """Gives a column another name."""
    names = list(table.column_names)
    names[rng.integers(len(names))] += "_"
    return table.rename_columns(names)


def reorder_columns(table: pa.Table, rng: Rng) -> pa.Table:
    """Writes the columns in another order."""
    return table.select(rng.permutation(table.num_columns).tolist())


def retype_column(table: pa.Table, rng: Rng) -> pa.Table:
    """Writes a column as text."""
    column = int(rng.integers(table.num_columns))
    texts = pa.array([None if v is None else f" {v}" for v in table.column(column).to_pylist()], pa.string())
    return table.set_column(column, table.column_names[column], texts)


_BYTES = (flip_bit, flip_byte, flip_in_footer, burst, truncate, zero_block, insert_bytes, double)
_TABLES = (swap_columns, swap_row_groups, change_value, rename_column, reorder_columns, retype_column)
MUTATIONS: dict[str, Mutation] = {
    **{f.__name__: functools.partial(_bytes, f) for f in _BYTES},
    **{
        f"{f.__name__}, {keep} metadata kept": functools.partial(_table, f, keep=keep)
        for f in _TABLES
        for keep in ("all", "table", "none")
    },
}
RESEALED: dict[str, Mutation] = {f"{f.__name__}, sealed again": functools.partial(_bytes, f, seal=True) for f in _BYTES}


def outcome(reader: Reader, folder: Path, shard: Path, before: object) -> str:
    """The outcome of the check after one of the shards was damaged."""
    start = time.monotonic()
    try:
        findings = check_folder(folder, progress=False, reader=reader)
    except Exception:
        return "crashed"
    if time.monotonic() - start > 10:
        return "over 10 s"
    if findings:
        return "found, its reader died" if any(" died" in f.message for f in findings) else "found"
    return "harmless" if pq.ParquetFile(shard).read().equals(before) else "ACCEPTED SILENTLY"


@click.command()
@click.option("--count", default=200)
@click.option("--seed", default=0)
@click.option("--resealed", is_flag=True, help="Also seal damaged shards again, as a forger would.")
@options.json_file()
def main(count: int, seed: int, resealed: bool, path: Path | None) -> None:
    """Prints a line for every kind of damage."""
    rng, kinds = np.random.default_rng(seed), MUTATIONS | (RESEALED if resealed else {})
    outcomes: dict[str, Counter[str]] = defaultdict(Counter)
    with tempfile.TemporaryDirectory() as place, Reader() as reader:
        folder = small_folder(Path(place) / "data")
        shards = [(p, p.read_bytes(), pq.ParquetFile(p).read()) for p in sorted(folder.glob("**/*.parquet"))]
        assert not check_folder(folder, progress=False, reader=reader)
        for number in range(count):
            kind, (shard, content, table) = list(kinds)[number % len(kinds)], shards[rng.integers(len(shards))]
            kinds[kind](shard, rng)
            outcomes[kind][outcome(reader, folder, shard, table)] += 1
            shard.write_bytes(content)
    click.echo("\n".join(f"{kind:42}{dict(counts)}" for kind, counts in outcomes.items()))
    machine.write_result(path, {"total": sum(outcomes.values(), Counter()), "kinds": outcomes})
