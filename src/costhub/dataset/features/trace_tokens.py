"""Provides the feature layout trace_tokens@1: a schedule trace as a sequence, one row per instruction.

After Zhai et al., *TLP: A Deep Learning-based Cost Model for Tensor Program Tuning* (ASPLOS 2023), which
feeds the schedule primitives of a program to an attention model and looks at no code. Here the text of a
trace becomes numbers without TVM, in the order of the instructions: the kind as a number, what each argument
refers to as steps back in the trace, the decisions as log2, names as numbers of a fixed vocabulary.
"""

from __future__ import annotations

import functools
import json
import zlib
from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np

from costhub.dataset.features.spec import Features, FeatureSpec, slog
from costhub.dataset.programs import FloatArray

TRACE_TOKENS = "trace_tokens@1"

MAX_ROWS = 512
"""Instructions of a trace that are read; those of a search have up to about 130."""
MAX_CHARACTERS = 1 << 22
"""A longer trace has no features: it would take memory out of proportion."""
_MAX_ITEMS = 64

KINDS = (
    "AddUnitLoop Annotate AnnotateBufferAccess Bind Blockize CacheIndex CacheInplace CacheRead CacheWrite "
    "ComputeAt ComputeInline DecomposePadding DecomposeReduction EnterPostproc Fuse FuseReductionEpilogue "
    "GetChildBlocks GetConsumers GetLoops GetOutputBlocks GetProducers GetSBlock LoopPartition Merge "
    "PadEinsum Parallel ReindexCacheRead ReindexCacheWrite ReIndex Reorder ReorderBlockIterVar "
    "ReverseComputeAt ReverseComputeInline RFactor RollingBuffer SampleCategorical SampleComputeLocation "
    "SamplePartitionedTile SamplePerfectTile SetScope Split StorageAlign Tensorize TransformBlockLayout "
    "TransformLayout Unannotate UnsafeHideBufferAccess UnsafeSetDType Unroll Vectorize WriteAt ReadAt"
).split()
"""The instructions of TVM 0.27; kind number 0 is any other, 1 the first of these."""

WORDS = (
    "None main root global shared shared.dyn local wmma.matrix_a wmma.matrix_b wmma.accumulator "
    "blockIdx.x blockIdx.y blockIdx.z threadIdx.x threadIdx.y threadIdx.z vthread.x vthread.y vthread.z "
    "meta_schedule.parallel meta_schedule.vectorize meta_schedule.unroll_explicit "
    "meta_schedule.unroll_implicit meta_schedule.cooperative_fetch meta_schedule.tiling_structure "
    "meta_schedule.random_compute_producer meta_schedule.thread_extent_low_inclusive "
    "meta_schedule.thread_extent_high_inclusive meta_schedule.auto_tensorize "
    "meta_schedule.auto_tensorize_init meta_schedule.layout_rewrite_preproc "
    "pragma_auto_unroll_max_step pragma_unroll_explicit software_pipeline_stage software_pipeline_order "
    "software_pipeline_async_stages schedule_rule SSRSRS SSSRRSRS SSSRRS"
).split()
"""Texts with numbers of their own, from 1; 0 is no text. Any other has one of the 32 numbers after these."""

_OTHER_WORDS = 32
_ARGUMENTS, _ATTRIBUTES, _FACTORS, _TEXTS = 8, 8, 8, 2

COLUMN_NAMES: tuple[str, ...] = (
    "kind",
    "in_postproc",
    "n_arguments",
    "n_results",
    *(f"argument{i}.{part}" for i in range(_ARGUMENTS) for part in ("back", "result", "value")),
    *(f"text{i}" for i in range(_TEXTS)),
    *(f"attribute{i}" for i in range(_ATTRIBUTES)),
    "has_decision",
    "choice",
    *(f"factor{i}" for i in range(_FACTORS)),
)
"""The names of the columns.

`kind` and `text` are numbers of the vocabularies. `back` is how many instructions ago the argument was made
(0 for one that is no reference), `result` which of that instruction's results it is, from 0. `choice` is the
decision of SampleCategorical or SampleComputeLocation, as it is, within +-1024. `value` (of a number, or of a
reference to a sampled number), `attribute`, `factor` (of a tile) and the counts are log2(|x| + 1) with the
sign of x. What is more than the columns hold is left out.
"""

_KIND = {kind: number for number, kind in enumerate(KINDS, 1)} | {"GetBlock": KINDS.index("GetSBlock") + 1}
_ARGUMENT0 = COLUMN_NAMES.index("argument0.back")
_TEXT0 = COLUMN_NAMES.index("text0")
_ATTRIBUTE0 = COLUMN_NAMES.index("attribute0")
_DECISION = COLUMN_NAMES.index("has_decision")
_FACTOR0 = COLUMN_NAMES.index("factor0")


def extract(mod: Any, traces: Sequence[str], target: str) -> Features:
    """One (instructions, width) array per trace, or None for a text that is none; no TVM is needed."""
    del mod, target
    return [tokenise(trace) for trace in traces]


def extract_candidates(context: Any, candidates: Sequence[Any]) -> Features:
    """Computes the features of scheduled candidates, as a search has them."""
    from costhub.dataset.trace import trace_to_json

    del context
    return [tokenise(trace_to_json(candidate.sch.trace)) for candidate in candidates]


