"""Provides rebuild: rebuilds a module written by older TVM through the Python API of TVM 0.27."""

from __future__ import annotations

from collections.abc import Callable
from functools import cached_property
from typing import Any

from costhub.dataset.metaschedule.old_graph import OldGraph, OldNode
from costhub.errors import WorkloadError, last_line

Make = Callable[["Rebuilder", "OldNode"], Any]
_BINARY = "Add Sub Mul Div Mod FloorDiv FloorMod Min Max EQ NE LT LE GT GE And Or".split()
# Calls of these are now node types.
_NODES_OF_CALLS = {
    "bitwise_and": "BitwiseAnd",
    "bitwise_or": "BitwiseOr",
    "bitwise_xor": "BitwiseXor",
    "bitwise_not": "BitwiseNot",
    "shift_left": "LShift",
    "shift_right": "RShift",
}
_DEFAULT_BUFFER = 1


def rebuild(graph: Any) -> Any:
    """Makes the ``tvm.IRModule`` from a graph written by TVM 0.10 to 0.24.

    Anything that does not describe the computation is dropped: spans, source maps and types of functions.

    Args:
        graph: The graph, parsed from JSON.

    Raises:
        WorkloadError: The graph is damaged, or contains something that TVM 0.27 does not support.
    """
    return _rebuilt(graph, Rebuilder.module)


def rebuild_object(graph: Any) -> Any:
    """Makes an object other than a module, such as an index map, from such a graph.

    Raises:
        WorkloadError: The graph is damaged, or contains something that TVM 0.27 does not support.
    """
    return _rebuilt(graph, lambda to: to.make(to.graph.root))


def _rebuilt(graph: Any, make: Callable[[Rebuilder], Any]) -> Any:
    try:
        return make(Rebuilder(OldGraph(graph)))
    except WorkloadError:
        raise
    except (KeyError, IndexError, TypeError, ValueError, AttributeError, RuntimeError) as error:
        # TVM's own errors, and that of a graph that contains itself, also arrive as these.
        raise WorkloadError(f"its module cannot be rebuilt ({last_line(error)})") from error


class Rebuilder:
    """Makes the objects of a graph, each once: variables and buffers are distinguished by identity."""

    def __init__(self, graph: OldGraph) -> None:
        import tvm

        self.tvm: Any = tvm
        self.graph = graph
        self._made: dict[int, Any] = {}

    @cached_property
    def operators(self) -> frozenset[str]:
        """Names of the operators of this TVM."""
        return frozenset(map(str, self.tvm.ir.Op.list_op_names()))

    def module(self) -> Any:
        """The module at the root of the graph, with its single function."""
        root = self.graph[self.graph.root]
        functions = self.graph.child(root, "functions") if root.kind == "IRModule" else None
        nodes = [self.graph[number] for _, number in self.graph.pairs(functions)] if functions else []
        if [node.kind for node in nodes] != ["PrimFunc"]:
            raise WorkloadError("its graph does not hold a module with one function in TIR")
        return self.tvm.IRModule({"main": self._function(nodes[0])})

    def _function(self, node: OldNode) -> Any:
        buffer_map, params = self.graph.child(node, "buffer_map"), self.graph.child(node, "params")
        buffers = dict(self.graph.pairs(buffer_map)) if buffer_map else {}
        parameters = [self.make(buffers.get(number, number)) for number in (params.items if params else ())]
        nothing = self.tvm.ir.TupleType([])
        function = self.tvm.tirx.PrimFunc(parameters, self.object(node, "body"), ret_type=nothing)
        attributes = self.graph.child(node, "attrs")
        for name, value in (self.attributes(attributes, "__dict__") if attributes else {}).items():
            if name != "target":
                today = f"tirx.{name.removeprefix('tir.')}" if name.startswith("tir.") else name
                function = function.with_attr(today, value)
        return function.with_attr({"global_symbol": "main", "s_tir": True})

    def make(self, number: int) -> Any:
        """Makes the object of a node."""
        if number not in self._made:
            node = self.graph[number]
            make = _MAKERS.get(node.kind)
            if make is None:
                raise WorkloadError(f"it has a {node.type_name or 'null'}, which cannot be rebuilt in TVM 0.27")
            self._made[number] = make(self, node)
        return self._made[number]

    def object(self, node: OldNode, name: str) -> Any:
        """The object in a field."""
        return self.make(node.number(name))

    def optional(self, node: OldNode, name: str) -> Any:
        """The object in a field, or None."""
        return None if self.graph.child(node, name) is None else self.object(node, name)

    def objects(self, node: OldNode, name: str) -> list[Any]:
        """The objects of an array in a field."""
        array = self.graph.child(node, name)
        return [self.make(number) for number in array.items] if array else []

    def attributes(self, node: OldNode, name: str) -> dict[str, Any]:
        """The entries of a map in a field, as plain values."""
        entries = self.graph.child(node, name)
        return {str(key): self._plain(number) for key, number in self.graph.pairs(entries)} if entries else {}

    def _plain(self, number: int) -> Any:
        """Numbers unboxed, as in attributes of TVM 0.27; other values as objects."""
        node = self.graph[number]
        if node.kind == "Array":
            return [self._plain(item) for item in node.items]
        if node.kind == "Map":
            return {str(key): self._plain(value) for key, value in self.graph.pairs(node)}
        if node.kind == "IntImm":
            value = node.number("value")
            return bool(value) if node.text("dtype") == "bool" else value
        if node.kind == "FloatImm":
            return float(node.text("value"))
        if node.fields:
            return self.make(number)
        return node.value

    def refuse_if_set(self, node: OldNode, name: str) -> None:
        """Rejects a node that sets a field unknown to TVM 0.27.

        Raises:
            WorkloadError: The field is set.
        """
        if self.graph.child(node, name) is not None:
            raise WorkloadError(f"it has a {node.type_name} with a {name}, which TVM 0.27 does not have")


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


