"""Provides load_workloads: the workloads of a database by their number, and those lines that are none."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from itertools import islice
from pathlib import Path
from typing import Any

from costhub.dataset.metaschedule.children import Children
from costhub.dataset.metaschedule.lines import BLANK, Line, read_lines
from costhub.dataset.metaschedule.naming import Given, Naming, made_name, parse_names, unique_name
from costhub.dataset.metaschedule.record import Arguments
from costhub.dataset.metaschedule.report import ImportReport
from costhub.dataset.metaschedule.service import LoadedWorkload
from costhub.errors import DataError

MOST_LINE_BYTES = 64 << 20

_BATCH = 64


@dataclass
class ImportedWorkload:
    """A workload of the database that TVM 0.27 can hold."""

    row: dict[str, Any]
    """Its row of the workloads table; the name is empty where the user gave none."""
    tvm_version: str | None
    """The version of TVM that wrote it, where it says."""
    is_named: bool = False
    """Whether the user gave a name or networks."""

    def name(self, naming: Naming) -> None:
        """Takes what the user says about it."""
        networks = [{"name": network, "weight": weight} for network, weight in naming.networks]
        self.row |= {"name": naming.name or "", "networks": networks}
        self.is_named = bool(naming.name or naming.networks)

    @property
    def workload_id(self) -> str:
        """Its id."""
        return str(self.row["workload_id"])

    @cached_property
    def arguments(self) -> Arguments:
        """(dtype, shape) of each argument."""
        shapes = [tuple(shape) for shape in json.loads(self.row["shapes"])]
        return tuple(zip(self.row["dtypes"], shapes, strict=True))


@dataclass
class ImportedWorkloads:
    """The workloads of a database."""

    found: dict[int, ImportedWorkload] = field(default_factory=dict)
    """By their number in the database, from 0."""
    lost: dict[int, int] = field(default_factory=dict)
    """The line of each one that could not be read, by its number."""
    digest: str = ""
    """64 hex digits that name the database."""


def load_workloads(
    path: Path, children: Children, report: ImportReport, *, names: Sequence[Given] | None
) -> ImportedWorkloads:
    """Reads every workload of a database.

    Raises:
        DataError: The file cannot be read or holds no workload, or the names do not fit.
    """
    workloads, digest = ImportedWorkloads(), hashlib.sha256()
    numbered = enumerate(_workload_lines(path, report))
    while batch := list(islice(numbered, _BATCH)):
        for (number, line), reply in zip(batch, children.load([line.text for _, line in batch]), strict=True):
            digest.update(line.text + b"\n")
            if isinstance(reply, LoadedWorkload):
                workloads.found[number] = ImportedWorkload(reply.row, reply.tvm_version)
            else:
                workloads.lost[number] = line.number
                report.refuse(path.name, line.number, line.why or reply)
    if not workloads.found:
        said = f" Line {report.refusals[0].line}: {report.refusals[0].why}." if report.refusals else ""
        raise DataError(f"{path} holds no workload that TVM 0.27 can read.{said}")
    workloads.digest = digest.hexdigest()
    for number, naming in enumerate(parse_names(names, len(workloads.found) + len(workloads.lost))):
        if number in workloads.found:
            workloads.found[number].name(naming)
    return workloads


def _workload_lines(path: Path, report: ImportReport) -> Iterator[Line]:
    for line in read_lines(path, most_bytes=MOST_LINE_BYTES):
        # A blank line is no workload to those who number them; one that cannot be read is.
        if line.why == BLANK:
            report.refuse(path.name, line.number, BLANK)
        else:
            yield line


def name_workloads(workloads: ImportedWorkloads, there: Sequence[Mapping[str, Any]]) -> list[dict[str, Any]]:
    """The rows that a folder lacks, each workload once and with a name of its own.

    Args:
        workloads: Those of a database.
        there: Rows that the folder has; one of them is replaced only where the user names its workload.
    """
    known = {row["workload_id"]: row["name"] for row in there}
    rows: dict[str, dict[str, Any]] = {}
    for workload in workloads.found.values():
        key = workload.workload_id
        if key in rows or (key in known and not workload.is_named):
            continue
        taken = {name for other, name in known.items() if other != key}
        known[key] = unique_name(workload.row["name"] or made_name(workload.row), taken)
        rows[key] = workload.row | {"name": known[key]}
    return list(rows.values())
