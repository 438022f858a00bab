from __future__ import annotations

from types import ModuleType
from typing import Any

import pytest

from costhub.dataset.metaschedule.old_graph import OldGraph, is_old
from costhub.dataset.workload import module_from_json


@pytest.mark.parametrize("dialect", ["0.16", "0.18", "0.21", "0.23"])
def test_both_layouts_hold_the_same(old_format: ModuleType, tiny_matmul: Any, dialect: str) -> None:
    written = old_format.old_graph(module_from_json(tiny_matmul.module_json), dialect)
    graph = OldGraph(written)

    assert is_old(written)
    root = graph[graph.root]
    [(_, number)] = graph.pairs(graph.child(root, "functions"))
    function = graph[number]
    assert function.kind == "PrimFunc"
    assert graph.child(function, "ret_type") is None
    block = graph.child(graph.child(function, "body"), "block")
    assert (block.kind, graph.string(block, "name_hint")) == ("Block", "root")
    attributes = dict(graph.pairs(graph.child(graph.child(function, "attrs"), "__dict__")))
    assert graph[attributes["global_symbol"]].value == "main"


BEFORE = {
    "root": 1,
    "nodes": [
        {"type_key": ""},
        {"type_key": "runtime.BoxInt", "repr_str": "7"},
        {"type_key": "runtime.BoxBool", "repr_str": "false"},
        {"type_key": "runtime.BoxFloat", "repr_str": "0.5"},
        {"type_key": "int", "attrs": {"v_int64": "7"}},
        {"type_key": "bool", "attrs": {"v_int64": "0"}},
        {"type_key": "float", "attrs": {"v_float64": "0.5"}},
        {"type_key": "runtime.String"},
    ],
}


def test_numbers_come_out_of_their_boxes() -> None:
    values = [node.value for node in OldGraph(BEFORE).nodes]

    assert values == [None, 7, False, 0.5, 7, False, 0.5, ""]
    assert [type(value) for value in values[1:4]] == [int, bool, float]


@pytest.mark.parametrize(
    "graph",
    [
        [],
        {},
        {"root": 0},
        {"root": "x", "nodes": []},
        {"root": 0, "nodes": [1]},
        {"root_index": 0, "nodes": [{"data": 1}]},
        {"root": 0, "nodes": [{"type_key": "a.String", "repr_b64": "AA=="}]},
    ],
)
def test_what_is_no_graph_is_refused(graph: Any) -> None:
    with pytest.raises((KeyError, TypeError, ValueError)):
        OldGraph(graph)


def test_a_node_before_the_first_does_not_wrap_around() -> None:
    with pytest.raises(IndexError):
        OldGraph(BEFORE)[-1]


def test_graphs_of_today_are_not_old(tiny_matmul: Any) -> None:
    import json

    assert not is_old(json.loads(tiny_matmul.module_json))
    assert not is_old([])
    assert not is_old({"nodes": 3})