def _let_expression(to: Rebuilder, node: OldNode) -> Any:
    return to.tvm.ir.prim.Let(*(to.object(node, name) for name in ("var", "value", "body")))


def _variable(to: Rebuilder, node: OldNode) -> Any:
    dtype = node.text("dtype")
    if dtype == "handle":
        raise WorkloadError("it uses a pointer as a value, which TVM 0.27 does not allow")
    # TVM 0.27 cannot express SizeVar's guarantee that it is not negative.
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
    return to.tvm.ir.Call(_find_operator(to, name), arguments, ret_ty=node.text("dtype"))


def _find_operator(to: Rebuilder, name: str) -> Any:
    short = name.removeprefix("tir.")
    operators = to.operators
    for today in (f"tirx.{short}", f"prim.{short}", name):
        if today in operators:
            return to.tvm.ir.Op.get(today)
    raise WorkloadError(f"it calls {name}, which TVM 0.27 does not have")


def _range(to: Rebuilder, node: OldNode) -> Any:
    return to.tvm.ir.Range.from_min_extent(to.object(node, "min"), to.object(node, "extent"))


def _iteration(to: Rebuilder, node: OldNode) -> Any:
    domain = to.optional(node, "dom")
    tag = to.graph.string(node, "thread_tag")
    return to.tvm.tirx.IterVar(domain, to.object(node, "var"), node.number("iter_type"), tag)


def _buffer(to: Rebuilder, node: OldNode) -> Any:
    if to.objects(node, "axis_separators") or node.number("buffer_type") != _DEFAULT_BUFFER:
        raise WorkloadError("it has a buffer with axis separators or automatic broadcasting")
    data = to.graph.child(node, "data")
    pointer = to.graph.child(data, "type_annotation") if data else None
    return to.tvm.tirx.decl_buffer(
        to.objects(node, "shape"),
        node.text("dtype"),
        to.graph.string(node, "name"),
        strides=to.objects(node, "strides"),
        elem_offset=to.optional(node, "elem_offset"),
        scope=(to.graph.string(pointer, "storage_scope") if pointer else "") or "global",
        data_alignment=node.number("data_alignment"),
        offset_factor=node.number("offset_factor"),
        # The default layout would result in a module not structurally equal to one that TVM builds.
        layout=None,
    )


