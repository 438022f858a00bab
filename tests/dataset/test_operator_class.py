from __future__ import annotations

from typing import Any

import pytest
import tvm
from tvm import te, topi
from tvm.s_tir.meta_schedule.testing import te_workload

from costhub.collector.workloads.bfloat16_pairs import pair_convolution, pair_product, paired_rows
from costhub.collector.workloads.suites import find_suites
from costhub.dataset.operator_class import FAMILIES, classify


def module(*tensors: Any) -> Any:
    return tvm.IRModule({"main": te.create_prim_func(list(tensors)).with_attr("global_symbol", "main")})


def data(*shape: int, name: str = "A", dtype: str = "float32") -> Any:
    return te.placeholder(shape, name=name, dtype=dtype)


def test_the_suites_are_of_the_families_that_the_collector_says() -> None:
    workloads = find_suites(["all"])
    assert len(workloads) > 50
    for workload in workloads:
        assert classify(workload.module()) == workload.family, workload.name


A, K = data(1, 8, 9, 9), data(4, 8, 3, 3, name="K")
CASES = {
    "conv": [A, K, topi.nn.relu(topi.nn.conv2d(A, K, 1, 1, 1, "NCHW"))],
    "conv, one channel in": [
        a := data(1, 1, 9, 9),
        k := data(4, 1, 3, 3, name="K"),
        topi.nn.conv2d(a, k, 1, 1, 1, "NCHW"),
    ],
    "conv, one channel in, of the only group": [*te_workload.conv2d_nhwc(1, 9, 9, 1, 4, 3, 1, 1)],
    "depthwise, each channel a group": [*te_workload.conv2d_nhwc(1, 9, 9, 8, 8, 3, 1, 1, 1, 8)],
    "conv, grouped": [
        a := data(1, 8, 9, 9),
        k := data(8, 4, 3, 3, name="K"),
        topi.nn.group_conv2d_nchw(a, k, 1, 1, 1, 2),
    ],
    "depthwise": [a := data(1, 8, 9, 9), k := data(8, 1, 3, 3, name="K"), topi.nn.depthwise_conv2d_nchw(a, k, 1, 1, 1)],
    "pointwise": [a := data(1, 8, 9, 9), k := data(4, 8, 1, 1, name="K"), topi.nn.conv2d(a, k, 1, 0, 1, "NCHW")],
    "winograd": [
        a := data(1, 8, 8, 4),
        k := data(3, 3, 4, 4, name="K"),
        topi.nn.conv2d_winograd_nhwc(a, k, 1, 1, 1, "float32"),
    ],
    "matmul": [a := data(4, 8), k := data(6, 8, name="K"), topi.nn.dense(a, k)],
    "matmul, int8": [
        a := data(4, 8, dtype="int8"),
        k := data(6, 8, name="K", dtype="int8"),
        topi.nn.dense(a, k, out_dtype="int32"),
    ],
    "matmul of a matrix with itself": [
        a := data(4, 8),
        r := te.reduce_axis((0, 8)),
        te.compute((4, 4), lambda i, j: te.sum(a[i, r] * a[j, r], axis=r)),
    ],
    "batch_matmul": [a := data(2, 4, 8), k := data(2, 6, 8, name="K"), topi.nn.batch_matmul(a, k)],
    "softmax": [a := data(4, 8), topi.nn.softmax(a)],
    "softmax, log": [a := data(4, 8), topi.nn.log_softmax(a)],
    "norm": [a := data(4, 8), k := data(8, name="G"), topi.nn.rms_norm(a, k, axis=[1])],
    "pool": [A, topi.nn.pool2d(A, (3, 3), (2, 2), (1, 1), (1, 1, 1, 1), "max")],
    "pool, average": [A, topi.nn.pool2d(A, (3, 3), (2, 2), (1, 1), (1, 1, 1, 1), "avg")],
    "pool, adaptive": [A, topi.nn.adaptive_pool(A, (3, 3), "avg")],
    "reduce": [a := data(4, 8), topi.sum(a, axis=1)],
    "reduce, argmax": [a := data(4, 8), topi.argmax(a, axis=1)],
    "elementwise": [a := data(4, 8), topi.tanh(topi.transpose(a))],
}


@pytest.mark.parametrize("name", CASES)
def test_operators_are_told_apart_by_their_structure(name: str) -> None:
    tensors = [t for t in CASES[name] if isinstance(t, te.Tensor)]

    family = classify(module(*tensors))

    assert family == name.split(",", maxsplit=1)[0].split(" ", maxsplit=1)[0]
    assert family in FAMILIES


@pytest.mark.parametrize(
    ("family", "function"),
    [
        ("conv", pair_convolution((1, 2, 9, 9, 8), (2, 2, 3, 3, 8, 16), (1, 1), (1, 1))),
        ("pointwise", pair_convolution((1, 2, 9, 9, 8), (2, 2, 1, 1, 8, 16), (1, 1), (1, 1))),
        ("matmul", pair_product((6, 32), (6, 32), 8, 16)),
        ("batch_matmul", pair_product((3, 6, 16), (6, 16), 16, 16)),
        ("elementwise", paired_rows(6, 8)),
    ],
)
def test_pairs_of_bfloat16_are_products_like_others(family: str, function: Any) -> None:
    assert classify(tvm.IRModule({"main": function.with_attr("global_symbol", "main")})) == family


def test_two_different_products_are_not_one() -> None:
    a, b, r = data(4, 8), data(6, 8, name="B"), te.reduce_axis((0, 8))
    twice = te.compute((4, 6), lambda i, j: te.sum(a[i, r] * b[j, r] + a[i, r] * a[i, 0], axis=r))

    assert classify(module(a, b, twice)) == "reduce"


def test_names_say_nothing() -> None:
    a = data(4, 8)

    assert classify(module(a, te.compute((4, 8), lambda i, j: a[i, j] * 2.0, name="conv2d_softmax"))) == "elementwise"


def test_a_function_without_blocks_is_something_else() -> None:
    body = tvm.tirx.Evaluate(tvm.tirx.const(0))
    root = tvm.s_tir.SBlockRealize([], True, tvm.s_tir.SBlock([], [], [], "root", body))

    assert classify(tvm.IRModule({"main": tvm.tirx.PrimFunc([], root)})) == "other"
