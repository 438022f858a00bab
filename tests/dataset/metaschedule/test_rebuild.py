from __future__ import annotations

import copy
import json
from types import ModuleType
from typing import Any

import pytest
import tvm
from hypothesis import given
from hypothesis import strategies as st
from tvm import te, topi
from tvm.script import tirx as T

from costhub.collector.suite import find_suites
from costhub.dataset.metaschedule.rebuild import rebuild, rebuild_object
from costhub.dataset.workload import module_from_json, workload_id
from costhub.errors import WorkloadError

DIALECTS = ("0.16", "0.18", "0.21", "0.23")


def module(*tensors: Any) -> Any:
    return as_module(te.create_prim_func(list(tensors)))


def as_module(function: Any) -> Any:
    return tvm.IRModule({"main": function.with_attr("global_symbol", "main")})


def placeholder(*shape: int, name: str = "A", dtype: str = "float32") -> Any:
    return te.placeholder(shape, name=name, dtype=dtype)


def conv_relu() -> Any:
    data, kernel, bias = (
        placeholder(1, 8, 9, 9),
        placeholder(4, 8, 3, 3, name="K"),
        placeholder(1, 4, 1, 1, name="b"),
    )
    conv = topi.nn.conv2d(data, kernel, 2, 1, 1, "NCHW")
    return module(data, kernel, bias, topi.nn.relu(topi.add(conv, bias)))


def casts() -> Any:
    data = placeholder(8, 8, dtype="int8")
    return module(
        data, te.compute((8, 8), lambda i, j: data[i, j].astype("int32") + i.astype("int32"), name="C")
    )


def intrinsics() -> Any:
    data = placeholder(8)

    def body(i: Any) -> Any:
        return te.exp(data[i]) * te.sqrt(te.abs(data[i])) + te.tanh(te.power(data[i], 2.0)) + te.log2(data[i])

    return module(data, te.compute((8,), body, name="B"))


def logic() -> Any:
    data = placeholder(8, 8)

    def body(i: Any, j: Any) -> Any:
        inside = tvm.tirx.all(i >= 1, tvm.tirx.any(j < 3, j > 5), tvm.tirx.Not(i == j), i != 4, j <= 6)
        return tvm.tirx.if_then_else(inside, data[i, j], tvm.tirx.Select(i % 2 == 0, data[j, i], 0.25))

    return module(data, te.compute((8, 8), body, name="B"))


def integers() -> Any:
    data = placeholder(32, dtype="int32")

    def body(i: Any) -> Any:
        mixed = (data[i] >> 1) | (data[i] & 3) ^ (data[i] << 2) ^ ~data[i]
        return (
            tvm.tirx.max(mixed, tvm.tirx.min(tvm.tirx.truncdiv(i, 3), tvm.tirx.truncmod(i, 5)))
            - i // 4
            + i % 7
        )

    return module(data, te.compute((32,), body, name="B"))


def let() -> Any:
    data, v = placeholder(8), tvm.tirx.Var("v", "float32")
    return module(data, te.compute((8,), lambda i: tvm.tirx.Let(v, data[i] + 1.0, v * v), name="B"))


def reductions() -> Any:
    data = placeholder(4, 8)
    return module(data, topi.argmax(data, axis=1))


def winograd() -> Any:
    data, kernel = placeholder(1, 8, 8, 4), placeholder(3, 3, 4, 4, name="K")
    return module(data, kernel, topi.nn.conv2d_winograd_nhwc(data, kernel, 1, 1, 1, "float32"))


@T.prim_func(s_tir=True)
def scripted(a: T.handle, b: T.handle) -> None:
    T.func_attr({"global_symbol": "main", "tirx.noalias": True, "layout_free_buffers": [1]})
    x = T.match_buffer(a, (16, 16), "float32", strides=[32, 1], elem_offset=0, align=128, offset_factor=1)
    y = T.match_buffer(b, (16, 16), "float32")
    z = T.sblock_alloc_buffer((16, 16), "float32", scope="shared")
    for i in T.parallel(16):
        for j in T.vectorized(16):
            with T.sblock("copy"):
                vi, vj = T.axis.remap("SS", [i, j])
                T.where(i + j < 30)
                T.sblock_attr({"a": [1, "two", {"three": 3.5}], "b": True, "c": 4})
                z[vi, vj] = x[vi, vj]
    for i in T.unroll(4, annotations={"pragma_x": 1}):
        for j in T.thread_binding(16, thread="threadIdx.x"):
            with T.sblock("matched"):
                vi, vj = T.axis.remap("SS", [i, j])
                T.reads(z[vi * 4 : vi * 4 + 4, vj])
                T.writes(y[vi * 4 : vi * 4 + 4, vj])
                s = T.int32()
                part = T.match_buffer(
                    z[vi * 4 : vi * 4 + 4, vj], (4, 1), strides=[s, 1], scope="shared", offset_factor=1
                )
                for k in range(4):
                    if k < 3:
                        y[vi * 4 + k, vj] = part[k, 0] * T.float32(2)
                    else:
                        y[vi * 4 + k, vj] = T.float32(0)


