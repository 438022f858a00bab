"""Provides manifest: describes the contents of a MetaSchedule database as JSON values to keep beside it."""

from __future__ import annotations

import json
from collections import Counter
from pathlib import Path
from typing import Any

from costhub.dataset.doctor.examine import DatabaseWorkload, Examination
from costhub.dataset.metaschedule.lines import MOST_FILE_BYTES, RECORDS_FILE, WORKLOADS_FILE, database_file
from costhub.dataset.metaschedule.sqlite_form import sqlite_files
from costhub.errors import DataError
from costhub.files import hash_regular

FORMAT, VERSION = "costhub-database-manifest", 1


def manifest(examination: Examination) -> dict[str, Any]:
    """The manifest of an examined database: identity, files, targets, workloads and counts.

    Args:
        examination: Examination of the database.

    Returns:
        JSON values. `identity` depends only on the contents, the `sha256` of a file on its bytes.

    Raises:
        DataError: A file no longer exists.
    """
    versions = Counter(each.examined.tvm_version or "unknown" for each in examination.distinct)
    failed = sum(record.failed for record in examination.records)
    return {
        "format": FORMAT,
        "version": VERSION,
        "identity": examination.identity,
        "schedules_replayed": examination.is_replayed,
        "files": [_file(path) for path in _files(examination.folder)],
        "targets": [
            {"target": json.loads(target), "records": count} for target, count in examination.targets.most_common()
        ],
        "tvm_versions": dict(sorted(versions.items())),
        "lines": examination.lines,
        "records": len(examination.records),
        "failed": failed,
        "workloads": [workload_values(each) for each in examination.distinct],
        "findings": dict(sorted(examination.log.counts.items())),
    }


def workload_values(workload: DatabaseWorkload) -> dict[str, Any]:
    """A workload of a database as JSON values; latencies are the median of a record's repeats, in microseconds."""
    row = workload.examined.row
    return {
        "workload_id": row["workload_id"],
        "name": workload.name,
        "operator": row["operator"],
        "shapes": json.loads(row["shapes"]),
        "dtypes": row["dtypes"],
        "flop": row["flop"],
        "tvm_version": workload.examined.tvm_version,
        "records": workload.records,
        "failed": workload.failed,
        "best_us": None if workload.best_s is None else workload.best_s * 1e6,
    }


def _files(folder: Path) -> list[Path]:
    files = [database_file(folder, name) for name in (WORKLOADS_FILE, RECORDS_FILE)]
    if None in files:
        return list((sqlite_files(folder) or {}).values())
    return [file for file in files if file is not None]


def _file(path: Path) -> dict[str, Any]:
    sha256, size = hash_regular(path, limit=MOST_FILE_BYTES, error=DataError)
    return {"name": path.name, "bytes": size, "sha256": sha256}
