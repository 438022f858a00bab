"""Provides the feature layout trace_decisions@1: the decisions of a schedule trace as one row.

Candidates of a search differ in their decisions: factors of tiles, choices among numbers, places to compute at.
They fill one row, in the order of the trace, each with its position. Post-processing follows from them and is left
out, and only the number of instructions is used: a draft that ranks candidates before they are lowered needs to be
fast, not complete.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from costhub.dataset.features.spec import Features, FeatureSpec, slog
from costhub.dataset.programs import FloatArray
from costhub.dataset.trace import before_postproc, decision_pairs, plain, read_trace, trace_parts

TRACE_DECISIONS = "trace_decisions@1"

_DECISIONS, _FACTORS = 24, 4
_PARTS = ("place", "choice", "factors", *(f"factor{i}" for i in range(_FACTORS)))

COLUMN_NAMES: tuple[str, ...] = (
    "instructions",
    "decisions",
    *(f"decision{i}.{part}" for i in range(_DECISIONS) for part in _PARTS),
)
"""The names of the columns.

`instructions` and `decisions` are the counts before post-processing. For each decision, `place` is the
number of its instruction, `choice` the decision of SampleCategorical or SampleComputeLocation, unscaled,
within +-1024, `factors` the number of factors of a tile, and `factor` log2(x + 1) of the first of them.
Values beyond the columns are left out.
"""

_MOST = 1024


def extract(mod: Any, traces: Sequence[str], target: str) -> Features:
    """Computes one (1, width) array per trace, or None for a text that is not a trace; needs no TVM."""
    del mod, target
    return [_row_of_text(trace) for trace in traces]


def extract_candidates(context: Any, candidates: Sequence[Any]) -> Features:
    """Computes the features of the scheduled candidates of a search."""
    del context
    features: Features = []
    for candidate in candidates:
        instructions, decisions = trace_parts(candidate.sch.trace, postproc=False)
        features.append(_row(len(instructions), plain(decisions)))
    return features


def _row_of_text(trace_json: str) -> FloatArray | None:
    """Computes the row of a trace; any text is allowed."""
    trace = read_trace(trace_json)
    if trace is None:
        return None
    instructions, decisions = trace
    return _row(before_postproc(instructions), decisions)


def _row(instructions: int, pairs: list[Any]) -> FloatArray:
    """(1, width) row of the decisions that belong to the first instructions."""
    pairs_used = [pair for pair in decision_pairs(pairs) if 0 <= pair[0] < instructions]
    row = [float(min(instructions, _MOST)), float(min(len(pairs_used), _MOST))]
    for place, decision in pairs_used[:_DECISIONS]:
        factors = decision if isinstance(decision, list) else []
        choice = decision if isinstance(decision, int) else 0
        row += [
            float(min(place, _MOST)),
            float(max(-_MOST, min(_MOST, choice))),
            float(min(len(factors), _MOST)),
        ]
        row += [slog(f) if isinstance(f, (int, float)) else 0.0 for f in factors[:_FACTORS]]
        row += [0.0] * (_FACTORS - len(factors))
    row += [0.0] * (len(COLUMN_NAMES) - len(row))
    return np.array([row], np.float32)


SPEC = FeatureSpec(TRACE_DECISIONS, COLUMN_NAMES, extract, extract_candidates, needs_tvm=False)