def tokenise(trace_json: str) -> FloatArray | None:
    """Reads a trace; any text will do, no TVM is needed.

    Args:
        trace_json: The pair of instructions and decisions as JSON.

    Returns:
        (instructions, width) rows, at most `MAX_ROWS`; None where the text is no such pair or longer than
        `MAX_CHARACTERS`.

    Example:
        >>> rows = tokenise('[[["GetSBlock",[],["C","main"],["b0"]],["GetLoops",["b0"],[],["l1","l2"]]],[]]')
        >>> rows.shape[0], rows[1, COLUMN_NAMES.index("argument0.back")].item()
        (2, 1.0)
    """
    if len(trace_json) > MAX_CHARACTERS:
        return None
    try:
        trace = json.loads(trace_json)
    except (ValueError, RecursionError):
        return None
    if not (isinstance(trace, list) and len(trace) == 2 and all(isinstance(part, list) for part in trace)):
        return None
    rows = _rows(trace[0][:MAX_ROWS], _decisions(trace[1]))
    return np.array(rows, np.float32).reshape(-1, len(COLUMN_NAMES))


def _decisions(pairs: list[Any]) -> dict[int, Any]:
    return {
        pair[0]: pair[1]
        for pair in pairs
        if isinstance(pair, list) and len(pair) == 2 and type(pair[0]) is int
    }


def _rows(instructions: list[Any], decisions: dict[int, Any]) -> list[list[float]]:
    made: dict[str, tuple[int, int, float]] = {}
    rows: list[list[float]] = []
    in_postproc = 0.0
    for number, instruction in enumerate(instructions):
        row = [0.0] * len(COLUMN_NAMES)
        rows.append(row)
        row[1] = in_postproc
        if not (isinstance(instruction, list) and len(instruction) == 4 and isinstance(instruction[0], str)):
            continue
        kind, *parts = instruction
        arguments, attributes, results = (part if isinstance(part, list) else [part] for part in parts)
        row[0] = float(_KIND.get(kind, 0))
        texts = _fill_attributes(row, attributes)
        texts += _fill_arguments(row, arguments, number, made)
        row[3] = slog(len(results))
        for i, text in enumerate(texts[:_TEXTS]):
            row[_TEXT0 + i] = _word(text)
        values = _fill_decision(row, decisions[number], attributes) if number in decisions else []
        for i, name in enumerate(results):
            if isinstance(name, str):
                made[name] = (number, i, values[i] if i < len(values) else 0.0)
        if kind == "EnterPostproc":
            in_postproc = 1.0
    return rows


def _fill_attributes(row: list[float], attributes: list[Any]) -> list[str]:
    """Enters the numbers and returns the texts."""
    texts: list[str] = []
    place = _ATTRIBUTE0
    for item in _items(attributes):
        if isinstance(item, str):
            texts.append(item)
        elif place < _ATTRIBUTE0 + _ATTRIBUTES:
            row[place] = _number(item)
            place += 1
    return texts


def _fill_arguments(
    row: list[float], arguments: list[Any], number: int, made: dict[str, tuple[int, int, float]]
) -> list[str]:
    """Enters what the arguments refer to and returns the texts that are no references."""
    texts: list[str] = []
    place = _ARGUMENT0
    count = 0
    for item in _items(arguments):
        count += 1
        found = made.get(item) if isinstance(item, str) else None
        if found is None and isinstance(item, str):
            texts.append(item)
        if place < _ARGUMENT0 + 3 * _ARGUMENTS:
            if found is not None:
                row[place : place + 3] = [float(number - found[0]), float(found[1]), found[2]]
            elif not isinstance(item, str):
                row[place + 2] = _number(item)
            place += 3
    row[2] = slog(count)
    return texts


def _fill_decision(row: list[float], decision: Any, attributes: list[Any]) -> list[float]:
    """Enters the decision and returns the values that it gives to the results."""
    row[_DECISION] = 1.0
    if isinstance(decision, list):
        values = [_number(factor) for factor in _items(decision)]
        row[_FACTOR0 : _FACTOR0 + min(len(values), _FACTORS)] = values[:_FACTORS]
        return values
    if not isinstance(decision, int):
        return []
    row[_DECISION + 1] = float(max(-1024, min(1024, decision)))
    choices = attributes[0] if attributes and isinstance(attributes[0], list) else []
    return [_number(choices[decision])] if 0 <= decision < len(choices) else []


def _items(values: list[Any]) -> Iterator[Any]:
    """The values one after the other, those of lists in their place; no more than `_MAX_ITEMS`."""
    open_ends, left = [iter(values)], _MAX_ITEMS
    while open_ends and left:
        item = next(open_ends[-1], _END)
        if item is _END:
            open_ends.pop()
        elif isinstance(item, list):
            open_ends.append(iter(item))
        else:
            left -= 1
            yield item


_END = object()


def _number(value: Any) -> float:
    return slog(value) if isinstance(value, (int, float)) else 0.0


@functools.lru_cache(maxsize=4096)
def _word(text: str) -> float:
    text = text.strip('"')
    if text in _WORD:
        return float(_WORD[text])
    return float(len(WORDS) + 1 + zlib.crc32(text.encode(errors="replace")) % _OTHER_WORDS)


_WORD = {word: number for number, word in enumerate(WORDS, 1)}

SPEC = FeatureSpec(TRACE_TOKENS, COLUMN_NAMES, extract, extract_candidates, needs_tvm=False)
