"""Provides the feature layout loop_context@1: a program as a tree, one row per loop and statement.

Chen et al., *Learning to Optimize Tensor Programs* (NeurIPS 2018), section 4 and Table 2 of appendix A.2: a
context vector per loop (length, annotation, top-down, bottom-up, and for every buffer touch count, reuse
ratio and stride), which TreeGRU processes along the syntax tree.

Choices made here: row 0 is the root of the program, and `parent` is the row number of a row's parent within
the program (-1 for the root), parents before children, siblings in the order of the text. Statements have
rows of their own, with the operations they compute. bottom-up includes the loop itself, so that reuse = uses
/ touch holds for the loop as the paper defines it. A row has five slots for buffers: those that the loop
touches, most bytes first.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from costhub.dataset.features.loop_nest import LOOP_KINDS, LoopNest, Node, Touch, loop_nest
from costhub.dataset.features.spec import slog, spec_of_modules
from costhub.dataset.programs import FloatArray

LOOP_CONTEXT = "loop_context@1"

_SLOTS = 5
_SCOPES = ("global", "shared", "local")
_KINDS = ("root", "statement", *LOOP_KINDS)
_SLOT = (
    "touch",
    "bytes",
    "reuse",
    "stride",
    "element_bytes",
    *(f"in_{s}" for s in _SCOPES),
    "reads",
    "writes",
)
_OPERATIONS = ("add_sub", "mul", "div_mod", "compare", "call")

COLUMN_NAMES: tuple[str, ...] = (
    "parent",
    "depth",
    *(f"is_{kind}" for kind in _KINDS),
    "extent",
    "top_down",
    "bottom_up",
    "unroll_steps",
    "is_pipelined",
    "is_reduction",
    *(f"op_{name}" for name in _OPERATIONS),
    *(f"S{slot}.{name}" for slot in range(_SLOTS) for name in _SLOT),
)
"""The names of the columns.

`parent` is a row number and `depth` the number of ancestors, both unscaled; counts and sizes are log2(|x|
+ 1); flags are 0 or 1.
"""

PARENT = COLUMN_NAMES.index("parent")


def context_rows(mod: Any) -> FloatArray:
    """(nodes, width) rows of a scheduled module (``tvm.IRModule``); at most `loop_nest.MAX_NODES`."""
    nest = loop_nest(mod)
    depths: list[int] = []
    for node in nest.nodes:
        depths.append(depths[node.parent] + 1 if node.parent >= 0 else 0)
    rows = [_row(nest, node, depth) for node, depth in zip(nest.nodes, depths, strict=True)]
    return np.array(rows, np.float32).reshape(-1, len(COLUMN_NAMES))


def _row(nest: LoopNest, node: Node, depth: int) -> list[float]:
    row = [
        float(node.parent),
        float(depth),
        *(float(node.kind == kind) for kind in _KINDS),
        slog(node.extent),
        slog(node.top_down),
        slog(node.bottom_up),
        slog(node.unroll_steps),
        float(node.pipelined),
        float(node.is_reduction),
        *(slog(getattr(node.operations, name)) for name in _OPERATIONS),
    ]
    # The sort is stable: among equals, the buffer that the program uses first comes first.
    touched = sorted(node.touches.items(), key=lambda t: -t[1].elements * nest.buffers[t[0]].element_bytes)
    for place, touch in touched[:_SLOTS]:
        row += _slot(nest, place, touch)
    return row + [0.0] * (len(COLUMN_NAMES) - len(row))


def _slot(nest: LoopNest, place: int, touch: Touch) -> list[float]:
    buffer = nest.buffers[place]
    return [
        slog(touch.elements),
        slog(touch.elements * buffer.element_bytes),
        slog(touch.uses / touch.elements),
        slog(touch.stride),
        slog(buffer.element_bytes),
        *(float(buffer.scope == scope) for scope in _SCOPES),
        float(touch.reads),
        float(touch.writes),
    ]


SPEC = spec_of_modules(LOOP_CONTEXT, COLUMN_NAMES, context_rows)
