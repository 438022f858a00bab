"""A workload's row: what it computes, counted."""

import json

import tvm
from tvm import te

from costhub.dataset.schema import table_from_rows
from costhub.dataset.workload_row import workload_row


def matmul(n: int, m: int, k: int) -> tvm.IRModule:
    a, b = te.placeholder((n, k), name="A"), te.placeholder((k, m), name="B")
    axis = te.reduce_axis((0, k), name="k")
    c = te.compute((n, m), lambda i, j: te.sum(a[i, axis] * b[axis, j], axis=axis), name="C")
    return tvm.IRModule({"main": te.create_prim_func([a, b, c]).with_attr("global_symbol", "main")})


def test_a_matmul_counts_its_operations_and_bytes() -> None:
    row = workload_row(matmul(128, 768, 64), name="m", operator="matmul", networks=[("bert", 12.0)])

    assert row["flop"] == 2 * 128 * 768 * 64
    assert row["bytes"] == 4 * (128 * 64 + 64 * 768 + 128 * 768)
    assert json.loads(row["shapes"]) == [[128, 64], [64, 768], [128, 768]]
    assert (row["name"], row["operator"]) == ("m", "matmul")
    assert row["networks"] == [{"name": "bert", "weight": 12.0}]


def test_a_row_fits_the_table() -> None:
    assert table_from_rows("workloads", [workload_row(matmul(8, 8, 8), name="m", operator="m")]).num_rows == 1
