"""Provides today_trace: schedule traces as older TVM wrote them, in the words of TVM 0.27."""

from __future__ import annotations

import json
from typing import Any

from costhub.dataset.metaschedule.old_graph import is_old
from costhub.dataset.metaschedule.rebuild import rebuild_object

_RENAMED = {"GetBlock": "GetSBlock"}
# Attributes that were added in the course of time, and the value that means what was done before.
_ATTRIBUTES: dict[str, tuple[Any, ...]] = {
    "Split": (1, 0),
    "Fuse": (1,),
    "ComputeAt": (1, -1),
    "ReverseComputeAt": (1, -1),
    "Blockize": (1,),
    "Tensorize": ("", 1),
}
_CONSUMERS = ("CacheRead", "CacheWrite")


def today_trace(instructions: list[Any]) -> list[Any]:
    """Translates the instructions of a trace; those that are as TVM 0.27 writes them stay as they are.

    Raises:
        WorkloadError: An instruction holds something that TVM 0.27 has no place for.

    Example:
        >>> today_trace([["GetBlock", [], ["C", "main"], ["b0"]], ["Split", ["l1", 4, 8], [1], ["l2", "l3"]]])
        [['GetSBlock', [], ['C', 'main'], ['b0']], ['Split', ['l1', 4, 8], [1, 0], ['l2', 'l3']]]
    """
    return [_today(*instruction) for instruction in instructions]


def _today(kind: str, inputs: list[Any], attributes: list[Any], outputs: list[Any]) -> list[Any]:
    if kind in _CONSUMERS and len(inputs) == 1:
        inputs = [*inputs, []]
    if kind == "TransformLayout" and len(inputs) == 1:
        # Until 0.12 the map was an attribute, and there was no promise that it is injective.
        index, index_type, index_map, *padding = attributes
        inputs, attributes = [*inputs, index_map], [index, index_type, *(padding or [None]), 0]
    attributes = [*attributes, *_ATTRIBUTES.get(kind, ())[len(attributes) :]]
    return [_RENAMED.get(kind, kind), _objects(inputs), _objects(attributes), outputs]


def _objects(values: list[Any]) -> list[Any]:
    """Index maps and the like, which stand in traces as JSON inside JSON, as TVM 0.27 writes them."""
    return [_object(value) if isinstance(value, str) and value.startswith("{") else value for value in values]


def _object(text: str) -> str:
    import tvm

    try:
        graph = json.loads(text)
    except (ValueError, RecursionError):
        return text
    return str(tvm.ir.save_json(rebuild_object(graph))) if is_old(graph) else text
