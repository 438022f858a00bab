"""Provides the rules on traces and targets: the JSON that TVM reads, and targets that fit the device."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

import numpy as np
import pyarrow.compute as pc

from costhub.dataset.check.rows import Rows
from costhub.dataset.check.rule import Mask, RowRule

_CPU_TARGETS = frozenset({"llvm", "c"})


def bad_traces(rows: Rows) -> Iterator[tuple[str, Mask]]:
    """Finds traces of another form; on some of them TVM does not fail but crash."""
    bad = [not _is_trace(_parse(text)) for text in rows.texts("trace")]
    yield "trace is not the JSON of [instructions, decisions] that TVM writes.", np.array(bad, bool)


def bad_targets(rows: Rows) -> Iterator[tuple[str, Mask]]:
    """Finds targets that are no object with a kind."""
    bad = {text for text in pc.unique(rows.column("target")).to_pylist() if _kind(text) is None}
    mask = np.array([text in bad for text in rows.texts("target")], bool)
    yield 'target is not a JSON object with a "kind".', mask


def foreign_targets(rows: Rows) -> Iterator[tuple[str, Mask]]:
    """Finds targets of another kind of device than the one they were measured on."""
    pairs = list(zip(rows.texts("target"), rows.device.tolist(), strict=True))
    kinds = [row.get("kind") for row in rows.context.devices.values()]
    fits = {(t, d): d < 0 or _fits(_kind(t), kinds[d]) for t, d in set(pairs)}
    bad = np.array([not fits[pair] for pair in pairs], bool)
    yield "target is of another kind than the device, as the table devices describes it.", bad


def _fits(kind: str | None, device_kind: Any) -> bool:
    return kind is None or (kind in _CPU_TARGETS if device_kind == "cpu" else kind == device_kind)


def _kind(text: str | None) -> str | None:
    value = _parse(text)
    kind = value.get("kind") if isinstance(value, dict) else None
    return kind if isinstance(kind, str) else None


def _is_trace(value: Any) -> bool:
    """Whether it has the form of a trace; null or a decision on no instruction would crash TVM."""
    if not (isinstance(value, list) and len(value) == 2 and all(isinstance(part, list) for part in value)):
        return False
    instructions, decisions = value
    numbers = range(len(instructions))
    return all(map(_is_instruction, instructions)) and all(
        isinstance(d, list) and len(d) == 2 and type(d[0]) is int and d[0] in numbers and d[1] is not None
        for d in decisions
    )


def _is_instruction(value: Any) -> bool:
    """Whether it is [kind, inputs, attributes, outputs]."""
    # A trace has some 50 of them: this is where the time of a check goes, so without a loop of its own.
    if type(value) is not list or len(value) != 4:
        return False
    kind, inputs, attributes, outputs = value
    return (
        type(kind) is str
        and type(inputs) is list
        and type(attributes) is list
        and type(outputs) is list
        and None not in inputs
        and None not in attributes
        and None not in outputs
    )


def _parse(text: str | None) -> Any:
    try:
        return json.loads(text or "")
    except (ValueError, RecursionError):
        return None


RULES = (
    RowRule(
        id="CH017",
        title="a trace is the JSON that TVM writes",
        severity="error",
        fix="Write it with costhub.dataset.trace.trace_to_json, or remove the row.",
        find=bad_traces,
    ),
    RowRule(
        id="CH018",
        title="a target is the JSON that TVM reads",
        severity="error",
        fix='Write the target as JSON, such as {"kind": "llvm", "num-cores": 2}.',
        find=bad_targets,
    ),
    RowRule(
        id="CH019",
        title="a target is of the kind of its device",
        severity="error",
        fix="Correct the target of the rows, or the kind of the device.",
        find=foreign_targets,
    ),
)
