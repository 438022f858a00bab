"""Provides classify: the operator family of a workload, from the structure of its blocks, not their names."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

FAMILIES = (
    "conv",
    "depthwise",
    "pointwise",
    "winograd",
    "batch_matmul",
    "matmul",
    "softmax",
    "norm",
    "pool",
    "reduce",
    "elementwise",
    "other",
)
"""Possible results of `classify`."""

_REDUCTION = 2  # an IterVar's type
_CONV_RANK = 4
_PARTS = ("a b condition true_value false_value value var args indices body block seq then_case else_case init").split()


def classify(mod: Any) -> str:
    """Names the operator family of a workload.

    The sum of products with the most work decides: a sliding window makes it a convolution (`depthwise` if
    only the window is summed, `pointwise` if the window is one element, `winograd` if a matrix of
    constants transforms tiles); without one, an index shared by all three operands makes it a `batch_matmul`.
    Without a sum of products, exp between a maximum and a sum is `softmax`, a sum with a root is `norm`, a
    window alone is `pool`, any other reduction is `reduce`, and no reduction is `elementwise`.

    Args:
        mod: The workload (``tvm.IRModule``), not scheduled.

    Returns:
        One of `FAMILIES`.
    """
    blocks = read_blocks(mod)
    contractions = [block for block in blocks if block.factors]
    if contractions:
        constants = {block.buffer for block in blocks if not block.loads}
        if any(load.buffer in constants for block in contractions for load in block.loads):
            return "winograd"
        return _contraction(max(contractions, key=lambda block: block.work))
    if not blocks:
        return "other"
    return _without_products(blocks)


def read_blocks(mod: Any) -> list[BlockFacts]:
    """Describes the computation of each block of a workload, in the order of the text.

    Args:
        mod: The workload (``tvm.IRModule``), not scheduled.
    """
    root = getattr(mod["main"].body, "block", None)
    return [BlockFacts.of(block) for block in _walk(root.body) if _kind(block) == "SBlock"] if root else []


@dataclass(frozen=True)
class _Load:
    """A buffer element that is read, with the variables in each of its indices."""

    buffer: Any
    indices: tuple[frozenset[Any], ...]

    @property
    def variables(self) -> frozenset[Any]:
        return frozenset().union(*self.indices)


@dataclass(frozen=True)
class BlockFacts:
    """The facts about a block's computation that identify the operator."""

    buffer: Any
    """The first buffer that it writes."""
    spatial: dict[Any, int]
    """Extents of the loops that run over the output."""
    reduction: dict[Any, int]
    """Extents of the loops that are summed (or maximised, ...) over."""
    combined: str
    """How the reduction combines values: Add, Max, ...; empty without a reduction."""
    loads: tuple[_Load, ...]
    factors: tuple[tuple[_Load, ...], ...]
    """The elements in each factor if products are summed; else empty."""
    calls: frozenset[str]
    """Functions it calls."""

    @classmethod
    def of(cls, block: Any) -> BlockFacts:
        """The facts of a block of TIR."""
        extents: tuple[dict[Any, int], dict[Any, int]] = ({}, {})
        for iteration in block.iter_vars:
            extents[iteration.iter_type == _REDUCTION][iteration.var] = _extent(iteration.dom.extent)
        known = {each.var: int(each.dom.extent.value) for each in block.iter_vars if _kind(each.dom.extent) == "IntImm"}
        # The outermost store: nested blocks are classified separately.
        stores = [node for node in _walk(block.body) if _kind(node) == "BufferStore"]
        added = [_added(store) for store in stores]
        factors = [product for _, value in added if (product := _factors(value, known))] if extents[1] else []
        return cls(
            stores[0].buffer if stores else None,
            *extents,
            added[0][0] if added and extents[1] else "",
            tuple(_loads(stores, known, skip={store.buffer for store in stores} if extents[1] else set())),
            factors[0] if factors else (),
            frozenset(str(n.op.name) for n in _walk(block.body) if _kind(n) == "Call" and _kind(n.op) == "Op"),
        )

    @property
    def work(self) -> int:
        """Iterations of all its loops."""
        return math.prod([*self.spatial.values(), *self.reduction.values()])

    def windows(self) -> set[Any]:
        """Returns the reduction loops that share an index with a loop over the output."""
        windows = set()
        for number, factor in enumerate(self.factors or (self.loads,)):
            others = [load for i, other in enumerate(self.factors) if i != number for load in other]
            elsewhere = frozenset().union(*(load.variables for load in others))
            for index in (index for load in factor for index in load.indices):
                # A channel of a grouped convolution shares one as well, but the weights share it too.
                if any(v in self.spatial and v not in elsewhere for v in index):
                    windows |= {v for v in index if v in self.reduction}
        return windows