def _region(to: Rebuilder, node: OldNode) -> Any:
    return to.tvm.tirx.BufferRegion(to.object(node, "buffer"), to.objects(node, "region"))


def _match(to: Rebuilder, node: OldNode) -> Any:
    return to.tvm.s_tir.MatchBufferRegion(to.object(node, "buffer"), to.object(node, "source"))


def _block(to: Rebuilder, node: OldNode) -> Any:
    # In this order: a buffer matched here may define variables that the body uses.
    return to.tvm.s_tir.SBlock(
        to.objects(node, "iter_vars"),
        to.objects(node, "reads"),
        to.objects(node, "writes"),
        to.graph.string(node, "name_hint"),
        to.object(node, "body"),
        init=to.optional(node, "init"),
        alloc_buffers=to.objects(node, "alloc_buffers"),
        match_buffers=to.objects(node, "match_buffers"),
        annotations=to.attributes(node, "annotations"),
    )


def _realize(to: Rebuilder, node: OldNode) -> Any:
    values, predicate = to.objects(node, "iter_values"), to.object(node, "predicate")
    return to.tvm.s_tir.SBlockRealize(values, predicate, to.object(node, "block"))


def _for(to: Rebuilder, node: OldNode) -> Any:
    return to.tvm.tirx.For(
        to.object(node, "loop_var"),
        to.object(node, "min"),
        to.object(node, "extent"),
        node.number("kind"),
        to.object(node, "body"),
        thread_binding=to.optional(node, "thread_binding"),
        annotations=to.attributes(node, "annotations"),
        step=to.optional(node, "step"),
    )


def _store(to: Rebuilder, node: OldNode) -> Any:
    to.refuse_if_set(node, "predicate")
    buffer, value = to.object(node, "buffer"), to.object(node, "value")
    return to.tvm.tirx.BufferStore(buffer, value, to.objects(node, "indices"))


def _sequence(to: Rebuilder, node: OldNode) -> Any:
    return to.tvm.tirx.SeqStmt(to.objects(node, "seq"))


def _if(to: Rebuilder, node: OldNode) -> Any:
    condition, then = to.object(node, "condition"), to.object(node, "then_case")
    return to.tvm.tirx.IfThenElse(condition, then, to.optional(node, "else_case"))


def _let_statement(to: Rebuilder, node: OldNode) -> Any:
    bind = to.tvm.tirx.Bind(to.object(node, "var"), to.object(node, "value"))
    return to.tvm.tirx.SeqStmt([bind, to.object(node, "body")])


def _evaluate(to: Rebuilder, node: OldNode) -> Any:
    return to.tvm.tirx.Evaluate(to.object(node, "value"))


def _index_map(to: Rebuilder, node: OldNode) -> Any:
    before, after = to.objects(node, "initial_indices"), to.objects(node, "final_indices")
    return to.tvm.tirx.IndexMap(before, after, to.optional(node, "inverse_index_map"))


_MAKERS: dict[str, Make] = {
    **{kind: _binary(kind) for kind in _BINARY},
    "IntImm": _integer,
    "FloatImm": _real,
    "StringImm": _string,
    "Cast": _cast,
    "Not": _not,
    "Select": _select,
    "Let": _let_expression,
    "Var": _variable,
    "SizeVar": _variable,
    "BufferLoad": _load,
    "Call": _call,
    "Range": _range,
    "IterVar": _iteration,
    "Buffer": _buffer,
    "BufferRegion": _region,
    "MatchBufferRegion": _match,
    "Block": _block,
    "SBlock": _block,
    "BlockRealize": _realize,
    "SBlockRealize": _realize,
    "For": _for,
    "BufferStore": _store,
    "SeqStmt": _sequence,
    "IfThenElse": _if,
    "LetStmt": _let_statement,
    "Evaluate": _evaluate,
    "IndexMap": _index_map,
}
"""How to make each kind of expression, statement and part of a statement."""
