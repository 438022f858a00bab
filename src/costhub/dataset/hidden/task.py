"""Provides HiddenTask: measured programs without their latencies, which whoever scores keeps in a file apart.

A task is a folder: `task.json` says what it is and holds the hash of the latencies, `programs.jsonl` and
`workloads.jsonl` hold what a model may read. Lines are in the order of random-looking ids, so that neither order nor
columns say anything about a latency.
"""

from __future__ import annotations

import csv
import hashlib
import io
import json
import shutil
import statistics
import sys
from collections.abc import Iterator, Mapping, Sequence, Set
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa

from costhub.dataset.blocks import DeviceFeatures, ProgramBlock, name_codes
from costhub.dataset.features.compute import Chunk, chunks_of_rows
from costhub.dataset.features.program_key import KEY_COLUMNS, ProgramKeys
from costhub.dataset.folder import DataFolder, among, first_of_each
from costhub.dataset.latency import median_latency_s
from costhub.dataset.programs import IntArray, Programs, workload_uses
from costhub.errors import ArgumentError, DataError
from costhub.files import open_regular, read_regular, refuse_newer, write_replacing
from costhub.names import is_plain_name
from costhub.terminal_text import Printed

TASK_VERSION = 1
"""Raised with every change that makes older tasks unreadable."""
TASK, PROGRAMS, WORKLOADS = "task.json", "programs.jsonl", "workloads.jsonl"
LATENCY_COLUMNS = ("device_id", "workload_id", "program_id", "latency_s")
MOST_BYTES = 1 << 30
"""A program takes some 3 kB of text."""
MOST_PROGRAMS, MOST_WORKLOADS = 250_000, 100_000
"""The features of all programs of a task are held at once."""
_MOST_TASK = 16 << 20
"""Of `task.json`, which describes devices: as JSON, a few bytes may become a hundred."""
_MOST_LINE = 64 << 20
"""Of a workload as JSON: as long as in a database that is imported."""
_PROGRAM = ("device_id", "workload_id", "program_id", "target", "trace")
_WORKLOAD = ("workload_id", "name", "operator", "shapes", "dtypes", "flop", "bytes", "module_json", "networks")
_TEXTS = ("device_id", "workload_id", "program_id", "target", "trace", "module_json")
_SHARED = ("device_id", "workload_id", "target")
"""Texts that many programs have in common."""
_MOST_DEVICE_ID = 121
"""Characters: the feature cache has folders of these names."""
_Row = Mapping[str, Any]
Key = tuple[str, str]
"""Device id and program id: one program of a task."""


