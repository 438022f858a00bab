"""Provides the rules on identities: what a row is called, what it refers to, and that it is there once."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from costhub.dataset.check.context import Context
from costhub.dataset.check.ledger import Ledger
from costhub.dataset.check.rows import Rows
from costhub.dataset.check.rule import LedgerRule, Mask, RowRule, Rule
from costhub.dataset.trace import program_id


def repeated_records(ledger: Ledger, context: Context) -> Iterator[tuple[str, Mask]]:
    """Finds record ids that occur again; the next writer clears a journal's by itself."""
    message = "an earlier row has the same record_id, and every record_id was expected once."
    yield message, _again(ledger, "record", within=~ledger.in_journal)


def repeated_runs(ledger: Ledger, context: Context) -> Iterator[tuple[str, Mask]]:
    """Finds one measurement under several record ids: repeats of a program never agree to the last bit."""
    again = _again(ledger, "program", "device", "run", within=ledger.is_timed)
    message = (
        "an earlier row has the same program, device and run_s, to the last bit, under another record_id."
    )
    yield message, again & ~_again(ledger, "record", within=ledger.is_timed)


def _again(ledger: Ledger, *names: str, within: Mask) -> Mask:
    """Where the values of some fields have occurred in an earlier row."""
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


def unknown_workloads(rows: Rows) -> Iterator[tuple[str, Mask]]:
    """Finds measurements whose workload is not described."""
    yield "workload_id is not in the table workloads.", rows.workload < 0


def unknown_devices(rows: Rows) -> Iterator[tuple[str, Mask]]:
    """Finds measurements whose device is not described."""
    yield "device_id is not in the table devices.", rows.device < 0


def misplaced(rows: Rows) -> Iterator[tuple[str, Mask]]:
    """Finds measurements that lie in the folder of another device."""
    here = rows.where(pc.equal(rows.column("device_id"), pa.scalar(rows.device_id)))
    yield "device_id is not the name of the folder that the file lies in.", ~here


KEYS = Rule(
    id="CH015",
    title="a device or workload occurs once in its table",
    severity="error",
    fix="Put it into the folder again (DataFolder.put_device, put_workloads): the last one written stays.",
)
RULES = (
    LedgerRule(
        id="CH010",
        title="a record_id occurs once",
        severity="error",
        fix="Remove one of the two rows; where they are different measurements, give one another id.",
        find=repeated_records,
    ),
    RowRule(
        id="CH011",
        title="a program_id is the hash of its workload and trace",
        severity="error",
        fix="Compute it with costhub.dataset.trace.program_id; where the trace was changed, drop the row.",
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
        title="measurements lie in the folder of their device",
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
        fix="Keep one of the rows: copies count a measurement twice and leak from training into tests.",
        find=repeated_runs,
    ),
)
