from __future__ import annotations

import base64
import json
from types import ModuleType
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from costhub.dataset.metaschedule.workload_line import read_workload
from costhub.dataset.workload import module_from_json, workload_id
from costhub.errors import WorkloadError


@pytest.mark.parametrize("dialect", ["0.16", "0.18", "0.21", "0.23"])
def test_a_module_of_old_tvm_is_read(old_format: ModuleType, tiny_matmul: Any, dialect: str) -> None:
    graph = old_format.old_graph(module_from_json(tiny_matmul.module_json), dialect)

    mod, version = read_workload(old_format.workload_line(json.dumps(graph)))

    assert (workload_id(mod), version) == (tiny_matmul.workload_id, f"{dialect}.0")


def test_a_module_of_todays_tvm_is_read(old_format: ModuleType, tiny_matmul: Any) -> None:
    mod, version = read_workload(old_format.workload_line(tiny_matmul.module_json))

    assert workload_id(mod) == tiny_matmul.workload_id
    assert version is not None
    assert version.startswith("0.27")


def encoded(blob: bytes) -> bytes:
    return json.dumps(["1", base64.b64encode(blob).decode()]).encode()


@pytest.mark.parametrize(
    ("line", "why"),
    [
        (b'["1","aGV', "perhaps it was cut off"),
        (b'["1","*"]', "perhaps it was cut off"),
        (b'["1",3]', "perhaps it was cut off"),
        (b'[0,[[[],[]],[0.001],{"kind":"llvm"},[]]]', "perhaps it was cut off"),
        (b"\xff", "perhaps it was cut off"),
        (encoded(b""), "should have 0 bytes"),
        (encoded((9).to_bytes(8, "little") + b"{}"), "should have 9 bytes and has 2"),
        (encoded((1).to_bytes(8, "little") + b"\xff"), "is not text"),
        (encoded((2).to_bytes(8, "little") + b"[]"), "is not a graph in JSON"),
        (encoded((1).to_bytes(8, "little") + b"{"), "is not a graph in JSON"),
        (encoded((2).to_bytes(8, "little") + b"{}"), "not a TVM module"),
    ],
)
def test_other_lines_are_refused(line: bytes, why: str) -> None:
    with pytest.raises(WorkloadError, match=why):
        read_workload(line)


@given(st.binary(max_size=80))
def test_no_line_raises_anything_else(line: bytes) -> None:
    with pytest.raises(WorkloadError):
        read_workload(line)
