"""Provides rebuild: a module that older TVM wrote, made again through the Python API of TVM 0.27."""

from __future__ import annotations

from collections.abc import Callable
from functools import cached_property
from typing import Any

from costhub.dataset.metaschedule.old_graph import OldGraph, OldNode
from costhub.dataset.metaschedule.rebuild_expr import EXPRESSIONS
from costhub.dataset.metaschedule.rebuild_stmt import STATEMENTS
from costhub.errors import WorkloadError, last_line

_MAKE = EXPRESSIONS | STATEMENTS


def rebuild(graph: Any) -> Any:
    """Makes the ``tvm.IRModule`` of a graph that TVM 0.10 to 0.24 wrote.

    Whatever says nothing of the computation is dropped: spans, source maps and types of functions.

    Args:
        graph: The graph, parsed from JSON.

    Raises:
        WorkloadError: The graph is damaged, or has something that TVM 0.27 has no place for.
    """
    return _rebuilt(graph, Rebuilder.module)


def rebuild_object(graph: Any) -> Any:
    """Makes the object of such a graph that is no module, for example an index map.

    Raises:
        WorkloadError: The graph is damaged, or has something that TVM 0.27 has no place for.
    """
    return _rebuilt(graph, lambda to: to.make(to.graph.root))


def _rebuilt(graph: Any, make: Callable[[Rebuilder], Any]) -> Any:
    try:
        return make(Rebuilder(OldGraph(graph)))
    except WorkloadError:
        raise
    except (KeyError, IndexError, TypeError, ValueError, AttributeError, RuntimeError) as error:
        # TVM's own refusals, and the bottom of a graph that holds itself, arrive as these, too.
        raise WorkloadError(f"its module cannot be rebuilt ({last_line(error)})") from error


class Rebuilder:
    """Makes the objects of a graph, each once: variables and buffers are told apart by identity."""

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
        """The module at the root of the graph, with its one function."""
        root = self.graph[self.graph.root]
        functions = self.graph.child(root, "functions") if root.kind == "IRModule" else None
        found = [self.graph[number] for _, number in self.graph.pairs(functions)] if functions else []
        if [node.kind for node in found] != ["PrimFunc"]:
            raise WorkloadError("its graph holds no module with one function in TIR")
        return self.tvm.IRModule({"main": self._function(found[0])})

    def _function(self, node: OldNode) -> Any:
        buffer_map, params = self.graph.child(node, "buffer_map"), self.graph.child(node, "params")
        buffers = dict(self.graph.pairs(buffer_map)) if buffer_map else {}
        made = [self.make(buffers.get(number, number)) for number in (params.items if params else ())]
        nothing = self.tvm.ir.TupleType([])
        function = self.tvm.tirx.PrimFunc(made, self.object(node, "body"), ret_type=nothing)
        attributes = self.graph.child(node, "attrs")
        for name, value in (self.attributes(attributes, "__dict__") if attributes else {}).items():
            if name != "target":
                today = f"tirx.{name.removeprefix('tir.')}" if name.startswith("tir.") else name
                function = function.with_attr(today, value)
        return function.with_attr({"global_symbol": "main", "s_tir": True})

    def make(self, number: int) -> Any:
        """The object of a node."""
        if number not in self._made:
            node = self.graph[number]
            make = _MAKE.get(node.kind)
            if make is None:
                raise WorkloadError(
                    f"it has a {node.type_name or 'null'}, which cannot be rebuilt in TVM 0.27"
                )
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
        found = self.graph.child(node, name)
        return {str(key): self._plain(number) for key, number in self.graph.pairs(found)} if found else {}

    def _plain(self, number: int) -> Any:
        """Numbers out of their boxes, which is how TVM 0.27 has them in attributes; others as objects."""
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
        """Refuses a node with something in a field that TVM 0.27 does not have.

        Raises:
            WorkloadError: It has.
        """
        if self.graph.child(node, name) is not None:
            raise WorkloadError(f"it has a {node.type_name} with a {name}, which TVM 0.27 does not have")
