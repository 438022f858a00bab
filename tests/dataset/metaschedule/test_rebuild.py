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

from costhub.collector.workloads.suites import find_suites
from costhub.dataset.metaschedule.rebuild import rebuild, rebuild_object
from costhub.dataset.workload import module_from_json, workload_id
from costhub.errors import WorkloadError


def graph_of(old_format: ModuleType, expression: Any, dialect: str = "0.16") -> Any:
    writer = old_format.OldWriter(dialect)
    return json.loads(json.dumps(writer.graph(writer.expr(expression))))


X, Y = tvm.tirx.Var("x", "int64"), tvm.tirx.Var("y", "float32")


@pytest.mark.parametrize(
    "expression",
    [
        tvm.tirx.const(2**40, "int64"),
        tvm.tirx.const(-1, "int8"),
        tvm.tirx.const(True, "bool"),
        tvm.tirx.const(1e-30, "float32"),
        tvm.tirx.const(float("-inf"), "float32"),
        tvm.ir.StringImm("text"),
        tvm.ir.StringImm(""),
        tvm.ir.prim.Cast("float16", Y),
        tvm.ir.prim.Let(X, tvm.tirx.const(3, "int64"), X * X),
        tvm.tirx.erf(Y),
        tvm.tirx.fmod(Y, tvm.tirx.const(2.0, "float32")),
        tvm.tirx.likely(X < 3),
        X << 2,
        ~X,
    ],
)
def test_an_expression_comes_back(old_format: ModuleType, expression: Any) -> None:
    again = rebuild_object(graph_of(old_format, expression))

    # Free variables are different ones now, in the same places.
    tvm.ir.assert_structural_equal(again, expression, map_free_vars=True)


def softmax_graph(old_format: ModuleType) -> str:
    data = te.placeholder((8,), name="A")
    function = te.create_prim_func([data, te.compute((8,), lambda i: te.exp(data[i]) + 1.0, name="B")])
    mod = tvm.IRModule({"main": function.with_attr("global_symbol", "main")})
    return json.dumps(old_format.old_graph(mod, "0.16"))


def test_an_operator_that_is_gone_is_named(old_format: ModuleType) -> None:
    text = softmax_graph(old_format).replace('"tir.exp"', '"tir.large_uint_imm"')

    with pytest.raises(WorkloadError, match=r"it calls tir\.large_uint_imm, which TVM 0\.27 does not have"):
        rebuild(json.loads(text))


def test_a_call_of_a_function_is_refused(old_format: ModuleType) -> None:
    text = softmax_graph(old_format).replace('"type_key": "Op"', '"type_key": "GlobalVar"')

    with pytest.raises(WorkloadError, match="it calls a function that is not an operator"):
        rebuild(json.loads(text))


def test_a_pointer_is_refused(old_format: ModuleType) -> None:
    graph = graph_of(old_format, X + 1)
    for node in graph["nodes"]:
        if node["type_key"] == "tir.Var":
            node["attrs"]["dtype"] = "handle"

    with pytest.raises(WorkloadError, match="it uses a pointer"):
        rebuild_object(graph)


def test_a_load_under_a_predicate_is_refused(old_format: ModuleType) -> None:
    graph = json.loads(softmax_graph(old_format))
    for node in graph["nodes"]:
        if node["type_key"] == "tir.BufferLoad":
            node["attrs"]["predicate"] = node["attrs"]["indices"]

    with pytest.raises(WorkloadError, match=r"a tir\.BufferLoad with a predicate"):
        rebuild(graph)


@pytest.fixture
def graph_rebuild_stmt(old_format: ModuleType, tiny_matmul: Any) -> Any:
    return old_format.old_graph(module_from_json(tiny_matmul.module_json), "0.16")


def change(graph_rebuild_stmt: Any, type_key: str, **fields: str) -> Any:
    found = [node["attrs"] for node in graph_rebuild_stmt["nodes"] if node["type_key"] == type_key]
    assert found
    for attributes in found:
        attributes.update(fields)
    return graph_rebuild_stmt


@pytest.mark.parametrize(
    ("kind", "fields", "why"),
    [
        ("tir.Buffer", {"buffer_type": "2"}, "automatic broadcasting"),
        ("tir.BufferStore", {"predicate": "1"}, r"a tir\.BufferStore with a predicate"),
        ("tir.For", {"kind": "x"}, "cannot be rebuilt"),
        ("tir.For", {"body": "0"}, "it has a null"),
        ("tir.For", {"loop_var": "99999"}, "cannot be rebuilt"),
        ("tir.Block", {"body": "-1"}, "cannot be rebuilt"),
    ],
)
def test_what_has_no_place_is_refused(graph_rebuild_stmt: Any, kind: str, fields: dict[str, str], why: str) -> None:
    with pytest.raises(WorkloadError, match=why):
        rebuild(change(graph_rebuild_stmt, kind, **fields))


def test_a_graph_that_holds_itself_is_refused(graph_rebuild_stmt: Any) -> None:
    numbers = [i for i, node in enumerate(graph_rebuild_stmt["nodes"]) if node["type_key"] == "tir.For"]
    graph_rebuild_stmt["nodes"][numbers[0]]["attrs"]["body"] = str(numbers[0])

    with pytest.raises(WorkloadError, match="cannot be rebuilt"):
        rebuild(graph_rebuild_stmt)


def test_the_scope_of_a_buffer_is_that_of_its_pointer(graph_rebuild_stmt: Any) -> None:
    for node in graph_rebuild_stmt["nodes"]:
        if node.get("repr_str") == "global":
            node["repr_str"] = "shared"

    buffers = rebuild(graph_rebuild_stmt)["main"].params

    assert [buffer.scope() for buffer in buffers] == ["shared"] * 3


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
    return module(data, te.compute((8, 8), lambda i, j: data[i, j].astype("int32") + i.astype("int32"), name="C"))


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
        return tvm.tirx.max(mixed, tvm.tirx.min(tvm.tirx.truncdiv(i, 3), tvm.tirx.truncmod(i, 5))) - i // 4 + i % 7

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
    graph = copy.deepcopy(old_format.old_graph(MODULES["softmax"](), data.draw(st.sampled_from(("0.16", "0.23")))))
    for _ in range(data.draw(st.integers(1, 3))):
        node = graph["nodes"][data.draw(st.integers(0, len(graph["nodes"]) - 1))]
        inner = node.get("attrs", node.get("data"))
        if isinstance(inner, dict) and inner:
            key = data.draw(st.sampled_from(sorted(inner)))
            inner[key] = data.draw(st.sampled_from([0, 1, -1, 10**9, "x", "3", None, len(graph["nodes"]) - 1]))
        elif isinstance(inner, list) and inner:
            inner[data.draw(st.integers(0, len(inner) - 1))] = data.draw(st.integers(-5, 500))
    try:
        assert isinstance(rebuild(graph), tvm.IRModule)
    except WorkloadError as error:
        assert str(error)  # noqa: PT017 - either is right


@pytest.mark.parametrize("graph", [[], {"root": 0, "nodes": []}, {"root_index": 5, "nodes": []}, {"nodes": [{}]}])
def test_what_is_no_module_is_refused(graph: Any) -> None:
    with pytest.raises(WorkloadError):
        rebuild(graph)
