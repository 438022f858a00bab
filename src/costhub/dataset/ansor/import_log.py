"""Provides import_ansor: logs of Ansor with named workloads into a data folder."""

from __future__ import annotations

import contextlib
import hashlib
import time
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import islice
from pathlib import Path
from typing import Any

from costhub.dataset.ansor.log import AnsorLog, log_files
from costhub.dataset.ansor.named_workloads import parse_key
from costhub.dataset.ansor.replay import read_target, replay_sketches
from costhub.dataset.folder import DataFolder
from costhub.dataset.metaschedule.import_database import prepare_folder, unchanged_credit
from costhub.dataset.metaschedule.import_pool import ImportPool, LoadedWorkload
from costhub.dataset.metaschedule.import_records import ImportSource, OutcomeKey, RecordImporter, outcome_key
from costhub.dataset.metaschedule.import_workloads import ImportedWorkload, ImportedWorkloads
from costhub.dataset.metaschedule.lines import ImportReport, Line, read_lines
from costhub.dataset.operator_class import classify
from costhub.dataset.schema import table_from_rows
from costhub.dataset.workload import workload_row
from costhub.errors import DataError, WorkloadError
from costhub.progress import bar
from costhub.terminal_text import clean

ANSOR = "ansor"
"""What `proposed_by` and `transplanted_from` hold in every row: TVM 0.27 makes the same program from the trace, but the
latency is that of code which an older TVM generated."""
MOST_LINE_BYTES = 1 << 20
_BATCH = 4000
_NONE = "No record in these logs has a workload that can be rebuilt: its key must be a name that costhub knows."


@dataclass(frozen=True)
class LogSource:
    """What a user says about logs."""

    device: Mapping[str, Any]
    """Row of the devices table; its `target` is that of TVM 0.27, as JSON or by its name."""
    contributor: str | None = None
    """Who measured."""
    licence: str | None = None
    """SPDX name of the licence."""
    tvm_version: str | None = None
    """The TVM that compiled the programs."""


def import_ansor(
    path: str | Path, out: str | Path, *, source: LogSource, workers: int | None = None, progress: bool = True
) -> ImportReport:
    """Adds the measurements in logs of Ansor (TVM's auto_scheduler) to a data folder.

    A workload key that is a name and arguments is rebuilt with topi; the transform steps of a tiled GPU program become
    the decisions of MetaSchedule's tiled space, and TVM 0.27 post-processes the schedule. Each record becomes a
    row, or is counted under the reason why it does not. Existing rows stay, so an interrupted import resumes.

    Args:
        path: A log, or a folder of logs, perhaps compressed by gzip or xz.
        out: The data folder; created if missing.
        source: The device, and what is known of the measurements.
        workers: Child processes; one per core by default.
        progress: Shows a bar on a terminal.

    Raises:
        DataError: There is no log, the device has no target, or `out` is not a data folder.
        MeasureError: A child process does not start at all.
    """
    if not source.device.get("target"):
        raise DataError(
            f"The device {source.device['device_id']!r} has no target; give one with its architecture (--target, "
            'target=...), such as {"kind": "cuda", "arch": "sm_70"}.'
        )
    place = Path(path)
    files, report, begun = log_files(place), ImportReport(), time.monotonic()
    total = 2 * sum(file.stat().st_size for file in files)
    with (
        ImportPool(workers, load=build_workload, replay=replay_sketches) as pool,
        bar(total, desc="importing", unit="B", enabled=progress) as shown,
    ):
        keys = _numbered_keys(files, shown)
        device = _with_target(source.device, pool)
        log = AnsorLog(device["target"], keys)
        workloads = _built(keys, pool, source.tvm_version)
        report.workloads = len({workload.workload_id for workload in workloads.found.values()})
        folder = prepare_folder(out, device, workloads)
        with folder.writer(device["device_id"]) as writer:
            session = f"{ANSOR}-{workloads.digest[:12]}"
            shared = ImportSource(device, workloads, source.contributor, source.licence, session, ANSOR, ANSOR)
            held = _outcomes(folder, device["device_id"])
            importer = RecordImporter(
                shared, pool, report, held=held, known=writer.record_keys, parse=log.compared_record
            )
            for file, lines in _batches(files, shown):
                # Every batch becomes a shard: an interruption loses one batch at most.
                writer.extend(table_from_rows("measurements", importer.rows(_label(file, place), lines)))
        report.unchanged = unchanged_credit(folder, shared, report)
        report.peak_bytes = pool.peak_bytes()
    report.contradictions, report.seconds = log.contradictions, time.monotonic() - begun
    return report