MODULES = {
    "conv_relu": conv_relu,
    "casts": casts,
    "intrinsics": intrinsics,
    "logic": logic,
    "integers": integers,
    "let": let,
    "reductions": reductions,
    "winograd": winograd,
    "scripted": lambda: as_module(scripted),
    "softmax": lambda: module(a := placeholder(4, 8), topi.nn.softmax(a)),
}


@pytest.mark.parametrize("dialect", DIALECTS)
@pytest.mark.parametrize("name", MODULES)
def test_a_module_comes_back_as_it_was(old_format: ModuleType, name: str, dialect: str) -> None:
    mod = MODULES[name]()

    again = rebuild(old_format.old_graph(mod, dialect))

    tvm.ir.assert_structural_equal(again, mod)
    assert workload_id(again) == workload_id(mod)


def test_every_workload_of_the_suites_comes_back(old_format: ModuleType) -> None:
    for workload in find_suites(["metaschedule", "softmax", "norm", "depthwise"]):
        mod = workload.module()
        assert workload_id(rebuild(old_format.old_graph(mod, "0.16"))) == workload_id(mod), workload.name


@pytest.mark.parametrize("dialect", DIALECTS)
def test_index_maps_come_back(old_format: ModuleType, dialect: str) -> None:
    index_map = tvm.tirx.IndexMap.from_func(lambda i, j: [i // 4, j, i % 4])

    again = rebuild_object(json.loads(old_format.old_index_map(index_map, dialect)))

    tvm.ir.assert_structural_equal(again, index_map)


@pytest.mark.parametrize("dialect", DIALECTS)
def test_an_unknown_kind_of_node_is_named(old_format: ModuleType, tiny_matmul: Any, dialect: str) -> None:
    text = json.dumps(old_format.old_graph(module_from_json(tiny_matmul.module_json), dialect))
    for kind, new in (
        ("tir.Mul", "tir.Reduce"),
        ("tir.SeqStmt", "tir.AllocateConst"),
        ("tir.For", "tir.While"),
    ):
        if f'"{kind}"' in text:
            with pytest.raises(WorkloadError, match=f"^it has a {new}, which cannot be rebuilt in TVM 0.27$"):
                rebuild(json.loads(text.replace(f'"{kind}"', f'"{new}"')))


@given(st.data())
def test_a_damaged_graph_gives_a_sentence_or_a_module(old_format: ModuleType, data: Any) -> None:
    graph = copy.deepcopy(
        old_format.old_graph(MODULES["softmax"](), data.draw(st.sampled_from(("0.16", "0.23"))))
    )
    for _ in range(data.draw(st.integers(1, 3))):
        node = graph["nodes"][data.draw(st.integers(0, len(graph["nodes"]) - 1))]
        inner = node.get("attrs", node.get("data"))
        if isinstance(inner, dict) and inner:
            key = data.draw(st.sampled_from(sorted(inner)))
            inner[key] = data.draw(
                st.sampled_from([0, 1, -1, 10**9, "x", "3", None, len(graph["nodes"]) - 1])
            )
        elif isinstance(inner, list) and inner:
            inner[data.draw(st.integers(0, len(inner) - 1))] = data.draw(st.integers(-5, 500))
    try:
        assert isinstance(rebuild(graph), tvm.IRModule)
    except WorkloadError as error:
        assert str(error)  # noqa: PT017 - either is right


@pytest.mark.parametrize(
    "graph", [[], {"root": 0, "nodes": []}, {"root_index": 5, "nodes": []}, {"nodes": [{}]}]
)
def test_what_is_no_module_is_refused(graph: Any) -> None:
    with pytest.raises(WorkloadError):
        rebuild(graph)
