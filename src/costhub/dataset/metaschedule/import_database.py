"""Provides import_database: imports a MetaSchedule database, from old or new TVM, into a data folder."""

from __future__ import annotations

import contextlib
import time
from collections.abc import Iterator, Mapping, Sequence, Set
from itertools import islice
from pathlib import Path
from typing import Any

import pyarrow.compute as pc

from costhub.dataset.credit import is_replayed
from costhub.dataset.folder import DataFolder
from costhub.dataset.metaschedule.import_pool import ImportPool, ReplayedTraces
from costhub.dataset.metaschedule.import_records import ImportSource, RecordImporter
from costhub.dataset.metaschedule.import_workloads import (
    GivenName,
    ImportedWorkloads,
    load_workloads,
    name_workloads,
)
from costhub.dataset.metaschedule.lines import (
    BLANK,
    RECORDS_FILE,
    WORKLOADS_FILE,
    ImportReport,
    batches,
    database_file,
    parse_record,
    read_lines,
)
from costhub.dataset.metaschedule.origin import read_origin
from costhub.dataset.metaschedule.sqlite_form import sqlite_as_json, sqlite_files
from costhub.dataset.schema import PROBED, table_from_rows
from costhub.dataset.shards.writer import MeasurementWriter
from costhub.errors import DataError
from costhub.names import refuse_device_name
from costhub.progress import bar

MOST_LINE_BYTES = 8 << 20

_BATCH = 2000


def import_database(
    path: str | Path,
    out: str | Path,
    *,
    device: Mapping[str, Any],
    names: Sequence[GivenName] | None = None,
    contributor: str | None = None,
    licence: str | None = None,
    workers: int | None = None,
    progress: bool = True,
) -> ImportReport:
    """Adds the measurements of a MetaSchedule database to a data folder.

    Existing rows stay, so an interrupted import resumes where it stopped. A line that cannot be imported affects
    only itself; the report counts and lists such lines.

    Args:
        path: A folder with ``database_workload.json`` and ``database_tuning_record.json``, each perhaps
            gzipped, or with the same tables as ``.sqlite``, of TVM 0.10 to 0.27.
        out: The data folder; created if missing.
        device: Row of the devices table for the device that was measured: `device_id` and other known
            columns. Without a `kind` it gets that of the first record. A row in the folder gets what it lacks;
            the report says where it differs.
        names: One per line of ``database_workload.json``: a name, an object with ``name`` and ``networks``,
            or None.
        contributor: Who measured the programs.
        licence: SPDX name of the licence.
        workers: Child processes; one per core by default.
        progress: Show a progress bar on a terminal.

    Raises:
        DataError: `path` has no database or a damaged `ORIGIN_FILE`; or `out` is not a data folder, or has rows of the
            device that were replayed from the logs of another compiler; or the device has no id.
        MeasureError: No child process can be started.
    """
    refuse_unnamed_device(device)
    report, begun = ImportReport(), time.monotonic()
    origins = read_origin(Path(path))
    with database_files(Path(path)) as files, ImportPool(workers) as pool:
        workloads = load_workloads(files[WORKLOADS_FILE], pool, report, names=names, origins=origins)
        report.workloads = len({workload.workload_id for workload in workloads.found.values()})
        row = {**device, "kind": device.get("kind") or _device_kind(files[RECORDS_FILE], pool)}
        if is_replayed(out, row["device_id"]):
            raise DataError(
                f"{out} has measurements of {row['device_id']!r} that were replayed from another compiler's logs. They "
                "cannot be compared with those of a database; give another folder."
            )
        folder = prepare_folder(out, row, workloads, report)
        session = f"metaschedule-{workloads.digest[:12]}"
        source = ImportSource(row, workloads, contributor, licence, session)
        with folder.writer(row["device_id"]) as writer:
            importer = RecordImporter(source, pool, report, known=writer.record_keys)
            _import_records(files[RECORDS_FILE], importer, writer, progress=progress)
        report.unchanged = unchanged_credit(folder, source, importer.known_workloads)
        report.peak_bytes = pool.peak_bytes()
    report.seconds = time.monotonic() - begun
    return report


@contextlib.contextmanager
def database_files(folder: Path) -> Iterator[dict[str, Path]]:
    """The two files of a database, by TVM's names for them; SQLite is converted to JSON while the block runs.

    Args:
        folder: Folder with the files, each perhaps gzipped, or as ``.sqlite``.

    Raises:
        DataError: It does not contain them.
    """
    files = {name: database_file(folder, name) for name in (WORKLOADS_FILE, RECORDS_FILE)}
    missing = [name for name, file in files.items() if file is None]
    if not missing:
        yield {name: file for name, file in files.items() if file is not None}
        return
    tables = sqlite_files(folder)
    if tables is None:
        if not folder.exists():
            raise DataError(f"There is no folder {folder}.")
        if folder.is_file():
            raise DataError(f"{folder} is a file: give the folder of the database, {folder.parent}.")
        raise DataError(
            f"{folder} is not a MetaSchedule database: it lacks {' and '.join(missing)} (plain, gzipped, or as "
            ".sqlite); give the folder that tuning wrote."
        )
    with sqlite_as_json(tables) as written:
        yield written


