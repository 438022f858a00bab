"""Rows that the dataset tests share."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from datetime import datetime, timezone
from typing import Any

import pytest

Row = dict[str, Any]


@pytest.fixture
def measurement() -> Callable[..., Row]:
    """Makes the row of measurement `number`; keywords replace columns."""

    def make(number: int, **changes: Any) -> Row:
        row = {
            "record_id": f"r{number:05d}",
            "program_id": f"p{number:05d}",
            "workload_id": f"w{number % 3}",
            "device_id": "cpu0",
            "target": '{"kind":"llvm"}',
            "trace": "[[],[]]",
            "status": "ok",
            "run_s": [1e-3, 1.1e-3, 2e-3],
            "proposed_by": "random",
            "timestamp": datetime(2026, 1, 2, 3, 4, 5, 678, tzinfo=timezone.utc),
        }
        return row | changes

    return make


@pytest.fixture
def workload() -> Callable[..., Row]:
    """Makes the row of workload `number`; keywords replace columns."""

    def make(number: int, **changes: Any) -> Row:
        row = {
            "workload_id": f"w{number}",
            "name": f"matmul{number}",
            "operator": "matmul",
            "shapes": "[[8,8],[8,8],[8,8]]",
            "dtypes": ["float32"] * 3,
            "flop": 1024.0,
            "bytes": 768.0,
            "module_json": "{}",
            "networks": [{"name": "resnet18", "weight": 2.0}],
        }
        return row | changes

    return make


@dataclass(frozen=True)
class TinyMatmul:
    """A workload small enough to featurise in milliseconds, with programs of it."""

    module_json: str
    workload_id: str
    traces: tuple[str, ...]
    target: str = '{"kind":"llvm","num-cores":2}'
    bad_trace: str = '[[["GetSBlock",[],["nothing","main"],["b0"]]],[]]'
    """JSON that does not replay on the workload."""


@pytest.fixture(scope="session")
def tiny_matmul() -> TinyMatmul:
    import tvm
    from tvm import te

    from costhub.dataset.trace import trace_to_json
    from costhub.dataset.workload import module_to_json, workload_id

    a, b = te.placeholder((16, 16), name="A"), te.placeholder((16, 16), name="B")
    k = te.reduce_axis((0, 16), name="k")
    product = te.compute((16, 16), lambda i, j: te.sum(a[i, k] * b[k, j], axis=k), name="C")
    function = te.create_prim_func([a, b, product]).with_attr("global_symbol", "main")
    mod = tvm.IRModule({"main": function})
    traces = []
    for factor in (1, 2, 4, 8):
        schedule = tvm.s_tir.Schedule(mod)
        i, j, _ = schedule.get_loops(schedule.get_sblock("C"))
        schedule.parallel(schedule.split(i, [None, factor])[0])
        if factor > 1:
            schedule.vectorize(schedule.split(j, [None, factor])[1])
        traces.append(trace_to_json(schedule.trace))
    return TinyMatmul(module_to_json(mod), workload_id(mod), tuple(traces))
