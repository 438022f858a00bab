from __future__ import annotations

import json
from types import ModuleType
from typing import Any

import pytest
import tvm
from tvm import te

from costhub.dataset.metaschedule.rebuild import rebuild, rebuild_object
from costhub.errors import WorkloadError


def graph_of(old_format: ModuleType, expression: Any, dialect: str = "0.16") -> Any:
    writer = old_format.OldWriter(dialect)
    return json.loads(json.dumps(writer.graph(writer.expr(expression))))


X, Y = tvm.tirx.Var("x", "int64"), tvm.tirx.Var("y", "float32")


@pytest.mark.parametrize("expression", [
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
])  # fmt: skip
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
