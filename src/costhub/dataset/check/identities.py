"""Provides the rules on ids, traces and targets: each matches what it refers to, and occurs once."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from costhub.dataset.check.measurements import CheckContext, Ledger, LedgerRule, Mask, RowRule, Rows
from costhub.dataset.check.rule import Rule
from costhub.dataset.shards.layout import UNKNOWN
from costhub.dataset.trace import brings_code, program_id

KEYS = Rule(
    id="CH015",
    title="a device or workload occurs once in its table",
    severity="error",
    fix="Put it into the folder again (DataFolder.put_device, put_workloads): the last one written stays.",
)
_CPU_TARGETS = frozenset({"llvm", "c"})


def repeated_records(ledger: Ledger, context: CheckContext) -> Iterator[tuple[str, Mask]]:
    """Finds record ids that occur again; the next writer removes those of a journal by itself."""
    message = "an earlier row has the same record_id, and every record_id was expected once."
    yield message, _again(ledger, "record", within=~ledger.in_journal)


def repeated_runs(ledger: Ledger, context: CheckContext) -> Iterator[tuple[str, Mask]]:
    """Finds one measurement under several record ids: repeats of a program never agree to the last bit."""
    again = _again(ledger, "program", "device", "run", within=ledger.is_timed)
    message = "an earlier row has the same program, device and run_s, to the last bit, under another record_id."
    yield message, again & ~_again(ledger, "record", within=ledger.is_timed)


def _again(ledger: Ledger, *names: str, within: Mask) -> Mask:
    """(n,) where the values of some fields have occurred in an earlier row."""
    rows = np.flatnonzero(within)
    order = np.lexsort([rows, *(ledger[name][rows] for name in reversed(names))])
    same = np.ones(max(0, len(rows) - 1), bool)
    for name in names:
        values = ledger[name][rows][order]
        same &= values[1:] == values[:-1]
    return ledger.mask([rows[order][1:][same]])


def wrong_programs(rows: Rows) -> Iterator[tuple[str, Mask]]:
    """Recomputes the id of every program."""
    columns = (rows.texts(name) for name in ("program_id", "workload_id", "trace"))
    wrong = [p != program_id(w or "", t or "") for p, w, t in zip(*columns, strict=True)]
    yield "program_id is not the sha256 of workload_id and trace.", np.array(wrong, bool)


def unknown_digits(rows: Rows) -> Iterator[tuple[str, Mask]]:
    """Finds shortened record ids that are not those of their rows."""
    ends = pc.ends_with(rows.column("record_id"), UNKNOWN)
    yield "record_id is not the start of the sha256 of program, device, session and time.", rows.where(ends)


def unknown_workloads(rows: Rows) -> Iterator[tuple[str, Mask]]:
    """Finds measurements whose workload is not described."""
    yield "workload_id is not in the table workloads.", rows.workload < 0


def unknown_devices(rows: Rows) -> Iterator[tuple[str, Mask]]:
    """Finds measurements whose device is not described."""
    yield "device_id is not in the table devices.", rows.device < 0


def misplaced(rows: Rows) -> Iterator[tuple[str, Mask]]:
    """Finds measurements in the folder of another device."""
    here = rows.where(pc.equal(rows.column("device_id"), pa.scalar(rows.device_id)))
    yield "device_id is not the name of the file's folder.", ~here


def bad_traces(rows: Rows) -> Iterator[tuple[str, Mask]]:
    """Finds malformed traces; on some of them TVM crashes instead of raising an error."""
    traces = [_parse(text) for text in rows.texts("trace")]
    bad = [not _is_trace(trace) for trace in traces]
    yield "trace is not JSON of the form [instructions, decisions], which TVM writes.", np.array(bad, bool)
    brings = [not wrong and brings_code(trace[0]) for trace, wrong in zip(traces, bad, strict=True)]
    yield "trace brings code of its own, which runs wherever it is built.", np.array(brings, bool)


def bad_targets(rows: Rows) -> Iterator[tuple[str, Mask]]:
    """Finds targets that are not an object with a kind."""
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
    # A trace has some 50 of them: most of a check's time is spent here, so it avoids a loop of its own.
    if type(value) is not list or len(value) != 4:
        return False
    kind, inputs, attributes, outputs = value
    return (
        type(kind) is str
        and type(inputs) is list
        and type(attributes) is list
        and type(outputs) is list
        and None not in inputs
        and None not in outputs
        and (None not in attributes or (kind == "TransformLayout" and _is_without_padding(attributes)))
    )


def _is_without_padding(attributes: list[Any]) -> bool:
    """Whether they are those of a change of layout that pads nothing: [buffer, type of buffer, null, injective]."""
    return len(attributes) == 4 and attributes[2] is None and attributes.count(None) == 1


def _parse(text: str | None) -> Any:
    try:
        return json.loads(text or "")
    except (ValueError, RecursionError):
        return None


IDENTITY_RULES = (
    LedgerRule(
        id="CH010",
        title="a record_id occurs once",
        severity="error",
        fix="Remove one of the two rows; if they are different measurements, give one of them another id.",
        find=repeated_records,
    ),
    RowRule(
        id="CH011",
        title="a program_id is the hash of its workload and trace",
        severity="error",
        fix="Compute it with costhub.dataset.trace.program_id; if the trace was changed, drop the row.",
        find=wrong_programs,
    ),
    RowRule(
        id="CH012",
        title="the workload of a measurement is described",
        severity="error",
        fix="Add the workload (DataFolder.put_workloads), or remove its measurements.",
        find=unknown_workloads,
        shown="workload_id",
    ),
    RowRule(
        id="CH013",
        title="the device of a measurement is described",
        severity="error",
        fix="Add the device (DataFolder.put_device, costhub probe), or remove its measurements.",
        find=unknown_devices,
        shown="device_id",
    ),
    RowRule(
        id="CH014",
        title="measurements are in the folder of their device",
        severity="error",
        fix="Move the file to the folder of its device, or correct device_id.",
        find=misplaced,
        shown="device_id",
    ),
    KEYS,
    LedgerRule(
        id="CH016",
        title="a measurement has one record_id",
        severity="error",
        fix="Keep one of the rows: copies count a measurement twice and leak from training data into test data.",
        find=repeated_runs,
    ),
    RowRule(
        id="CH059",
        title="a shortened record_id is the start of its measurement's hash",
        severity="error",
        fix="The program, device, session or time of the row was changed, or its id: drop the row.",
        find=unknown_digits,
    ),
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