def _contraction(block: BlockFacts) -> str:
    first, second = (frozenset().union(*(load.variables for load in factor)) for factor in block.factors)
    shared = [v for v in block.spatial if v in first and v in second]
    windows = block.windows()
    summed = [v for v, extent in block.reduction.items() if v not in windows and extent > 1]
    if windows and not summed and any(block.spatial[v] > 1 for v in shared):
        return "depthwise"
    if any(block.reduction[v] > 1 for v in windows):
        return "conv"
    if windows:
        return "pointwise"
    if shared:
        return "batch_matmul"
    return "pointwise" if len(block.spatial) >= _CONV_RANK else "matmul"


def _without_products(blocks: Sequence[BlockFacts]) -> str:
    combined = {block.combined for block in blocks if block.reduction}
    calls = {name.rpartition(".")[2] for block in blocks for name in block.calls}
    # A polynomial for exp builds its power of two from bits.
    if {"Max", "Add"} <= combined and calls & {"exp", "reinterpret"}:
        return "softmax"
    if not combined:
        return "elementwise"
    if "Add" in combined and calls & {"sqrt", "rsqrt", "pow"}:
        return "norm"
    return "pool" if any(block.windows() for block in blocks) else "reduce"


def _added(store: Any) -> tuple[str, Any]:
    """Returns how a store combines its element with a value, and the value."""
    value = store.value
    for element, other in (("a", "b"), ("b", "a")):
        part: Any = getattr(value, element, None)
        if _kind(part) == "TensorLoad" and part.source.same_as(store.buffer):
            return _kind(value), getattr(value, other)
    return "other", value


def _factors(value: Any, known: Mapping[Any, int]) -> tuple[tuple[_Load, ...], ...]:
    """Returns the elements in each factor of a product of two different values; empty for anything else.

    Two products of parts of the same elements, as of pairs of bfloat16, count as one.
    """
    import tvm_ffi

    while _kind(value) == "Cast":
        value = value.value
    if _kind(value) == "Add":
        one, other = _factors(value.a, known), _factors(value.b, known)
        return one if one == other else ()
    if _kind(value) != "Mul" or tvm_ffi.structural_equal(value.a, value.b):
        return ()
    factors = tuple(tuple(_loads([factor], known)) for factor in (value.a, value.b))
    return factors if all(factors) else ()


def _loads(
    nodes: Sequence[Any], known: Mapping[Any, int], skip: set[Any] | frozenset[Any] = frozenset()
) -> Iterator[_Load]:
    for node in (inner for outer in nodes for inner in _walk(outer)):
        if _kind(node) == "TensorLoad" and node.source not in skip:
            yield _Load(node.source, tuple(frozenset(_variables(index, known)) for index in node.indices))


def _variables(index: Any, known: Mapping[Any, int]) -> Iterator[Any]:
    """The variables that an index depends on.

    Args:
        index: An expression.
        known: The extents of variables, as far as they are known.
    """
    parts = _walk(index, skip=lambda node: _is_always_zero(node, known))
    return (inner for inner in parts if _kind(inner) == "Var")


def _is_always_zero(node: Any, known: Mapping[Any, int]) -> bool:
    """Whether it is a variable over at least its extent, as the group of a channel is where there is only one group."""
    if _kind(node) != "FloorDiv" or _kind(node.a) != "Var" or _kind(node.b) != "IntImm":
        return False
    return node.a in known and known[node.a] <= int(node.b.value)


def _walk(node: Any, skip: Callable[[Any], bool] = lambda _: False) -> Iterator[Any]:
    """Yields the node and everything in it, the outermost first, without what is skipped and what is in that."""
    stack = [node]
    while stack:
        current = stack.pop()
        if _kind(current) in ("Array", "list", "tuple"):
            stack.extend(reversed(list(current)))
            continue
        if skip(current):
            continue
        yield current
        if _kind(current) != "Var":
            stack.extend(part for name in reversed(_PARTS) if _is_node(part := getattr(current, name, None)))


def _is_node(value: Any) -> bool:
    return value is not None and not isinstance(value, (str, int, float))


def _kind(node: Any) -> str:
    return type(node).__name__


def _extent(value: Any) -> int:
    # An extent known only at run time counts as more than one element.
    return int(value.value) if _kind(value) == "IntImm" else 2
