"""A real search's folder as lines, to be damaged and written again."""

from __future__ import annotations

import json
from collections import Counter
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

Contents = Counter[tuple[str, str]]


@dataclass
class SearchLines:
    """The lines of a database; tests change them and write it."""

    workloads: list[bytes]
    records: list[bytes]
    end: bytes = b"\n"
    """What follows the last record."""

    def record(self, number: int) -> Any:
        """The values of a record."""
        return json.loads(self.records[number])

    def change(self, number: int, **parts: Any) -> None:
        """Puts other values into a record: trace, run_secs, target or arguments, or the number of its workload."""
        workload, record = self.record(number)
        for place, name in enumerate(("trace", "run_secs", "target", "arguments")):
            record[place] = parts.get(name, record[place])
        self.records[number] = json.dumps([parts.get("workload", workload), record]).encode()

    def write(self, folder: Path) -> Path:
        folder.mkdir(exist_ok=True)
        (folder / "database_workload.json").write_bytes(b"".join(line + b"\n" for line in self.workloads))
        (folder / "database_tuning_record.json").write_bytes(b"\n".join(self.records) + self.end)
        return folder


@pytest.fixture
def search(searched: Path) -> SearchLines:
    """Twelve programs of two kernels; the records of both are mixed."""
    lines = [
        (searched / name).read_bytes().splitlines()
        for name in ("database_workload.json", "database_tuning_record.json")
    ]
    assert [len(each) for each in lines] == [2, 12]
    return SearchLines(*lines)


@pytest.fixture(scope="session")
def real() -> Path:
    """Excerpts of databases of older TVMs."""
    return Path(__file__).with_name("real")


def said(lines: list[bytes]) -> Contents:
    """Trace and times of every record."""
    parsed = [json.loads(line)[1] for line in lines]
    # TVM's reader makes true of a 1 that stands for a flag.
    traces = (json.dumps(record[0]).replace("true", "1").replace("false", "0") for record in parsed)
    times = (json.dumps([float(s) for s in record[1]]) for record in parsed)
    return Counter(zip(traces, times, strict=True))


def loaded(folder: Path) -> Contents:
    """Trace and times of every record that stock TVM loads."""
    from tvm.s_tir import meta_schedule as ms

    database = ms.database.JSONDatabase(work_dir=str(folder))
    return said([json.dumps([0, each.as_json()]).encode() for each in database.get_all_tuning_records()])


@pytest.fixture(scope="session")
def contents() -> Any:
    """`said` and `loaded`."""
    return said, loaded
