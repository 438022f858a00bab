"""Provides review_contribution: checks contributed measurements against all rules and compares them with a hub."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from costhub.dataset.check.files import Listing, equal_but_for_case
from costhub.dataset.check.folder import Reader, check_folder
from costhub.dataset.folder import DataFolder
from costhub.dataset.schema import HUB_LICENCES
from costhub.dataset.shards.layout import empty_table
from costhub.errors import DataError
from costhub.hub.catalogue.figures import MOST_DIFFERENCE
from costhub.hub.dataset_documents import data_facts
from costhub.hub.review.comparison import COMPARED_COLUMNS, Comparison, Reason, ReviewVerdict, compare_device, judge
from costhub.terminal_text import clean

_HELD_COLUMNS = (*COMPARED_COLUMNS, "transplanted_from")
_RECORD_COLUMNS = ("record_id", "device_id")
_WORKLOAD_NAMES = ("workload_id", "name")
_DEVICE_FIGURES = (
    "cores",
    "simd_bits",
    "l1d_bytes",
    "l2_bytes",
    "l3_bytes",
    "peak_gflops",
    "l1_gbs",
    "l2_gbs",
    "dram_gbs",
)


MOST_ROWS = 5_000_000
"""Row limit of a contribution; all rows of a device are in memory during the comparison."""
MOST_BYTES = 16 << 30
"""Size limit of its decompressed shards."""


@dataclass(frozen=True)
class _HubTables:
    """The hub's tables that a review reads."""

    devices: Mapping[str, Mapping[str, Any]]
    """Device -> its row."""
    rows: Mapping[str, pa.Table]
    """Device of the contribution -> its rows in the hub, with `_HELD_COLUMNS`."""
    known: pa.Table
    """record_id and device_id of all rows of all devices."""
    workloads: pa.Table
    """workload_id and name of all workloads."""


def review_contribution(
    folder: str | Path, held: str | Path | None, *, deep: bool = True, known: pa.Table | None = None
) -> ReviewVerdict:
    """Judges a data folder.

    Args:
        folder: The contribution, as plain files.
        held: A data folder with the hub's contents; None if the hub is empty.
        deep: Replay a sample of the traces.
        known: record_id and device_id of all rows of the hub, if `held` only has those of some devices.

    Returns:
        The verdict. Warnings of the check count, as in `costhub contribute`.

    Raises:
        DataError: One of the two is not a data folder.
    """
    links = [path for path in sorted(Path(folder).rglob("*")) if path.is_symlink()]
    if links:
        what = f"{clean(links[0].name, 60)} is a link; a contribution has plain files only."
        return ReviewVerdict(str(folder), "dataset", [Reason("refuse", what)])
    with Reader() as reader:
        large = _too_large(Path(folder), reader)
        if large:
            return ReviewVerdict(str(folder), "dataset", [Reason("refuse", large)])
        findings = check_folder(folder, deep=deep, reader=reader)
    reasons = [Reason("refuse", f"{f.rule} in {f.where}: {f.message} {f.fix}") for f in findings]
    if any(finding.severity == "error" for finding in findings):
        # Data with errors are not safe to read here.
        return ReviewVerdict(str(folder), "dataset", reasons, findings)
    ours = DataFolder.open(folder)
    # Outside the `try`: an unreadable hub is not a fault of the contribution.
    theirs = None if held is None else _read_hub(DataFolder.open(held), ours.device_ids(), known)
    try:
        compared, more_reasons = _compared(ours, theirs)
    except DataError as error:
        return ReviewVerdict(str(folder), "dataset", [*reasons, Reason("refuse", str(error))], findings)
    return ReviewVerdict(str(folder), "dataset", [*reasons, *more_reasons], findings, compared)


def _too_large(folder: Path, reader: Reader) -> str:
    """A sentence if the shards decompress to more than a review accepts; the check reports unreadable ones."""
    sizes = [reader.size(source) for source in Listing(folder).sources() if not source.is_journal]
    rows, size = (sum(column) for column in zip((0, 0), *sizes, strict=True))
    if rows <= MOST_ROWS and size <= MOST_BYTES:
        return ""
    return (
        f"It holds {rows:,} rows with {size:,} bytes once decompressed, more than a review accepts "
        f"({MOST_ROWS:,} rows, {MOST_BYTES:,} bytes). Ask for smaller ones."
    )


def _read_hub(theirs: DataFolder, device_ids: Sequence[str], known: pa.Table | None) -> _HubTables:
    common = set(theirs.device_ids()) & set(device_ids)
    return _HubTables(
        {row["device_id"]: row for row in theirs.devices().to_pylist()},
        {device_id: theirs.measurements(device_id, columns=_HELD_COLUMNS) for device_id in common},
        theirs.measurements(columns=_RECORD_COLUMNS) if known is None else known.select(_RECORD_COLUMNS),
        theirs.workloads(_WORKLOAD_NAMES),
    )


def _compared(ours: DataFolder, theirs: _HubTables | None) -> tuple[list[Comparison], list[Reason]]:
    compared = [_compare(ours, theirs, device_id) for device_id in ours.device_ids()]
    reasons = [reason for comparison in compared for reason in judge(comparison)]
    rows = sum(comparison.rows for comparison in compared)
    if not rows:
        reasons.append(Reason("refuse", "It holds no measurement."))
    elif rows == sum(comparison.replayed for comparison in compared):
        reasons.append(Reason("refuse", f"The hub already holds all of the rows ({rows:,})."))
    reasons += _unshareable_licences(ours)
    if theirs is not None:
        reasons += [*_records_of_other_devices(ours, theirs), *_devices_described_otherwise(ours, theirs)]
        reasons += _names_almost_the_same(ours, theirs)
    reasons += [reason for device_id in ours.device_ids() for reason in _code_of_two_compilers(ours, theirs, device_id)]
    return compared, reasons


