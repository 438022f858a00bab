"""Provides the buffers and statements of rebuild: how each kind of old node is made in TVM 0.27."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from costhub.dataset.metaschedule.rebuild_expr import Make
from costhub.errors import WorkloadError

if TYPE_CHECKING:
    from costhub.dataset.metaschedule.old_graph import OldNode
    from costhub.dataset.metaschedule.rebuild import Rebuilder

_DEFAULT_BUFFER = 1


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
        # The default layout would make a module that is not structurally equal to one that TVM builds.
        layout=None,
    )


def _region(to: Rebuilder, node: OldNode) -> Any:
    return to.tvm.tirx.BufferRegion(to.object(node, "buffer"), to.objects(node, "region"))


def _match(to: Rebuilder, node: OldNode) -> Any:
    return to.tvm.s_tir.MatchBufferRegion(to.object(node, "buffer"), to.object(node, "source"))


def _block(to: Rebuilder, node: OldNode) -> Any:
    # In the order of definition: a buffer matched here may define variables that the body uses.
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


def _let(to: Rebuilder, node: OldNode) -> Any:
    bind = to.tvm.tirx.Bind(to.object(node, "var"), to.object(node, "value"))
    return to.tvm.tirx.SeqStmt([bind, to.object(node, "body")])


def _evaluate(to: Rebuilder, node: OldNode) -> Any:
    return to.tvm.tirx.Evaluate(to.object(node, "value"))


def _index_map(to: Rebuilder, node: OldNode) -> Any:
    before, after = to.objects(node, "initial_indices"), to.objects(node, "final_indices")
    return to.tvm.tirx.IndexMap(before, after, to.optional(node, "inverse_index_map"))


STATEMENTS: dict[str, Make] = {
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
    "LetStmt": _let,
    "Evaluate": _evaluate,
    "IndexMap": _index_map,
}
"""How each kind of statement is made, and of what statements consist of besides expressions."""
