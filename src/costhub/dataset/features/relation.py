"""Provides the feature layout relation@1: the context relation features of AutoTVM, one row per buffer.

Chen et al., *Learning to Optimize Tensor Programs* (NeurIPS 2018), section 4 and appendix A.2: each loop k
has a vector of context features Z_k; they are taken as a bag of points, and the relation of feature i to
feature j is R_t^(ij) = max of Z_ki over the loops k with Z_kj < beta_t, for thresholds beta spaced evenly in
log2. The paper relates the touch count of a buffer (elements touched by one run of the loop) to its reuse
ratio (product of the lengths of the loop and those inside it / touch count) and to top-down (product of the
lengths of the loops outside), over the loops of the longest chain of the program, for every buffer of it.

Choices made here: one row per buffer of the program, so that rows can be pooled like those of per_store@1;
the bag of a buffer holds every loop that touches it, not only those of one chain, so the features cover a
program of several loop nests; each pair is related both ways; beta_t = 2^1 ... 2^24; with no loop below a
threshold the value is 0. A few columns describe the buffer and the loops that touch it.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from costhub.dataset.features.loop_nest import LOOP_KINDS, LoopNest, Node, loop_nest
from costhub.dataset.features.spec import slog, spec_of_modules
from costhub.dataset.programs import FloatArray

RELATION = "relation@1"

_THRESHOLDS = 24
_PAIRS = (("touch", "reuse"), ("reuse", "touch"), ("touch", "top_down"), ("top_down", "touch"))
_SCOPES = ("global", "shared", "local")
_BUFFER = ("elements", "element_bytes", *(f"in_{scope}" for scope in _SCOPES), "reads", "writes")
_WHOLE = ("touch", "touch_bytes", "uses", "reuse", "inner_stride", "loops", "unroll_steps")
_LONGEST = tuple(f"longest_{kind}" for kind in LOOP_KINDS)
_WORK = ("work_add_sub", "work_mul", "work_div_mod", "work_compare", "work_call")

COLUMN_NAMES: tuple[str, ...] = (
    *_BUFFER,
    *_WHOLE,
    *_LONGEST,
    *_WORK,
    *(f"{i}_where_{j}_below_2^{t + 1}" for i, j in _PAIRS for t in range(_THRESHOLDS)),
)
"""The names of the columns. Counts and sizes are log2(|x| + 1); flags are 0 or 1."""


def relation_rows(mod: Any) -> FloatArray:
    """(buffers, width) rows of a scheduled module (``tvm.IRModule``), in the order of first use."""
    nest = loop_nest(mod)
    rows = [_row(nest, buffer) for buffer in nest.nodes[0].touches]
    return np.array(rows, np.float32).reshape(-1, len(COLUMN_NAMES))


def _row(nest: LoopNest, place: int) -> list[float]:
    buffer, nodes = nest.buffers[place], [node for node in nest.nodes if place in node.touches]
    root, loops = nodes[0].touches[place], [node for node in nodes if node.kind in LOOP_KINDS]
    strides = [node.touches[place].stride for node in loops if node.touches[place].stride]
    return [
        slog(buffer.elements),
        slog(buffer.element_bytes),
        *(float(buffer.scope == scope) for scope in _SCOPES),
        float(root.reads),
        float(root.writes),
        slog(root.elements),
        slog(root.elements * buffer.element_bytes),
        slog(root.uses),
        slog(root.uses / root.elements),
        slog(min(strides, default=0)),
        slog(len(loops)),
        slog(max((node.unroll_steps for node in loops), default=0)),
        *(slog(max((n.extent for n in loops if n.kind == kind), default=0)) for kind in LOOP_KINDS),
        *(slog(work) for work in _work(nodes)),
        *_relations(loops, place),
    ]


def _work(nodes: Sequence[Node]) -> list[int]:
    """Counts operations of each class over all runs of the statements among the nodes."""
    done = [(node.top_down, node.operations) for node in nodes if node.kind == "statement"]
    return [sum(runs * getattr(o, name.removeprefix("work_")) for runs, o in done) for name in _WORK]


def _relations(loops: Sequence[Node], place: int) -> list[float]:
    """Computes R_t^(ij) for every pair and threshold."""
    touches = [node.touches[place] for node in loops]
    context = {
        "touch": np.array([touch.elements for touch in touches], np.float64),
        "reuse": np.array([touch.uses / touch.elements for touch in touches], np.float64),
        "top_down": np.array([node.top_down for node in loops], np.float64),
    }
    beta = 2.0 ** np.arange(1, _THRESHOLDS + 1)
    relations: list[float] = []
    for i, j in _PAIRS:
        values = np.log2(context[i] + 1)
        below = context[j][:, None] < beta
        relations += np.where(below, values[:, None], 0.0).max(axis=0, initial=0.0).tolist()
    return relations


SPEC = spec_of_modules(RELATION, COLUMN_NAMES, relation_rows)