def _import_records(records: Path, importer: RecordImporter, writer: MeasurementWriter, *, progress: bool) -> None:
    lines = read_lines(records, most_bytes=MOST_LINE_BYTES)
    with bar(records.stat().st_size, desc="importing", unit="B", enabled=progress) as shown:
        for batch in batches(lines, _BATCH):
            # Every batch becomes a shard: an interruption loses one batch at most.
            writer.extend(table_from_rows("measurements", importer.rows(records.name, batch)))
            shown.update(batch[-1].position - shown.n)


def _device_kind(records: Path, pool: ImportPool) -> str:
    """The kind of device in the first record.

    Raises:
        DataError: No record specifies it, or there is none.
    """
    is_empty = True
    for line in islice(read_lines(records, most_bytes=MOST_LINE_BYTES), _BATCH):
        is_empty = is_empty and line.why == BLANK
        with contextlib.suppress(DataError):
            target = parse_record(line.text).target
            reply = next(pool.replay([("", target, ())]))
            if isinstance(reply, ReplayedTraces):
                return reply.device_kind
    if is_empty:
        raise DataError(f"{records} holds no record: the search has measured nothing yet.")
    raise DataError(
        f"No record in {records} says what kind of device it was measured on. In Python, "
        "`device={'device_id': ..., 'kind': 'cuda'}` says it."
    )


def unchanged_credit(folder: DataFolder, source: ImportSource, known: Set[str]) -> dict[str, list[str | None]]:
    """The licence and contributor of earlier imports of these records, if different ones are given now.

    A database that has grown since has another session, so its rows are found by their workloads.

    Args:
        folder: The data folder.
        source: What is given now.
        known: Ids of workloads of which records were in the folder already.
    """
    given = {"licence": source.licence, "contributor": source.contributor}
    given = {name: value for name, value in given.items() if value is not None}
    if not given or not known:
        return {}
    of_these = (pc.field("proposed_by") == source.proposed_by) & pc.field("workload_id").isin(sorted(known))
    rows = folder.select_measurements([source.device["device_id"]], [*given, "proposed_by", "workload_id"], of_these)
    held = {name: [each for each in pc.unique(rows[name]).to_pylist() if each != given[name]] for name in given}
    return {name: values for name, values in held.items() if values}


def refuse_unnamed_device(device: Mapping[str, Any]) -> None:
    """Refuses a row of the devices table without an id.

    Raises:
        DataError: It has none.
    """
    if device.get("device_id") is None:
        raise DataError(
            "The row of the device has no `device_id`. Name the device that was measured, for example "
            "{'device_id': 'nvidia-v100', 'kind': 'cuda'}."
        )


def prepare_folder(
    out: str | Path, device: Mapping[str, Any], workloads: ImportedWorkloads, report: ImportReport
) -> DataFolder:
    """Prepares the data folder, with the device and the workloads in it.

    Args:
        out: The data folder; created if missing.
        device: Row of the devices table. An existing row in the folder gets what it lacks.
        workloads: The workloads of a database or log.
        report: Gets the columns in which the folder describes the device otherwise.

    Raises:
        DataError: The folder describes the device as being of another kind, or its id is no name.
    """
    refuse_device_name(str(device["device_id"]))
    folder = DataFolder.create(out)
    known = {row["device_id"]: row for row in folder.devices().to_pylist()}.get(device["device_id"])
    if known is None:
        folder.put_device(device)
    elif known["kind"] != device["kind"]:
        raise DataError(
            f"{folder.path} describes {device['device_id']!r} as a device of kind {known['kind']!r}, but the import "
            f"is of kind {device['kind']!r}; give another device or folder."
        )
    else:
        report.device_keeps = _complete_device(folder, known, device)
    rows = name_workloads(workloads, folder.workloads().to_pylist())
    if rows:
        folder.put_workloads(rows)
    return folder


def _complete_device(folder: DataFolder, known: Mapping[str, Any], device: Mapping[str, Any]) -> list[str]:
    """Adds to the row of a device what it lacks; returns the given columns that it has already, with other values."""
    [row] = table_from_rows("devices", [device]).to_pylist()
    given = {name: value for name, value in row.items() if value not in (None, []) and value != known[name]}
    # The figures of one probe are never completed by those of another.
    closed = PROBED if known["probed_at"] is not None else ()
    lacking = {name: value for name, value in given.items() if known[name] in (None, []) and name not in closed}
    if lacking:
        folder.put_device({**known, **lacking})
    return [name for name in given if name not in lacking]
