"""Provides the feature layout trace_tokens@1: a schedule trace as a sequence, one row per instruction.

After Zhai et al., *TLP: A Deep Learning-based Cost Model for Tensor Program Tuning* (ASPLOS 2023), which feeds the
schedule primitives of a program to an attention model and ignores the code. Here the text of a trace becomes numbers
without TVM, in the order of the instructions: the kind as a number, the reference of each argument as steps back in the
trace, the decisions as log2, names as numbers of a fixed vocabulary.
"""

from __future__ import annotations

import functools
import zlib
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from costhub.dataset.features.spec import Features, FeatureSpec, slog
from costhub.dataset.programs import FloatArray
from costhub.dataset.trace import decision_pairs, plain, read_trace, trace_parts

TRACE_TOKENS = "trace_tokens@1"

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
"""Texts with their own numbers, from 1; 0 means no text. All other texts share the 32 numbers after these."""

OTHER_WORDS = 32
TEXT_NUMBERS = len(WORDS) + OTHER_WORDS
"""The largest number for a text."""
ARGUMENTS, ATTRIBUTES, FACTORS, TEXTS = 8, 8, 8, 2

COLUMN_NAMES: tuple[str, ...] = (
    "kind",
    "in_postproc",
    "n_arguments",
    "n_results",
    *(f"argument{i}.{part}" for i in range(ARGUMENTS) for part in ("back", "result", "value")),
    *(f"text{i}" for i in range(TEXTS)),
    *(f"attribute{i}" for i in range(ATTRIBUTES)),
    "has_decision",
    "choice",
    *(f"factor{i}" for i in range(FACTORS)),
)
"""The names of the columns.

`kind` and `text` are numbers of the vocabularies. `back` counts the instructions since the one that made the
argument (0 if it is not a reference), `result` is the index among that instruction's results. `choice` is the
decision of SampleCategorical or SampleComputeLocation, unscaled, within +-1024. `value` (a number, or a
reference to a sampled number), `attribute`, `factor` (of a tile) and the counts are log2(|x| + 1) with the
sign of x. Values beyond the columns are left out.
"""

KIND_NUMBERS = {kind: number for number, kind in enumerate(KINDS, 1)}
KIND_NUMBERS["GetBlock"] = KIND_NUMBERS["GetSBlock"]  # its name until TVM 0.23
WORD_NUMBERS = {word: number for number, word in enumerate(WORDS, 1)}
ARGUMENT0 = COLUMN_NAMES.index("argument0.back")
TEXT0 = COLUMN_NAMES.index("text0")
ATTRIBUTE0 = COLUMN_NAMES.index("attribute0")
DECISION = COLUMN_NAMES.index("has_decision")
FACTOR0 = COLUMN_NAMES.index("factor0")

MAX_ROWS = 512
"""Most instructions read per trace; traces of a search have up to about 130."""

_MAX_ITEMS = 64
_WIDTH = len(COLUMN_NAMES)
_END = object()


@dataclass
class _Sampler:
    """The cells of the rows that the decision of one instruction fills."""

    choices: list[Any]
    """The choices of a decision that is one number."""
    uses: list[tuple[int, int]] = field(default_factory=list)
    """(result, cell) for each argument that is a result of the instruction; cells count row by row."""


@dataclass(frozen=True)
class TraceSkeleton:
    """The rows of a trace from its instructions alone.

    The mutators of a search change only decisions, so many candidates share their instructions. A list of
    instructions is read once, and each candidate's decisions are filled into a copy of the rows.
    """

    rows: FloatArray
    """(instructions, width) rows of the trace without its decisions."""
    samplers: dict[int, _Sampler]
    """By number of the instruction; absent for one that could not be read."""

    @classmethod
    def read(cls, instructions: Sequence[Any]) -> TraceSkeleton:
        """Reads instructions, each a list of kind, arguments, attributes and results as in the JSON.

        Any values are allowed: anything that is not an instruction gets a row of zeros.
        """
        rows: list[list[float]] = []
        samplers: dict[int, _Sampler] = {}
        results_of: dict[str, tuple[int, int]] = {}
        in_postproc = 0.0
        for number, instruction in enumerate(instructions):
            row = [0.0] * _WIDTH
            rows.append(row)
            row[1] = in_postproc
            if not (isinstance(instruction, list) and len(instruction) == 4 and isinstance(instruction[0], str)):
                continue
            kind, *parts = instruction
            arguments, attributes, results = (part if isinstance(part, list) else [part] for part in parts)
            row[0] = float(KIND_NUMBERS.get(kind, 0))
            texts = _fill_attributes(row, attributes)
            texts += _fill_arguments(row, arguments, number, results_of, samplers)
            row[3] = slog(len(results))
            for i, text in enumerate(texts[:TEXTS]):
                row[TEXT0 + i] = _text_number(text)
            has_choices = bool(attributes) and isinstance(attributes[0], list)
            samplers[number] = _Sampler(attributes[0] if has_choices else [])
            results_of |= {name: (number, i) for i, name in enumerate(results) if isinstance(name, str)}
            if kind == "EnterPostproc":
                in_postproc = 1.0
        return cls(np.array(rows, np.float32).reshape(-1, _WIDTH), samplers)

    def decided(self, decisions: Mapping[int, Any]) -> FloatArray:
        """(instructions, width) rows of the trace with these decisions, by number of the instruction."""
        cells: list[int] = []
        entries: list[float] = []
        for number, decision in decisions.items():
            sampler = self.samplers.get(number)
            if sampler is None:
                continue
            first = number * _WIDTH + DECISION
            cells.append(first)
            entries.append(1.0)
            if isinstance(decision, list):
                values = [_number(factor) for factor in _items(decision)]
                cells += range(first + FACTOR0 - DECISION, first + FACTOR0 - DECISION + min(len(values), FACTORS))
                entries += values[:FACTORS]
            elif isinstance(decision, int):
                cells.append(first + 1)
                entries.append(float(max(-1024, min(1024, decision))))
                is_choice = 0 <= decision < len(sampler.choices)
                values = [_number(sampler.choices[decision])] if is_choice else []
            else:
                continue
            for result, cell in sampler.uses:
                if result < len(values):
                    cells.append(cell)
                    entries.append(values[result])
        rows = self.rows.copy()
        rows.reshape(-1)[cells] = entries
        return rows


