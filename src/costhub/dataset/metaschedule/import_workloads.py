"""Provides load_workloads: loads the workloads of a database by number, with their names."""

from __future__ import annotations

import hashlib
import json
import math
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from types import MappingProxyType
from typing import Any

from costhub.dataset.metaschedule.import_pool import ImportPool, LoadedWorkload
from costhub.dataset.metaschedule.lines import BLANK, Arguments, ImportReport, Line, batches, read_lines
from costhub.dataset.workload import join_networks
from costhub.errors import DataError

GivenName = str | Mapping[str, Any] | None
MOST_LINE_BYTES = 64 << 20
MOST_WORKLOADS = 100_000
"""Of a database, copies included: each is kept in memory."""
MOST_WORKLOADS_BYTES = 1 << 30
"""The same, of all their lines together."""
_BATCH_LINES = 64
_UNKNOWN: Mapping[str, str | None] = MappingProxyType({})


@dataclass(frozen=True)
class WorkloadNaming:
    """User-supplied name and networks for the workload on one line of a database."""

    name: str | None = None
    """None to generate a name."""
    networks: tuple[tuple[str, float], ...] = ()
    """(network, how often it has the workload)."""

    @classmethod
    def parse(cls, given: GivenName, number: int) -> WorkloadNaming:
        """Reads entry `number`, from 0, of a list of names.

        Raises:
            DataError: It is neither a string nor an object with a name and perhaps networks, or a weight of a network
                is not a finite number above 0.

        Example:
            >>> WorkloadNaming.parse({"name": "resnet18_C1", "networks": {"resnet18": 1}}, 0).networks
            (('resnet18', 1.0),)
        """
        entry: Any = {"name": given} if isinstance(given, str) or given is None else given
        try:
            name, networks = entry["name"], entry.get("networks") or {}
            weights = tuple((_name_text(network), float(weight)) for network, weight in networks.items())
            if not all(0 < weight < math.inf for _, weight in weights):  # nor NaN
                raise ValueError(weights)
            return cls(None if name is None else _name_text(name), weights)
        except (KeyError, TypeError, ValueError, AttributeError) as error:
            raise DataError(
                f"Entry {number} of the names is {given!r:.80}; expected a name, or an object such as "
                '{"name": "resnet18_C1", "networks": {"resnet18": 1}}, with numbers above 0.'
            ) from error


def parse_names(names: Sequence[GivenName] | None, workloads: int) -> list[WorkloadNaming]:
    """Reads the names of a database's workloads, one per line.

    Raises:
        DataError: Their number differs from that of the workloads in the database, or one cannot be read.
    """
    if names is None:
        return [WorkloadNaming()] * workloads
    if len(names) != workloads:
        raise DataError(
            f"The number of names ({len(names)}) differs from that of workloads ({workloads}); give one per line of "
            "database_workload.json, null to generate a name."
        )
    return [WorkloadNaming.parse(given, number) for number, given in enumerate(names)]


def default_name(row: Mapping[str, Any]) -> str:
    """A name made from a workload's operator and the shapes of its arguments.

    Example:
        >>> default_name({"operator": "matmul", "shapes": "[[8, 4], [4, 2], [8, 2]]"})
        'matmul_8x4_4x2_8x2'
    """
    shapes = ["x".join(map(str, shape)) or "scalar" for shape in json.loads(row["shapes"])]
    return "_".join([row["operator"], *shapes])


class UniqueNames:
    """Makes names unique with a number behind those that are taken.

    Args:
        taken: Names that are in use, as often as they are.

    Example:
        >>> names = UniqueNames(["matmul", "matmul_2"])
        >>> [names.take("matmul"), names.take("matmul"), names.take("softmax")]
        ['matmul_3', 'matmul_4', 'softmax']
    """

    def __init__(self, taken: Iterable[str] = ()) -> None:
        self._taken = Counter(taken)
        self._next: dict[str, int] = {}

    def take(self, name: str) -> str:
        """The name, with the smallest number of 2 or more that makes it unique if it is taken; it is taken then."""
        found = name
        if name in self._taken:
            number = self._next.get(name, 2)  # a million copies of a workload would try all numbers each time
            while (found := f"{name}_{number}") in self._taken:
                number += 1
            self._next[name] = number + 1
        self._taken[found] += 1
        return found

    def release(self, name: str) -> None:
        """Gives a name back."""
        self._taken[name] -= 1
        if not self._taken[name]:
            del self._taken[name]
        self._next.clear()


def _name_text(value: Any) -> str:
    if not isinstance(value, str) or not value.strip():
        raise ValueError(value)
    value.encode()
    return value