def _with_target(device: Mapping[str, Any], pool: ImportPool) -> dict[str, Any]:
    """The device, with its target as JSON of TVM 0.27.

    Raises:
        DataError: TVM does not accept the target, or it is for another kind of device.
    """
    read = pool.call(read_target, str(device["target"]))
    if isinstance(read, str):
        raise DataError(read)
    target, kind = read
    if device.get("kind") not in (None, kind):
        raise DataError(
            f"The device {device['device_id']!r} is of kind {device['kind']!r}, but the target {target:.200} is for "
            f"{kind!r}; give another target or device."
        )
    return {**device, "kind": kind, "target": target}


def _outcomes(folder: DataFolder, device_id: str) -> Counter[OutcomeKey]:
    """How often each outcome is in the folder.

    Raises:
        DataError: The folder has measurements of the device's own code.
    """
    outcomes: Counter[OutcomeKey] = Counter()
    columns = ["workload_id", "status", "run_s", "timestamp", "transplanted_from"]
    for row in folder.measurements(device_id, columns).to_pylist():
        if row["transplanted_from"] != ANSOR:
            raise DataError(
                f"{folder.path} has native measurements of {device_id!r}. Transplanted ones are of another code "
                "generator and cannot be compared with them; give another folder."
            )
        if row["timestamp"] is not None:
            outcomes[outcome_key(row["workload_id"], row["status"], row["run_s"], row["timestamp"])] += 1
    return outcomes


def _label(file: Path, place: Path) -> str:
    """The name of a log in a report."""
    return clean(str(file.relative_to(place) if file != place else file.name), 200)


def build_workload(key: bytes) -> LoadedWorkload | str:
    """The workload of a key, as a row; call it in a child process.

    Returns:
        The workload; or a string that says why there is none.
    """
    try:
        parsed = parse_key(key.decode())
        module = parsed.module()
        return LoadedWorkload(workload_row(module, name=parsed.name, operator=classify(module)), None)
    except (WorkloadError, UnicodeDecodeError) as error:
        return str(error)


def _batches(files: Sequence[Path], shown: Any) -> Iterator[tuple[Path, list[Line]]]:
    for file in files:
        lines, position = read_lines(file, most_bytes=MOST_LINE_BYTES), 0
        while batch := list(islice(lines, _BATCH)):
            yield file, batch
            shown.update(batch[-1].position - position)
            position = batch[-1].position


def _numbered_keys(files: Sequence[Path], shown: Any) -> dict[str, int]:
    """The workload keys in the logs, with the numbers that records will have.

    Raises:
        DataError: There is none that names a workload.
    """
    log = AnsorLog("")
    for _, lines in _batches(files, shown):
        for line in lines:
            with contextlib.suppress(DataError):
                log.record(line.text)
    if not log.keys:
        raise DataError(_NONE)
    return log.keys


def _built(keys: Mapping[str, int], pool: ImportPool, tvm_version: str | None) -> ImportedWorkloads:
    """The workloads of the keys.

    Raises:
        DataError: None could be built.
    """
    workloads = ImportedWorkloads(digest=hashlib.sha256("\n".join(sorted(keys)).encode()).hexdigest())
    for number, reply in enumerate(pool.load([key.encode() for key in keys])):
        if isinstance(reply, LoadedWorkload):
            workloads.found[number] = ImportedWorkload(reply.row, tvm_version)
        else:
            workloads.lost[number] = reply
    if not workloads.found:
        raise DataError(_NONE)
    return workloads
