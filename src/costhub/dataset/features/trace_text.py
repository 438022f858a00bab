"""Provides read_trace and what reads its lists: the text of a trace; any text will do, without TVM."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any

MAX_CHARACTERS = 1 << 22
"""A longer trace has no features: it would take memory out of proportion."""


def read_trace(trace_json: str) -> tuple[list[Any], list[Any]] | None:
    """The lists of instructions and of decisions; what is in them is not looked at.

    Args:
        trace_json: The pair of the two as JSON.

    Returns:
        The lists, or None where the text is no such pair or longer than `MAX_CHARACTERS`.

    Example:
        >>> read_trace('[[["GetSBlock",[],["C","main"],["b0"]]],[[0,4]]]')
        ([['GetSBlock', [], ['C', 'main'], ['b0']]], [[0, 4]])
    """
    if len(trace_json) > MAX_CHARACTERS:
        return None
    try:
        trace = json.loads(trace_json)
    except (ValueError, RecursionError):
        return None
    if not (isinstance(trace, list) and len(trace) == 2 and all(isinstance(part, list) for part in trace)):
        return None
    return trace[0], trace[1]


def before_postproc(instructions: Sequence[Any]) -> int:
    """How many instructions come before post-processing, which follows from them and their decisions.

    Example:
        >>> before_postproc([["GetLoops", ["b0"], [], ["l1"]], ["EnterPostproc", [], [], []]])
        1
    """
    kinds = [i[0] if isinstance(i, list) and i else None for i in instructions]
    return kinds.index("EnterPostproc") if "EnterPostproc" in kinds else len(kinds)


def decision_pairs(decisions: Sequence[Any]) -> list[tuple[int, Any]]:
    """Number of the instruction and what was decided, of the decisions that are such pairs.

    Example:
        >>> decision_pairs([[0, 4], [True, 1], "x", [2, [8, 8]]])
        [(0, 4), (2, [8, 8])]
    """
    return [
        (pair[0], pair[1])
        for pair in decisions
        if isinstance(pair, list) and len(pair) == 2 and type(pair[0]) is int
    ]
