"""Provides the feature layout trace_tokens@1: a schedule trace as a sequence, one row per instruction.

After Zhai et al., *TLP: A Deep Learning-based Cost Model for Tensor Program Tuning* (ASPLOS 2023), which
feeds the schedule primitives of a program to an attention model and looks at no code. Here the text of a
trace becomes numbers without TVM, in the order of the instructions: the kind as a number, what each argument
refers to as steps back in the trace, the decisions as log2, names as numbers of a fixed vocabulary.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from costhub.dataset.features.spec import Features, FeatureSpec
from costhub.dataset.features.trace_columns import COLUMN_NAMES, KINDS, TEXT_NUMBERS, WORDS
from costhub.dataset.features.trace_skeleton import Skeleton
from costhub.dataset.features.trace_text import decision_pairs, read_trace
from costhub.dataset.programs import FloatArray

__all__ = ["COLUMN_NAMES", "KINDS", "MAX_ROWS", "SPEC", "TEXT_NUMBERS", "TRACE_TOKENS", "WORDS", "tokenise"]

TRACE_TOKENS = "trace_tokens@1"

MAX_ROWS = 512
"""Instructions of a trace that are read; those of a search have up to about 130."""


def extract(mod: Any, traces: Sequence[str], target: str) -> Features:
    """One (instructions, width) array per trace, or None for a text that is none; no TVM is needed."""
    del mod, target
    return [tokenise(trace) for trace in traces]


def extract_candidates(context: Any, candidates: Sequence[Any]) -> Features:
    """Computes the features of scheduled candidates, as a search has them.

    Most candidates of a search share their instructions with others and differ in decisions only: each list
    of instructions is read once.
    """
    import tvm_ffi

    from costhub.dataset.trace import plain, trace_parts

    del context
    skeletons: dict[Any, Skeleton] = {}
    features: Features = []
    for candidate in candidates:
        instructions, decisions = trace_parts(candidate.sch.trace)
        key = tvm_ffi.StructuralKey(instructions)  # type: ignore[call-arg]  # its stub takes the hash, too
        if key not in skeletons:
            skeletons[key] = Skeleton.read(plain(instructions)[:MAX_ROWS])
        features.append(skeletons[key].decided(dict(decision_pairs(plain(decisions)))))
    return features


def tokenise(trace_json: str) -> FloatArray | None:
    """Reads a trace; any text will do, no TVM is needed.

    Args:
        trace_json: The pair of instructions and decisions as JSON.

    Returns:
        (instructions, width) rows, at most `MAX_ROWS`; None where `read_trace` has none.

    Example:
        >>> rows = tokenise('[[["GetSBlock",[],["C","main"],["b0"]],["GetLoops",["b0"],[],["l1","l2"]]],[]]')
        >>> rows.shape[0], rows[1, COLUMN_NAMES.index("argument0.back")].item()
        (2, 1.0)
    """
    trace = read_trace(trace_json)
    if trace is None:
        return None
    instructions, decisions = trace
    return Skeleton.read(instructions[:MAX_ROWS]).decided(dict(decision_pairs(decisions)))


SPEC = FeatureSpec(TRACE_TOKENS, COLUMN_NAMES, extract, extract_candidates, needs_tvm=False)