@dataclass(frozen=True, repr=False)
class HiddenTask(Printed):
    """Programs to score; their latencies are not here.

    Open one with `HiddenTask.open`, make one with `hide_latencies`.
    """

    path: Path
    name: str
    latencies_sha256: str
    """Hash of the file with the latencies: once it is published, everybody can see that nothing was changed."""
    devices: Mapping[str, _Row]
    """Device id -> its row of the devices table."""
    rows: tuple[_Row, ...]
    """One per program: `device_id`, `workload_id`, `program_id`, `target`, `trace`."""
    workloads: Mapping[str, _Row]
    """Workload id -> its row of the workloads table."""

    @property
    def keys(self) -> tuple[Key, ...]:
        """The programs, in the order of `rows` and of `programs`."""
        return tuple((row["device_id"], row["program_id"]) for row in self.rows)

    def __str__(self) -> str:
        """One line: the name, and how much there is."""
        found = f"{len(self.rows):,} programs of {len(self.workloads)} workloads on {', '.join(self.devices)}"
        return f"{self.name}: {found}; latencies withheld"

    @classmethod
    def open(cls, path: str | Path) -> HiddenTask:
        """Reads a task.

        Raises:
            DataError: The folder is no task, is damaged, or was written by a newer costhub.
        """
        path = Path(path)
        if not (path / TASK).is_file():
            raise DataError(f"{path} has no {TASK}. Expected a folder made by `costhub bench hide`.")
        about = _object(read_regular(path / TASK, limit=_MOST_TASK, error=DataError), path / TASK)
        refuse_newer(about, newest=TASK_VERSION, what=path / TASK, error=DataError)
        digest = hashlib.sha256()
        rows = tuple(_lines(path / PROGRAMS, _PROGRAM, most=MOST_PROGRAMS, digest=digest))
        if digest.hexdigest() != about.get("programs_sha256"):
            raise DataError(f"{path / PROGRAMS} is not the file that {TASK} names. Get the task again.")
        workloads = {row["workload_id"]: row for row in _lines(path / WORKLOADS, _WORKLOAD, most=MOST_WORKLOADS)}
        devices, named = about.get("devices"), {row["device_id"] for row in rows}
        if not rows:
            raise DataError(f"{path / PROGRAMS} has no programs. Get the task again.")
        if not all(is_plain_name(name, most=_MOST_DEVICE_ID) for name in named):
            raise DataError(f"{path / PROGRAMS} has a device whose name no folder can have. Get the task again.")
        if not isinstance(devices, dict) or named - devices.keys():
            raise DataError(f"{path / TASK} does not describe the devices of all programs. Get the task again.")
        if not all(isinstance(row, dict) and row.get("device_id") == name for name, row in devices.items()):
            raise DataError(
                f"{path / TASK} has a device that is not described by a row of that name. Get the task again."
            )
        if missing := {row["workload_id"] for row in rows} - workloads.keys():
            raise DataError(f"{path / WORKLOADS} lacks workload {sorted(missing)[0][:12]}. Get the task again.")
        return cls(path, str(about.get("name")), str(about.get("latencies_sha256")), devices, rows, workloads)

    def programs(
        self, spec: str, *, devices: Set[str] | None = None, progress: bool = True
    ) -> tuple[Programs, IntArray]:
        """Reads the features of the programs from the cache; computes missing ones in child processes.

        Args:
            spec: The feature spec that the model reads.
            devices: Ids of the devices whose programs to read, at least one; by default all.
            progress: Show a progress bar on a terminal.

        Returns:
            The programs that have features, with infinite latency, and the position of each in `keys`. The others
            cannot be replayed by this TVM.

        Raises:
            UnknownNameError: The feature spec does not exist.
        """
        keys = self._keys(self.rows)
        parts, places = [], []
        held = {row["device_id"] for row in self.rows}
        for device_id in sorted(held if devices is None else held & devices):
            own = np.array([at for at, row in enumerate(self.rows) if row["device_id"] == device_id], np.int64)
            names, workload = codes([self.rows[at]["workload_id"] for at in own])
            order = np.argsort(workload, kind="stable")
            features = DeviceFeatures.of(self, device_id, spec)
            latency_s = np.full(len(own), np.inf)
            block = ProgramBlock(features, keys.take(pa.array(own[order])), workload[order], names, latency_s)
            programs, found = block.load_with_places(progress=progress)
            parts.append(programs)
            places.append(own[order][found])
        made = Programs.join(parts)
        uses = {key: use for key, use in self._uses().items() if key in made.workload_ids}
        return replace(made, uses=uses), np.concatenate(places)

    def chunks(self, device_id: str, keys: pa.Array) -> Iterator[Chunk]:
        """The programs of a device with these keys, once each; as `compute_missing` takes them."""
        wanted = set(keys.to_pylist())
        rows = [row for row in self.rows if row["device_id"] == device_id]
        found = {key: row for key, row in zip(self._keys(rows).to_pylist(), rows, strict=True) if key in wanted}
        return chunks_of_rows(list(found.values()), list(found), self._modules())

    def _keys(self, rows: Sequence[_Row]) -> pa.Array:
        columns = [{name: row[name] for name in KEY_COLUMNS} for row in rows]
        return ProgramKeys(self._modules()).of(pa.RecordBatch.from_pylist(columns))

    def _modules(self) -> dict[str, str]:
        return {workload_id: row["module_json"] for workload_id, row in self.workloads.items()}

    def _uses(self) -> Mapping[str, Any]:
        wanted = ("workload_id", "operator", "networks", "name")
        try:
            table = pa.Table.from_pylist([{name: row[name] for name in wanted} for row in self.workloads.values()])
            return workload_uses(table)
        except (ValueError, pa.ArrowTypeError, TypeError, LookupError) as error:  # ArrowInvalid is a ValueError
            raise DataError(
                f"{self.path / WORKLOADS} does not describe workloads ({error}). Get the task again."
            ) from error


