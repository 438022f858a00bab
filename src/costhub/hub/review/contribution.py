"""Provides review_contribution: contributed measurements against all rules, and beside what a hub holds."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import pyarrow as pa

from costhub.dataset.check.folder import check_folder
from costhub.dataset.check.report import clean
from costhub.dataset.folder import DataFolder
from costhub.dataset.shards.shard import empty_table
from costhub.errors import DataError
from costhub.hub.review.comparison import COLUMNS, Comparison, compare_device, judge
from costhub.hub.review.verdict import Reason, Verdict

MOST_DIFFERENCE = 1.5
"""Between two probes of one device; the roofline of a contribution is as good as its probe."""
_FIGURES = (
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


def review_contribution(folder: str | Path, held: str | Path | None, *, deep: bool = True) -> Verdict:
    """Judges a data folder.

    Args:
        folder: What was contributed, as plain files.
        held: A data folder with what the hub holds; None where it holds nothing.
        deep: Replay a sample of the traces.

    Returns:
        The verdict. Warnings of the check count, as for those who contribute.

    Raises:
        DataError: One of the two is no data folder.
    """
    links = [path for path in sorted(Path(folder).rglob("*")) if path.is_symlink()]
    if links:
        what = f"{clean(links[0].name, 60)} is a link; a contribution has plain files only."
        return Verdict(str(folder), "dataset", [Reason("refuse", what)])
    findings = check_folder(folder, deep=deep)
    reasons = [Reason("refuse", f"{f.rule} in {f.where}: {f.message} {f.fix}") for f in findings]
    if any(finding.severity == "error" for finding in findings):
        # What cannot be trusted to be read is not read here.
        return Verdict(str(folder), "dataset", reasons, findings)
    try:
        compared, told = _compared(DataFolder.open(folder), None if held is None else DataFolder.open(held))
    except DataError as error:
        return Verdict(str(folder), "dataset", [*reasons, Reason("refuse", str(error))], findings)
    return Verdict(str(folder), "dataset", [*reasons, *told], findings, compared)


def _compared(ours: DataFolder, theirs: DataFolder | None) -> tuple[list[Comparison], list[Reason]]:
    compared = [_compare(ours, theirs, device_id) for device_id in ours.device_ids()]
    reasons = [reason for found in compared for reason in judge(found)]
    if not any(found.rows for found in compared):
        reasons.append(Reason("refuse", "It holds no measurement."))
    if theirs is not None:
        reasons += _other_devices(ours, theirs)
    return compared, reasons


def _compare(ours: DataFolder, theirs: DataFolder | None, device_id: str) -> Comparison:
    held: pa.Table = empty_table("measurements", COLUMNS)
    if theirs is not None and device_id in theirs.device_ids():
        held = theirs.measurements(device_id, columns=COLUMNS)
    return compare_device(device_id, ours.measurements(device_id, columns=COLUMNS), held)


def _other_devices(ours: DataFolder, theirs: DataFolder) -> Iterator[Reason]:
    """Devices described otherwise than in the hub: another device, or a probe that hides a roofline."""
    known = {row["device_id"]: row for row in theirs.devices().to_pylist()}
    for row in ours.devices().to_pylist():
        held = known.get(row["device_id"])
        if held is None:
            continue
        wrong = [name for name in ("kind", "vendor", "microarchitecture") if _differs(row, held, name)]
        wrong += [name for name in _FIGURES if _is_far(row[name], held[name])]
        if wrong:
            yield Reason(
                "refuse",
                f"{clean(row['device_id'], 60)}: {', '.join(wrong)} differ from what the hub knows of it; "
                f"figures within {MOST_DIFFERENCE:g} times were expected. Another device needs another name.",
            )


def _differs(row: Mapping[str, Any], held: Mapping[str, Any], name: str) -> bool:
    return row[name] is not None and held[name] is not None and row[name] != held[name]


def _is_far(value: float | None, known: float | None) -> bool:
    if not value or not known:
        return False
    return abs(math.log(value / known)) > math.log(MOST_DIFFERENCE)
