"""Provides OldGraph: the objects in JSON written by TVM 0.10 to 0.24, in one form for both layouts."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import Any

_CONTAINERS = ("Array", "Map", "List")
# Objects that are written as text, and the meaning of that text.
_TEXTS: dict[str, Callable[[str], Any]] = {
    "String": str,
    "Op": str,
    "BoxInt": int,
    "BoxFloat": float,
    "BoxBool": lambda text: text == "true",
}


@dataclass(frozen=True)
class OldNode:
    """One object."""

    type_name: str
    """Type key, such as ``tir.Add``; empty for null."""
    fields: dict[str, Any] = field(default_factory=dict)
    """Fields of an object, as written."""
    items: tuple[int, ...] = ()
    """Nodes of an array, or keys and values of a map in turn."""
    keys: tuple[str, ...] = ()
    """Keys of a map if written out; then `items` are its values."""
    value: Any = None
    """A number, bool, or text; the name of an operator."""

    @property
    def kind(self) -> str:
        """The type without its namespace, which changed between versions."""
        return self.type_name.rpartition(".")[2]

    def number(self, name: str) -> int:
        """A field that is an integer, or the number of a node."""
        return int(self.fields[name])

    def text(self, name: str) -> str:
        """A field that is text in itself: a data type, or a decimal number."""
        return str(self.fields[name])


class OldGraph:
    """The objects of one JSON text; `root` is the number of the outermost one."""

    def __init__(self, graph: Any) -> None:
        """Takes parsed JSON; raises KeyError, TypeError or ValueError if it is not such a graph."""
        self.root = int(graph["root"] if "root" in graph else graph["root_index"])
        read = _before_022 if "root" in graph else _since_022
        self.nodes = [read(node) for node in graph["nodes"]]

    def child(self, node: OldNode, name: str) -> OldNode | None:
        """The object in a field; None if it is null or the field is missing."""
        written = node.fields.get(name)
        child = None if written is None or written == "null" else self[int(written)]
        return child if child is not None and child.type_name else None

    def __getitem__(self, number: int) -> OldNode:
        if number < 0:
            raise IndexError(number)
        return self.nodes[number]

    def string(self, node: OldNode, name: str) -> str:
        """A field that is a string object; empty if it is null."""
        child = self.child(node, name)
        return str(child.value) if child is not None else ""

    def pairs(self, node: OldNode) -> Iterator[tuple[Any, int]]:
        """Key and node of every entry of a map; a text key is returned as text, any other as its number."""
        if node.keys:
            yield from zip(node.keys, node.items, strict=True)
            return
        for key, value in zip(node.items[::2], node.items[1::2], strict=True):
            text = self[key].value
            yield (text if isinstance(text, str) else key), value


def is_old(graph: Any) -> bool:
    """Whether TVM before 0.25 wrote the parsed JSON; TVM 0.27 cannot read it."""
    if not isinstance(graph, dict) or "root" in graph:
        return isinstance(graph, dict)
    nodes = graph.get("nodes")
    types = (node.get("type") for node in nodes if isinstance(node, dict)) if isinstance(nodes, list) else ()
    return any(isinstance(name, str) and name.startswith("tir.") for name in types)


def _before_022(node: Any) -> OldNode:
    type_name, attributes = str(node["type_key"]), dict(node.get("attrs", {}))
    kind = type_name.rpartition(".")[2]
    if kind in _CONTAINERS:
        items = tuple(int(item) for item in node.get("data", ()))
        return OldNode(type_name, items=items, keys=tuple(map(str, node.get("keys", ()))))
    if "v_int64" in attributes:
        number = int(attributes["v_int64"])
        return OldNode(type_name, value=bool(number) if kind == "bool" else number)
    if "v_float64" in attributes:
        return OldNode(type_name, value=float(attributes["v_float64"]))
    if "repr_b64" in node:
        raise ValueError("a name with unprintable characters")
    if kind in _TEXTS:
        return OldNode(type_name, value=_TEXTS[kind](str(node.get("repr_str", ""))))
    return OldNode(type_name, attributes)


def _since_022(node: Any) -> OldNode:
    type_name, data = str(node["type"]), node.get("data")
    if type_name == "None":
        return OldNode("")
    if isinstance(data, dict):
        return OldNode(type_name, data)
    if isinstance(data, list):
        return OldNode(type_name, items=tuple(int(item) for item in data))
    return OldNode(type_name, value=data)
