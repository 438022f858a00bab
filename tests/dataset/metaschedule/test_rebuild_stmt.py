from __future__ import annotations

from types import ModuleType
from typing import Any

import pytest

from costhub.dataset.metaschedule.rebuild import rebuild
from costhub.dataset.workload import module_from_json
from costhub.errors import WorkloadError


@pytest.fixture
def graph(old_format: ModuleType, tiny_matmul: Any) -> Any:
    return old_format.old_graph(module_from_json(tiny_matmul.module_json), "0.16")


def change(graph: Any, type_key: str, **fields: str) -> Any:
    found = [node["attrs"] for node in graph["nodes"] if node["type_key"] == type_key]
    assert found
    for attributes in found:
        attributes.update(fields)
    return graph


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
def test_what_has_no_place_is_refused(graph: Any, kind: str, fields: dict[str, str], why: str) -> None:
    with pytest.raises(WorkloadError, match=why):
        rebuild(change(graph, kind, **fields))


def test_a_graph_that_holds_itself_is_refused(graph: Any) -> None:
    numbers = [i for i, node in enumerate(graph["nodes"]) if node["type_key"] == "tir.For"]
    graph["nodes"][numbers[0]]["attrs"]["body"] = str(numbers[0])

    with pytest.raises(WorkloadError, match="cannot be rebuilt"):
        rebuild(graph)


def test_the_scope_of_a_buffer_is_that_of_its_pointer(graph: Any) -> None:
    for node in graph["nodes"]:
        if node.get("repr_str") == "global":
            node["repr_str"] = "shared"

    buffers = rebuild(graph)["main"].params

    assert [buffer.scope() for buffer in buffers] == ["shared"] * 3
