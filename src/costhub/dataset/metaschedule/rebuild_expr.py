"""Provides the expressions of rebuild: how each kind of old node is made in TVM 0.27."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from costhub.errors import WorkloadError

if TYPE_CHECKING:
    from costhub.dataset.metaschedule.old_graph import OldNode
    from costhub.dataset.metaschedule.rebuild import Rebuilder

Make = Callable[["Rebuilder", "OldNode"], Any]

BINARY = "Add Sub Mul Div Mod FloorDiv FloorMod Min Max EQ NE LT LE GT GE And Or".split()
# Calls of these became nodes of their own.
_NODES_OF_CALLS = {
    "bitwise_and": "BitwiseAnd",
    "bitwise_or": "BitwiseOr",
    "bitwise_xor": "BitwiseXor",
    "bitwise_not": "BitwiseNot",
    "shift_left": "LShift",
    "shift_right": "RShift",
}


def _binary(kind: str) -> Make:
    def make(to: Rebuilder, node: OldNode) -> Any:
        return getattr(to.tvm.ir.prim, kind)(to.object(node, "a"), to.object(node, "b"))

    return make


def _integer(to: Rebuilder, node: OldNode) -> Any:
    return to.tvm.ir.prim.IntImm(node.text("dtype"), node.number("value"))


def _real(to: Rebuilder, node: OldNode) -> Any:
    return to.tvm.ir.prim.FloatImm(node.text("dtype"), float(node.text("value")))


def _string(to: Rebuilder, node: OldNode) -> Any:
    return to.tvm.ir.StringImm(to.graph.string(node, "value"))


def _cast(to: Rebuilder, node: OldNode) -> Any:
    return to.tvm.ir.prim.Cast(node.text("dtype"), to.object(node, "value"))


def _not(to: Rebuilder, node: OldNode) -> Any:
    return to.tvm.ir.prim.Not(to.object(node, "a"))


def _select(to: Rebuilder, node: OldNode) -> Any:
    parts = (to.object(node, name) for name in ("condition", "true_value", "false_value"))
    return to.tvm.ir.prim.Select(*parts)


def _let(to: Rebuilder, node: OldNode) -> Any:
    return to.tvm.ir.prim.Let(*(to.object(node, name) for name in ("var", "value", "body")))


def _variable(to: Rebuilder, node: OldNode) -> Any:
    dtype = node.text("dtype")
    if dtype == "handle":
        raise WorkloadError("it uses a pointer, which is no longer a value of its own in TVM 0.27")
    # SizeVar's promise, that it is not negative, has no place in TVM 0.27.
    return to.tvm.ir.Var(to.graph.string(node, "name"), dtype)


def _load(to: Rebuilder, node: OldNode) -> Any:
    to.refuse_if_set(node, "predicate")
    return to.tvm.tirx.BufferLoad(to.object(node, "buffer"), to.objects(node, "indices"))


def _call(to: Rebuilder, node: OldNode) -> Any:
    operator = to.graph.child(node, "op")
    name = operator.value if operator is not None and operator.kind == "Op" else None
    if not isinstance(name, str):
        raise WorkloadError("it calls a function that is not an operator of TVM")
    arguments, short = to.objects(node, "args"), name.removeprefix("tir.")
    if short in _NODES_OF_CALLS:
        return getattr(to.tvm.ir.prim, _NODES_OF_CALLS[short])(*arguments)
    return to.tvm.ir.Call(_operator(to, name), arguments, ret_ty=node.text("dtype"))


def _operator(to: Rebuilder, name: str) -> Any:
    short = name.removeprefix("tir.")
    known = to.operators
    for today in (f"tirx.{short}", f"prim.{short}", name):
        if today in known:
            return to.tvm.ir.Op.get(today)
    raise WorkloadError(f"it calls {name}, which TVM 0.27 does not have")


EXPRESSIONS: dict[str, Make] = {
    **{kind: _binary(kind) for kind in BINARY},
    "IntImm": _integer,
    "FloatImm": _real,
    "StringImm": _string,
    "Cast": _cast,
    "Not": _not,
    "Select": _select,
    "Let": _let,
    "Var": _variable,
    "SizeVar": _variable,
    "BufferLoad": _load,
    "Call": _call,
}
"""How each kind of expression is made."""