def hide_latencies(
    data: str | Path, out: str | Path, latencies: str | Path, *, name: str, devices: Set[str], workloads: Set[str]
) -> HiddenTask:
    """Makes a task of measured programs, and writes their latencies to a file apart.

    Args:
        data: A data folder.
        out: The folder of the task, which must not exist.
        latencies: The file with the latencies (CSV), which must not exist and must not lie in `out`. Keep it.
        name: What the task is called.
        devices: Ids of the devices whose programs take part.
        workloads: Ids of the workloads that take part.

    Raises:
        ArgumentError: `out` or `latencies` exists, or the file would lie in the task.
        DataError: The folder cannot be read, or no program is left.
    """
    out, latencies = Path(out), Path(latencies)
    _check_places(out, latencies)
    folder = DataFolder.open(data)
    if unfit := [each for each in sorted(devices) if not is_plain_name(each, most=_MOST_DEVICE_ID)]:
        raise ArgumentError(f"{unfit[0]!r} cannot name a device of a task: letters, digits and . _ + - may.")
    found = _measured(folder, sorted(devices), workloads)
    if not found:
        raise DataError(f"{data} has no program that ran on {', '.join(sorted(devices))} in these workloads.")
    chosen = {row["workload_id"] for row in found.values()}
    about = first_of_each(folder.workloads(list(_WORKLOAD)), "workload_id").to_pylist()
    described = [row for row in about if row["workload_id"] in chosen]
    table = folder.devices()
    device_rows = {row["device_id"]: row for row in table.to_pylist() if row["device_id"] in devices}
    order = sorted(found, key=lambda key: (key[1], key[0]))
    programs = _as_lines([{name: found[key][name] for name in _PROGRAM} for key in order])
    if len(order) > MOST_PROGRAMS or len(chosen) > MOST_WORKLOADS or len(programs) > MOST_BYTES:
        raise DataError(
            f"{len(order):,} programs of {len(chosen):,} workloads do not fit into a task, which holds at most "
            f"{MOST_PROGRAMS:,} programs, {MOST_WORKLOADS:,} workloads and {MOST_BYTES >> 30} GiB of programs: choose "
            "fewer with --split or --device (split=, device= in Python)."
        )
    hidden = _latency_file([found[key] for key in order])
    latencies.parent.mkdir(parents=True, exist_ok=True)
    write_replacing(latencies, hidden)  # first: a task without them could not be scored
    content = {
        "version": TASK_VERSION,
        "name": name,
        "programs": len(order),
        "workloads": len(chosen),
        "devices": device_rows,
        "programs_sha256": hashlib.sha256(programs).hexdigest(),
        "latencies_sha256": hashlib.sha256(hidden).hexdigest(),
    }
    files = {
        PROGRAMS: programs,
        WORKLOADS: _as_lines(sorted(described, key=lambda row: str(row["workload_id"]))),
        TASK: json.dumps(content, indent=1, default=str).encode(),  # str: of timestamps
    }
    try:
        return _written(out, files)
    except BaseException:  # both or none: neither is written over
        latencies.unlink(missing_ok=True)
        raise