def _code_of_two_compilers(ours: DataFolder, theirs: _HubTables | None, device_id: str) -> Iterator[Reason]:
    """Refuses rows of TVM's own code beside rows replayed from another compiler's logs, and the reverse."""
    tables = [ours.measurements(device_id, columns=["transplanted_from"])]
    if theirs is not None and device_id in theirs.rows:
        tables.append(theirs.rows[device_id])
    if len({code is None for table in tables for code in pc.unique(table["transplanted_from"]).to_pylist()}) > 1:
        yield Reason(
            "refuse",
            f"{clean(device_id, 60)}: some rows are of TVM's own code, others were replayed from another compiler's "
            "logs, and their latencies cannot be compared. A dataset holds one kind.",
        )


def _compare(ours: DataFolder, theirs: _HubTables | None, device_id: str) -> Comparison:
    none: pa.Table = empty_table("measurements", COMPARED_COLUMNS)
    held = none if theirs is None else theirs.rows.get(device_id, none)
    return compare_device(device_id, ours.measurements(device_id, columns=COMPARED_COLUMNS), held)


def _unshareable_licences(ours: DataFolder) -> Iterator[Reason]:
    """Licences that do not allow a hub to share rows; `costhub contribute` rejects them, other clients may not."""
    for licence in data_facts(ours.path).licences:
        if licence.lower() not in HUB_LICENCES:
            yield Reason(
                "refuse",
                f"Rows have the licence {clean(licence, 40)!r}; a hub accepts {', '.join(sorted(HUB_LICENCES))}.",
            )


def _records_of_other_devices(ours: DataFolder, theirs: _HubTables) -> Iterator[Reason]:
    """Records that the hub has for another device: readers take every record once, so one would be hidden."""
    for device_id in ours.device_ids():
        others = theirs.known.filter(pc.not_equal(theirs.known["device_id"], device_id))["record_id"]
        names = ours.measurements(device_id, columns=["record_id"])["record_id"]
        count = pc.sum(pc.is_in(names, value_set=others.combine_chunks())).as_py()
        if count:
            yield Reason(
                "refuse",
                f"{clean(device_id, 60)}: {count:,} rows have the record_id of rows of another device in the hub.",
            )


def _devices_described_otherwise(ours: DataFolder, theirs: _HubTables) -> Iterator[Reason]:
    """Devices described differently from the hub: another device, or a probe that hides a roofline."""
    for row in ours.devices().to_pylist():
        held = theirs.devices.get(row["device_id"])
        if held is None:
            continue
        other = [name for name in ("kind", "vendor", "microarchitecture") if _differs(row, held, name)]
        far = [name for name in _DEVICE_FIGURES if _is_far(row[name], held[name])]
        wrong = [name for name in far if row[name]]
        if lacking := [name for name in far if not row[name]]:
            yield Reason(
                "refuse",
                f"{clean(row['device_id'], 60)}: the contribution lacks the device's {', '.join(lacking)}. On the "
                "device, run `costhub probe --out FOLDER`, then contribute again.",
            )
        if other:
            yield Reason(
                "refuse",
                f"{clean(row['device_id'], 60)}: {_differ([*other, *wrong])} from the hub's row, so this is "
                "another device. Measure it under another name.",
            )
        elif wrong:
            yield Reason(
                "refuse",
                f"{clean(row['device_id'], 60)}: {_differ(wrong)} from the hub's row; "
                f"figures within {MOST_DIFFERENCE:g} times were expected. Another device needs another name; for the "
                "same device, repeat the probe that other programs disturbed with `costhub probe --out FOLDER`, which "
                "is the folder of the contribution, or that of the dataset.",
            )


def _names_almost_the_same(ours: DataFolder, theirs: _HubTables) -> Iterator[Reason]:
    """Names that differ from the hub's only in case: many disks and most readers treat them as the same."""
    workloads = ours.workloads(_WORKLOAD_NAMES)
    pairs = [(workloads[column].to_pylist(), theirs.workloads[column].to_pylist()) for column in _WORKLOAD_NAMES]
    pairs.append((ours.device_ids(), [*theirs.devices, *theirs.rows]))
    for new, held in pairs:
        alike = sorted(set(equal_but_for_case({*new, *held})) & set(new))
        if alike:
            yield Reason(
                "refuse",
                f"{clean(alike[0], 60)} differs from a name in the hub in upper and lower case only.",
            )


def _differ(columns: Sequence[str]) -> str:
    """The columns and the verb of a sentence."""
    return f"{', '.join(columns)} {'differs' if len(columns) == 1 else 'differ'}"


def _differs(row: Mapping[str, Any], held: Mapping[str, Any], name: str) -> bool:
    return row[name] is not None and held[name] is not None and row[name] != held[name]


def _is_far(value: float | None, reference: float | None) -> bool:
    if not reference or not reference > 0:
        return False
    # A missing figure would disable its roofline.
    return not value or not reference / MOST_DIFFERENCE <= value <= reference * MOST_DIFFERENCE