def _fill_attributes(row: list[float], attributes: list[Any]) -> list[str]:
    """Fills in the numbers and returns the texts."""
    texts: list[str] = []
    place = ATTRIBUTE0
    for item in _items(attributes):
        if isinstance(item, str):
            texts.append(item)
        elif place < ATTRIBUTE0 + ATTRIBUTES:
            row[place] = _number(item)
            place += 1
    return texts


def _fill_arguments(
    row: list[float],
    arguments: list[Any],
    number: int,
    results: Mapping[str, tuple[int, int]],
    samplers: Mapping[int, _Sampler],
) -> list[str]:
    """Fills in the references and numbers among the arguments and returns the other texts."""
    texts: list[str] = []
    place = ARGUMENT0
    count = 0
    for item in _items(arguments):
        count += 1
        origin = results.get(item) if isinstance(item, str) else None
        if origin is None and isinstance(item, str):
            texts.append(item)
        if place < ARGUMENT0 + 3 * ARGUMENTS:
            if origin is not None:
                source, result = origin
                row[place : place + 2] = [float(number - source), float(result)]
                samplers[source].uses.append((result, number * _WIDTH + place + 2))
            elif not isinstance(item, str):
                row[place + 2] = _number(item)
            place += 3
    row[2] = slog(count)
    return texts


def _items(values: list[Any]) -> Iterator[Any]:
    """Yields the values in order, with lists flattened; at most `_MAX_ITEMS`."""
    stack, left = [iter(values)], _MAX_ITEMS
    while stack and left:
        item = next(stack[-1], _END)
        if item is _END:
            stack.pop()
        elif isinstance(item, list):
            stack.append(iter(item))
        else:
            left -= 1
            yield item


def _number(value: Any) -> float:
    return slog(value) if isinstance(value, (int, float)) else 0.0


@functools.lru_cache(maxsize=4096)
def _text_number(text: str) -> float:
    text = text.strip('"')
    if text in WORD_NUMBERS:
        return float(WORD_NUMBERS[text])
    return float(len(WORDS) + 1 + zlib.crc32(text.encode(errors="replace")) % OTHER_WORDS)


def extract(mod: Any, traces: Sequence[str], target: str) -> Features:
    """Computes one (instructions, width) array per trace without TVM, or None for a text that is not one."""
    del mod, target
    return [tokenise(trace) for trace in traces]


def extract_candidates(context: Any, candidates: Sequence[Any]) -> Features:
    """Computes the features of the scheduled candidates of a search.

    Most candidates share their instructions with others and differ only in decisions, so each list of
    instructions is read once.
    """
    import tvm_ffi

    del context
    skeletons: dict[Any, TraceSkeleton] = {}
    features: Features = []
    for candidate in candidates:
        instructions, decisions = trace_parts(candidate.sch.trace)
        key = tvm_ffi.StructuralKey(instructions)  # type: ignore[call-arg]  # its stub expects the hash as well
        if key not in skeletons:
            skeletons[key] = TraceSkeleton.read(plain(instructions)[:MAX_ROWS])
        features.append(skeletons[key].decided(dict(decision_pairs(plain(decisions)))))
    return features


def tokenise(trace_json: str) -> FloatArray | None:
    """Computes the rows of a trace; any text is allowed, and TVM is not needed.

    Args:
        trace_json: The pair of instructions and decisions as JSON.

    Returns:
        (instructions, width) rows, at most `MAX_ROWS`; None if `read_trace` returns None.

    Example:
        >>> rows = tokenise('[[["GetSBlock",[],["C","main"],["b0"]],["GetLoops",["b0"],[],["l1","l2"]]],[]]')
        >>> rows.shape[0], rows[1, COLUMN_NAMES.index("argument0.back")].item()
        (2, 1.0)
    """
    trace = read_trace(trace_json)
    if trace is None:
        return None
    instructions, decisions = trace
    return TraceSkeleton.read(instructions[:MAX_ROWS]).decided(dict(decision_pairs(decisions)))


SPEC = FeatureSpec(TRACE_TOKENS, COLUMN_NAMES, extract, extract_candidates, needs_tvm=False)