def _check_places(out: Path, latencies: Path) -> None:
    for place in (out, latencies):
        if place.exists():
            raise ArgumentError(f"{place} exists. Choose another name: a task is written once.")
    if out.absolute() in latencies.absolute().parents:
        raise ArgumentError(f"{latencies} would lie in the task, which everybody reads. Keep the latencies elsewhere.")


def _written(out: Path, files: Mapping[str, bytes]) -> HiddenTask:
    """The task of these files in a new folder, which does not stay if one of them cannot be written."""
    out.mkdir(parents=True)
    try:
        for name, content in files.items():
            write_replacing(out / name, content)
        return HiddenTask.open(out)
    except BaseException:
        shutil.rmtree(out, ignore_errors=True)
        raise


def _measured(folder: DataFolder, devices: Sequence[str], workloads: Set[str]) -> dict[Key, dict[str, Any]]:
    """Each program that ran, once, with the median of its measurements."""
    where = among("workload_id", sorted(workloads)) & among("status", ["ok"])
    found: dict[Key, dict[str, Any]] = {}
    times: dict[Key, list[float]] = {}
    for batch in folder.iter_measurements(list(devices), [*_PROGRAM, "run_s"], where):
        latency_s = median_latency_s(batch["run_s"])
        for row, seconds in zip(batch.select(list(_PROGRAM)).to_pylist(), latency_s.tolist(), strict=True):
            if np.isfinite(seconds) and seconds > 0:
                key = row["device_id"], row["program_id"]
                found.setdefault(key, row)
                times.setdefault(key, []).append(seconds)
    return {key: {**row, "latency_s": statistics.median(times[key])} for key, row in found.items()}


def _latency_file(rows: Sequence[_Row]) -> bytes:
    text = io.StringIO()
    writer = csv.writer(text, lineterminator="\n")
    writer.writerow(LATENCY_COLUMNS)
    writer.writerows([[row[name] for name in LATENCY_COLUMNS] for row in rows])
    return text.getvalue().encode()


def _as_lines(rows: Sequence[_Row]) -> bytes:
    return "".join(json.dumps(row, separators=(",", ":")) + "\n" for row in rows).encode()


def codes(names: Sequence[str]) -> tuple[tuple[str, ...], IntArray]:
    """The distinct names in order, and the index of each among them."""
    return name_codes(pa.chunked_array([pa.array(names, pa.string())]))


def _object(content: bytes, path: Path) -> dict[str, Any]:
    try:
        found = json.loads(content)
    except (ValueError, RecursionError) as error:
        raise DataError(f"{path} is not JSON. Get the file again.") from error
    if not isinstance(found, dict):
        raise DataError(f"{path} does not hold a JSON object. Get the file again.")
    return found


def _is_text(value: Any) -> bool:
    """Whether it can be written as UTF-8, which halves of pairs, as JSON allows them, cannot."""
    return isinstance(value, str) and not any("\ud800" <= sign <= "\udfff" for sign in value)


def _lines(path: Path, names: Sequence[str], *, most: int, digest: Any = None) -> Iterator[dict[str, Any]]:
    """The rows of a file, a line each; only these names are kept. A hash of `hashlib` takes in all bytes."""
    texts = [name for name in _TEXTS if name in names]
    with open_regular(path, limit=MOST_BYTES, error=DataError) as file:
        number = 0
        while line := file.readline(_MOST_LINE + 1):
            number += 1
            if digest is not None:
                digest.update(line)
            if number > most or len(line) > _MOST_LINE:
                raise DataError(f"{path} has more than {most:,} lines, or one of more than {_MOST_LINE:,} bytes.")
            row = _object(line, path)
            if set(names) - row.keys() or not all(_is_text(row[name]) for name in texts):
                raise DataError(
                    f"{path}, line {number}: expected an object with {', '.join(names)}. Get the task again."
                )
            yield {name: sys.intern(row[name]) if name in _SHARED else row[name] for name in names}
