"""Workloads as text: the same module comes back, under an id that other processes agree on."""

from __future__ import annotations

import json
import subprocess
import sys

import pytest
import tvm
from tvm import te

from costhub.collector.workloads.suites import find_workload
from costhub.dataset.schema import table_from_rows
from costhub.dataset.workload import (
    argument_shapes,
    check_schedulable,
    module_from_json,
    module_to_json,
    parse_target,
    workload_id,
    workload_row,
)
from costhub.errors import WorkloadError


def test_a_module_survives_the_round_trip() -> None:
    mod = find_workload("resnet18.c7").module()

    again = module_from_json(module_to_json(mod))

    assert again.script() == mod.script()
    assert workload_id(again) == workload_id(mod)


def test_different_sizes_are_different_workloads() -> None:
    ids = {workload_id(find_workload(f"resnet18.c{i}").module()) for i in range(1, 13)}
    assert len(ids) == 12


def test_the_id_is_the_same_in_another_process() -> None:
    code = (
        "from costhub.collector.workloads.suites import find_workload;from costhub.dataset.workload import workload_id;"
        "print(workload_id(find_workload('softmax.64x1000').module()))"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == workload_id(find_workload("softmax.64x1000").module())


def test_shapes_are_those_of_the_arguments() -> None:
    shapes = argument_shapes(find_workload("matmul.128x768x3072").module())
    assert shapes == (("float32", (128, 3072)), ("float32", (3072, 768)), ("float32", (128, 768)))


@pytest.mark.parametrize("text", ["", "{}", "not json", "[1, 2]", '{"nodes": []}'])
def test_other_text_is_refused_with_a_sentence(text: str) -> None:
    with pytest.raises(WorkloadError, match="not a TVM module"):
        module_from_json(text)


def test_a_value_that_is_no_module_is_refused() -> None:
    import tvm

    with pytest.raises(WorkloadError, match="main"):
        module_from_json(tvm.ir.save_json(tvm.target.Target({"kind": "llvm", "num-cores": 2})))


def test_a_workload_of_unknown_size_is_refused() -> None:
    import tvm
    from tvm import te

    n = te.var("n")
    a = te.placeholder((n,), name="A")
    function = te.create_prim_func([a, te.compute((n,), lambda i: a[i] + 1.0, name="C")])
    with pytest.raises(WorkloadError, match="known sizes"):
        check_schedulable(tvm.IRModule({"main": function}))


def test_a_workload_of_a_suite_is_schedulable() -> None:
    check_schedulable(find_workload("softmax.64x1000").module())


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


@pytest.mark.parametrize("target", ["", "[]", '{"kind":"abacus"}', "llvm -mcpu=znver4"])
def test_a_target_that_is_none_is_refused(target: str) -> None:
    with pytest.raises(WorkloadError, match=r"does not accept the target .*; it must be JSON such as"):
        parse_target(target)


def test_a_target_is_read_from_its_json() -> None:
    assert str(parse_target('{"kind":"llvm","num-cores":2}').kind.name) == "llvm"


def test_operations_that_tvm_cannot_count_are_a_sentence(monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(_: object) -> None:
        raise tvm.error.InternalError("Unable to compute the length of a loop")

    monkeypatch.setattr("tvm.s_tir.analysis.estimate_tir_flops", fail)

    with pytest.raises(WorkloadError, match=r"TVM cannot count the operations of this workload .*length of a loop"):
        workload_row(matmul(8, 8, 8), name="t", operator="elementwise")
