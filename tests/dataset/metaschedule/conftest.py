"""A small database, and the writer of old formats."""

from __future__ import annotations

import importlib.util
import json
import sys
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

TARGET = {"kind": "llvm", "num-cores": 2}
SHAPES = [["TENSOR", "float32", [16, 16]]] * 3


@dataclass
class TinyDatabase:
    """A MetaSchedule database of one workload; tests change its lines and write it."""

    workloads: list[bytes]
    traces: list[Any]
    """[instructions, decisions] of programs of workload 0."""
    lines: list[bytes] = field(default_factory=list)

    def record(self, trace: int = 0, run_secs: Any = (1e-3, 2e-3), *, workload: int = 0, target: Any = TARGET) -> bytes:
        """A line of the tuning records."""
        parts = [self.traces[trace], run_secs, target, SHAPES]
        return json.dumps([workload, parts]).encode()

    def write(self, folder: Path, *, end: bytes = b"\n") -> Path:
        folder.mkdir(exist_ok=True)
        (folder / "database_workload.json").write_bytes(b"\n".join(self.workloads) + b"\n")
        (folder / "database_tuning_record.json").write_bytes(b"\n".join(self.lines) + end)
        return folder


@pytest.fixture(scope="session")
def old_format() -> Iterator[ModuleType]:
    """The module `old_format` beside this file."""
    path = Path(__file__).with_name("old_format.py")
    spec = importlib.util.spec_from_file_location("costhub_old_format", path)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[spec.name] = module  # dataclasses look it up there
    spec.loader.exec_module(module)
    yield module
    del sys.modules[spec.name]


@pytest.fixture
def database(tiny_matmul: Any, old_format: ModuleType) -> TinyDatabase:
    """Four programs of a 16 x 16 matmul, each measured once."""
    line = old_format.workload_line(tiny_matmul.module_json)
    made = TinyDatabase([line], [json.loads(trace) for trace in tiny_matmul.traces])
    made.lines = [made.record(number, (1e-3 * (number + 1), 2e-3)) for number in range(4)]
    return made
