"""A small folder of real measurements that keeps every rule, and the means to damage a copy of it."""

from __future__ import annotations

import shutil
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

import costhub
from costhub.dataset.check.folder import Reader, check_folder
from costhub.dataset.check.measurements import ENTRY, CheckContext, Ledger, Rows, WorkloadFacts
from costhub.dataset.check.rule import Finding
from costhub.dataset.folder import DataFolder
from costhub.dataset.schema import arrow_schema, table_from_rows
from costhub.dataset.shards.shard import new_parquet, read_shard, write_shard

EMBEDDED = Path(costhub.__file__).parent / "hub/embedded/datasets/costhub/amd-epyc-zen5"
DEVICE = "amd-epyc-zen5-1c"
CHOSEN = ("matmul.512x512x512", "metaschedule.t2d", "metaschedule.nrm", "softmax.64x1000")
ROWS_EACH = 30
SHARD = f"measurements/{DEVICE}/train-00000-of-00001.parquet"
Row = dict[str, Any]


@dataclass
class Damaged:
    """A copy of the sound folder, and what a contributor or an accident may do to it."""

    path: Path
    reader: Reader

    def rows(self, where: str = SHARD) -> list[Row]:
        rows: list[Row] = read_shard(self.path / where).to_pylist()
        return rows

    def write(self, rows: list[Row], where: str = SHARD) -> None:
        """Replaces a shard, sealed, past the checks of the writer."""
        table = where.partition("/")[0]
        write_shard(pa.Table.from_pylist(rows, schema=arrow_schema(table)), self.path / where)

    def change(self, position: int, where: str = SHARD, **values: Any) -> Row:
        """Changes columns of one row; returns the row as it was."""
        rows = self.rows(where)
        before = dict(rows[position])
        rows[position].update(values)
        self.write(rows, where)
        return before

    def find(self, wanted: Callable[[Row], bool], where: str = SHARD) -> int:
        """The position of the first row that meets a condition."""
        return next(number for number, row in enumerate(self.rows(where)) if wanted(row))

    def write_table(self, table: pa.Table, where: str = SHARD) -> None:
        """Replaces a shard by any table at all, sealed."""
        with new_parquet(self.path / where, table.schema) as writer:
            writer.write_table(table)

    def findings(self, *, deep: bool = False) -> list[Finding]:
        return check_folder(self.path, progress=False, reader=self.reader, deep=deep)

    def broken(self, *, deep: bool = False) -> set[str]:
        return {finding.rule for finding in self.findings(deep=deep)}


@pytest.fixture(scope="session")
def reader() -> Iterator[Reader]:
    with Reader() as reader:
        yield reader


@pytest.fixture(scope="session")
def sound_folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Real rows of four workloads, the fastest first chosen, with two failures among them."""
    source = DataFolder.open(EMBEDDED)
    folder = DataFolder.create(tmp_path_factory.mktemp("sound") / "data")
    folder.put_device(next(d for d in source.devices().to_pylist() if d["device_id"] == DEVICE))
    workloads = [row for row in source.workloads().to_pylist() if row["name"] in CHOSEN]
    folder.put_workloads(workloads)
    ids = {row["workload_id"] for row in workloads}
    measured = source.measurements(DEVICE).to_pylist()
    rows = [row for row in measured if row["status"] != "ok"][:2]
    folder.put_workloads(
        [row for row in source.workloads().to_pylist() if row["workload_id"] in {r["workload_id"] for r in rows}]
    )
    for workload_id in sorted(ids):
        timed = [r for r in measured if r["workload_id"] == workload_id and r["status"] == "ok"]
        rows += sorted(timed, key=lambda row: float(np.median(row["run_s"])))[:ROWS_EACH]
    place = folder.path / SHARD
    place.parent.mkdir()
    write_shard(table_from_rows("measurements", sorted(rows, key=lambda row: row["timestamp"])), place)
    return folder.path


@pytest.fixture
def damaged(sound_folder: Path, tmp_path: Path, reader: Reader) -> Damaged:
    return Damaged(Path(shutil.copytree(sound_folder, tmp_path / "data")), reader)


@pytest.fixture
def batch() -> Callable[..., Rows]:
    """Makes Rows out of sound rows, one per keyword value; lists are columns."""

    def make(*, devices: Row | None = None, workloads: Row | None = None, **columns: list[Any]) -> Rows:
        count = max((len(values) for values in columns.values()), default=1)
        plain = {
            "record_id": [f"r{number}" for number in range(count)],
            "program_id": [f"p{number}" for number in range(count)],
            "workload_id": ["w0"] * count,
            "device_id": ["cpu0"] * count,
            "target": ['{"kind":"llvm"}'] * count,
            "trace": ["[[],[]]"] * count,
            "status": ["ok"] * count,
            "run_s": [[1e-3, 1.1e-3, 1.2e-3]] * count,
            "proposed_by": ["random"] * count,
        }
        rows = [
            dict(zip(plain | columns, values, strict=True)) for values in zip(*(plain | columns).values(), strict=True)
        ]
        table = pa.Table.from_pylist(rows, schema=arrow_schema("measurements"))
        context = CheckContext(
            {"cpu0": {"kind": "cpu", "cores": 2, **(devices or {})}},
            {"w0": WorkloadFacts("w0", **({"flop": 1e6, "bytes": 1e3, "is_float32": True} | (workloads or {})))},
        )
        return Rows(table.combine_chunks().to_batches()[0], context, "cpu0")

    return make


@pytest.fixture
def ledger() -> Callable[..., Ledger]:
    """Makes a ledger of n rows that ran; keywords are columns, a number for all rows or one for each."""

    def make(n: int, **columns: Any) -> Ledger:
        entries = np.zeros(n, ENTRY)
        plain = {
            "record": np.arange(n),
            "program": np.arange(n),
            "run": np.arange(n),
            "latency_s": 1e-3 * (1 + np.random.default_rng(0).random(n)),
            "spread": 1.01,
            "repeats": 3,
            "reference_s": np.nan,
            "drift": np.nan,
            "clock_mhz": np.nan,
            "temperature_c": np.nan,
            "time_us": np.arange(n) * 1_000_000,
        }
        for name, values in (plain | columns).items():
            entries[name] = values
        return Ledger(entries, [False] * 10)

    return make