@dataclass
class ImportedWorkload:
    """A workload of the database that TVM 0.27 supports."""

    row: dict[str, Any]
    """Its row in the workloads table; the name is empty if the user gave none."""
    tvm_version: str | None
    """The version of TVM that wrote it, if known."""
    is_named: bool = False
    """Whether the user gave a name or networks."""

    def name(self, naming: WorkloadNaming) -> None:
        """Sets the name and networks that the user gave."""
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
    lost: dict[int, str] = field(default_factory=dict)
    """Why each of the others could not be read, by number."""
    digest: str = ""
    """64 hex digits that name the database."""


def loaded_workloads(lines: Iterable[Line], pool: ImportPool) -> Iterator[tuple[Line, Any]]:
    """Each line of a file of workloads, and what a child makes of it; a batch at a time.

    Args:
        lines: The lines.
        pool: Its children read them.

    Raises:
        DataError: They are more than `MOST_WORKLOADS`, or take more than `MOST_WORKLOADS_BYTES`.
    """
    count, size = 0, 0
    for batch in batches(lines, _BATCH_LINES):
        count += len(batch)
        size += sum(len(line.text) for line in batch)
        if count > MOST_WORKLOADS:
            raise DataError(
                f"The database has more than {MOST_WORKLOADS:,} workloads, far more than any search writes."
            )
        if size > MOST_WORKLOADS_BYTES:
            raise DataError(
                f"The workloads of the database take more than {MOST_WORKLOADS_BYTES:,} bytes, far more than those of "
                "any search; each is kept in memory."
            )
        yield from zip(batch, pool.load([line.text for line in batch]), strict=True)


def load_workloads(
    path: Path,
    pool: ImportPool,
    report: ImportReport,
    *,
    names: Sequence[GivenName] | None,
    origins: Mapping[str, str | None] = _UNKNOWN,
) -> ImportedWorkloads:
    """Reads every workload of a database.

    Args:
        path: The file of workloads.
        pool: Reads them.
        report: Collects the rejected lines.
        names: As for `import_database`.
        origins: Id of a workload -> the TVM that wrote it before it was rewritten (`read_origin`).

    Raises:
        DataError: The file cannot be read or holds no workload, or the names do not fit.
    """
    workloads, digest = ImportedWorkloads(), hashlib.sha256()
    rows: dict[str, dict[str, Any]] = {}
    for number, (line, reply) in enumerate(loaded_workloads(_workload_lines(path, report), pool)):
        digest.update(line.text + b"\n")
        if isinstance(reply, LoadedWorkload):
            key = str(reply.row["workload_id"])
            # Copies share the text of the first one, which may have megabytes.
            workloads.found[number] = ImportedWorkload(
                dict(rows.setdefault(key, reply.row)), origins.get(key, reply.tvm_version)
            )
        else:
            workloads.lost[number] = f"its workload (line {line.number}) could not be imported"
            report.refuse(path.name, line.number, line.why or reply)
    if not workloads.found:
        example = f" Line {report.refusals[0].line}: {report.refusals[0].why}." if report.refusals else ""
        raise DataError(f"{path} holds no workload that TVM 0.27 can read.{example}")
    workloads.digest = digest.hexdigest()
    for number, naming in enumerate(parse_names(names, len(workloads.found) + len(workloads.lost))):
        if number in workloads.found:
            workloads.found[number].name(naming)
    return workloads


def _workload_lines(path: Path, report: ImportReport) -> Iterator[Line]:
    for line in read_lines(path, most_bytes=MOST_LINE_BYTES):
        # A blank line does not count as a workload; one that cannot be read does.
        if line.why == BLANK:
            report.refuse(path.name, line.number, BLANK)
        else:
            yield line


def name_workloads(workloads: ImportedWorkloads, there: Sequence[Mapping[str, Any]]) -> list[dict[str, Any]]:
    """Returns the rows missing from a folder, each workload once and with a unique name.

    Args:
        workloads: The workloads of a database.
        there: Existing rows of the folder; one is replaced only if the user names its workload or networks. It keeps
            its networks, and its name if none is given.
    """
    networks = {row["workload_id"]: row["networks"] for row in there}
    names = {row["workload_id"]: row["name"] for row in there}
    unique = UniqueNames(names.values())
    rows: dict[str, dict[str, Any]] = {}
    for workload in workloads.found.values():
        key = workload.workload_id
        if key in rows or (key in names and not workload.is_named):
            continue
        if workload.row["name"] or not names.get(key):
            if key in names:
                unique.release(names[key])
            names[key] = unique.take(workload.row["name"] or default_name(workload.row))
        joined = join_networks(networks.get(key), workload.row["networks"])
        rows[key] = workload.row | {"name": names[key], "networks": joined}
    return list(rows.values())
