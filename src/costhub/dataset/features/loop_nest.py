"""Provides loop_nest: the loops and statements of a scheduled program, and what each of them touches."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from costhub.dataset.features.tir_expressions import IndexForm, Operations, count_operations, index_form

MAX_NODES = 1024
"""Most loops and statements read per program; schedules of a search have a tenth of that."""

_FOR_KINDS = {0: "serial", 1: "parallel", 2: "vectorized", 3: "unrolled"}
_THREAD_KINDS = {"blockIdx": "block", "threadIdx": "thread", "vthread": "vthread"}
_UNROLL_PRAGMA = "pragma_auto_unroll_max_step"
_PIPELINE = "software_pipeline_stage"
_REDUCTION = 2  # tvm.tirx.IterVar.CommReduce

LOOP_KINDS = (*_FOR_KINDS.values(), *_THREAD_KINDS.values(), "other")


@dataclass(frozen=True)
class Buffer:
    """A buffer of the program."""

    name: str
    shape: tuple[int, ...]
    element_bytes: int
    scope: str
    """Storage scope: `global`, `shared`, `local`, …; `shared.dyn` and the like count as their first part."""

    @property
    def elements(self) -> int:
        """Number of elements."""
        return math.prod(self.shape)


@dataclass
class Touch:
    """What one run of a node does with one buffer.

    The paper's names: `elements` is the touch count, `uses / elements` the reuse ratio.
    """

    elements: int = 0
    """Distinct elements touched, over-counted where regions overlap irregularly."""
    uses: int = 0
    """Runs of statements that touch the buffer."""
    run: int = 0
    """Lower bound of the contiguous elements among those touched."""
    stride: int = 0
    """Smallest number of elements by which a step of the loop advances in the buffer; 0 if it does not."""
    reads: bool = False
    writes: bool = False


@dataclass
class Node:
    """The root, a loop or a statement (an innermost block) of a program."""

    kind: str
    """`root`, `statement`, or one of `LOOP_KINDS`."""
    parent: int
    """Index of the parent in the list; -1 for the root."""
    extent: int = 1
    """Iterations of the loop."""
    top_down: int = 1
    """Product of the lengths of the loops around it."""
    bottom_up: int = 1
    """Product of its own length and those of the loops inside it, along the longest chain."""
    unroll_steps: int = 0
    pipelined: bool = False
    is_reduction: bool = False
    operations: Operations = field(default_factory=Operations)
    """Operations of one run of a statement; none for other nodes."""
    touches: dict[int, Touch] = field(default_factory=dict)
    """By the index of the buffer in `LoopNest.buffers`."""


@dataclass(frozen=True)
class LoopNest:
    """The nodes of a program in the order of its text, parents before children, the root first."""

    nodes: list[Node]
    buffers: list[Buffer]


def loop_nest(mod: Any) -> LoopNest:
    """Reads the loops of a scheduled module, before it is lowered.

    Leaves out plain loops of length 1, which lowering would remove; a loop over threads that are already
    bound stands for those threads. Predicates that cut a loop short are ignored. Where an index cannot be
    read, its whole dimension counts as touched.

    Args:
        mod: A ``tvm.IRModule`` of TIR blocks, such as ``Schedule.mod``.
    """
    reader = _NestReader()
    # The order of TVM's maps is not stable.
    functions = {str(name.name_hint): function for name, function in mod.functions.items()}
    for name in sorted(functions):
        reader.visit(getattr(functions[name], "body", None), 0)
    return LoopNest(reader.nodes, reader.buffers)


class _NestReader:
    def __init__(self) -> None:
        self.nodes = [Node("root", -1)]
        self.buffers: list[Buffer] = []
        self._places: dict[int, int] = {}
        self._known: dict[int, IndexForm] = {}
        self._chain: list[tuple[int, int]] = []
        self._threads: dict[str, int] = {}

    def visit(self, statement: Any, parent: int) -> None:
        """Adds the content of `statement` below the node `parent`."""
        kind = type(statement).__name__
        if kind == "For":
            self._loop(statement, parent)
        elif kind == "SBlockRealize":
            self._block(statement, parent)
        elif kind == "SeqStmt":
            for part in statement.seq:
                self.visit(part, parent)
        elif kind == "IfThenElse":
            self.visit(statement.then_case, parent)
            self.visit(statement.else_case, parent)
        else:
            body = getattr(statement, "body", None)
            if body is not None:
                self.visit(body, parent)

    def _loop(self, loop: Any, parent: int) -> None:
        handle = loop.loop_var.__chandle__()
        start = index_form(loop.min, self._known) or IndexForm()
        extent = self._largest(loop.extent)
        tag = "" if loop.thread_binding is None else str(loop.thread_binding.thread_tag)
        kind = _THREAD_KINDS.get(tag.split(".")[0], "other") if tag else _FOR_KINDS.get(int(loop.kind), "other")
        if tag in self._threads:
            # The same threads as those around it, not more: a cooperative fetch by a block of threads.
            self._known[handle] = start.plus(IndexForm.of_loop(self._threads[tag]))
            self.visit(loop.body, parent)
            return
        if extent <= 1 and kind == "serial" and not len(loop.annotations):
            self._known[handle] = start
            self.visit(loop.body, parent)
            return
        if len(self.nodes) >= MAX_NODES:
            return
        number = len(self.nodes)
        notes = {str(key): value for key, value in loop.annotations.items()}
        self.nodes.append(
            Node(
                kind,
                parent,
                extent,
                top_down=self.nodes[parent].top_down * self.nodes[parent].extent,
                unroll_steps=_whole(notes.get(_UNROLL_PRAGMA)) or 0,
                pipelined=_PIPELINE in notes,
            )
        )
        self._known[handle] = start.plus(IndexForm.of_loop(number))
        self._chain.append((number, extent))
        if tag:
            self._threads[tag] = number
        self.visit(loop.body, number)
        self._threads.pop(tag, None)
        self._chain.pop()

    def _block(self, realize: Any, parent: int) -> None:
        block = realize.block
        for axis, value in zip(block.iter_vars, realize.iter_values, strict=True):
            form = index_form(value, self._known)
            if form is not None:
                self._known[axis.var.__chandle__()] = form
        if _holds_block(block.body):
            self.visit(block.body, parent)
        elif len(self.nodes) < MAX_NODES:
            self._statement(block, parent)

    def _statement(self, block: Any, parent: int) -> None:
        number = len(self.nodes)
        is_reduction = any(int(axis.iter_type) == _REDUCTION for axis in block.iter_vars)
        top_down = self.nodes[parent].top_down * self.nodes[parent].extent
        self.nodes.append(
            Node(
                "statement",
                parent,
                top_down=top_down,
                is_reduction=is_reduction,
                operations=count_operations(block.body),
            )
        )
        levels = [*(loop for loop, _ in self._chain), number]
        trips = [top_down // max(1, self.nodes[level].top_down) for level in levels]
        for level, trip in zip([0, *levels], [top_down, *trips], strict=True):
            self.nodes[level].bottom_up = max(self.nodes[level].bottom_up, trip)
        seen: set[int] = set()
        for regions, writes in ((block.reads, False), (block.writes, True)):
            for region in regions:
                buffer = self._buffer(region.source)
                # A statement that reads and writes a buffer counts as one use.
                self._touch(buffer, region.region, levels, trips, uses=buffer not in seen)
                seen.add(buffer)
                for level in {0, *levels}:
                    touch = self.nodes[level].touches[buffer]
                    touch.writes |= writes
                    touch.reads |= not writes or is_reduction

    def _touch(self, buffer: int, region: Any, levels: Sequence[int], trips: Sequence[int], *, uses: bool) -> None:
        shape = self.buffers[buffer].shape
        forms = [index_form(part.min, self._known) for part in region]
        sizes = [self._largest(part.extent, unknown=d) for part, d in zip(region, shape, strict=False)]
        counts, runs = self._elements(forms, sizes, shape)
        strides = _row_major(shape)
        per_level = zip([*levels, 0], [*counts, counts[0]], [*runs, runs[0]], [*trips, trips[0]], strict=True)
        for level, count, run, trip in per_level:
            touch = self.nodes[level].touches.setdefault(buffer, Touch())
            touch.elements = max(touch.elements, count)
            touch.run = min(touch.run or run, run)
            touch.uses += trip if uses else 0
            step = abs(sum(f.stride(level) * s for f, s in zip(forms, strides, strict=False) if f))
            touch.stride = min(touch.stride or step, step) or touch.stride or step

    def _elements(
        self, forms: Sequence[IndexForm | None], sizes: Sequence[int], shape: Sequence[int]
    ) -> tuple[list[int], list[int]]:
        """Counts, for each loop of the chain, distinct elements touched while it and the loops inside it run.

        The last entry is for no loop running. A second list has the number of contiguous ones.
        """
        levels = len(self._chain) + 1
        total, runs = [1] * levels, [1] * levels
        # Whether the inner dimensions are touched whole, which makes steps of this one contiguous.
        whole = [True] * levels
        involved: set[int] = set()
        for form, size, length in reversed(list(zip(forms, sizes, shape, strict=False))):
            if form is None:
                total = [count * length for count in total]
                whole = [False] * levels
                involved |= {number for number, _ in self._chain}
                continue
            loops = form.loops()
            involved |= loops
            steps = _products(self._chain, loops)
            low, high = form.bounds(self._chain)
            for level in range(levels):
                reach = high[level] - low[level] + size
                span = max(1, min(reach, steps[level] * size, length))
                total[level] *= span
                if whole[level]:
                    is_dense = min(reach, length) <= span
                    runs[level] *= span if is_dense else size
                    whole[level] = is_dense and span >= length
        most = _products(self._chain, involved)
        # A diagonal touches fewer elements than the span of its two dimensions.
        if all(form is not None for form in forms):
            total = [min(a, b * math.prod(sizes)) for a, b in zip(total, most, strict=True)]
        return total, runs

    def _largest(self, expression: Any, *, unknown: int = 1) -> int:
        """Returns the largest value of an expression while all surrounding loops run."""
        form = index_form(expression, self._known)
        return unknown if form is None else max(1, form.bounds(self._chain)[1][0])

    def _buffer(self, source: Any) -> int:
        handle = source.__chandle__()
        if handle not in self._places:
            self._places[handle] = len(self.buffers)
            kind = source.ty
            shape = tuple(_whole(length) or 1 for length in kind.shape)
            bits = int("".join(c for c in str(kind.dtype).split("x")[0] if c.isdigit()) or 8)
            scope = str(kind.storage_scope).split(".")[0]
            self.buffers.append(Buffer(str(source.name), shape, max(1, bits // 8), scope or "global"))
        return self._places[handle]


def _holds_block(statement: Any) -> bool:
    kind = type(statement).__name__
    if kind == "SBlockRealize":
        return True
    if kind == "SeqStmt":
        return any(_holds_block(part) for part in statement.seq)
    if kind == "IfThenElse":
        return _holds_block(statement.then_case) or _holds_block(statement.else_case)
    body = getattr(statement, "body", None)
    return body is not None and _holds_block(body)


def _row_major(shape: Sequence[int]) -> list[int]:
    return [math.prod(shape[dimension + 1 :]) for dimension in range(len(shape))]


def _products(chain: Sequence[tuple[int, int]], loops: set[int] | Mapping[int, Any]) -> list[int]:
    """Returns, for each place in the chain, the product of the lengths of `loops` from there inward."""
    products = [1]
    for number, length in reversed(chain):
        products.append(products[-1] * (length if number in loops else 1))
    return products[::-1]


def _whole(value: Any) -> int | None:
    """Returns a constant of TVM or Python as int; None for anything else."""
    number = getattr(value, "value", value)
    return int(number) if isinstance(number, (int, float)) else None
