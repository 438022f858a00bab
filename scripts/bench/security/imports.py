"""Hostile files of TVM and torch: modules, MetaSchedule databases and exported networks (kinds 46 to 50)."""

from __future__ import annotations

import base64
import gzip
import io
import json
import os
import pickle
import zipfile
from collections.abc import Callable, Iterator
from functools import cache
from pathlib import Path
from typing import Any

from scripts.bench.common.data import DEVICE
from scripts.bench.security import shards
from scripts.bench.security.attempt import Attempt, lacks, writes
from scripts.bench.security.models import RunsCode, deep
from scripts.bench.security.place import Command, Place

FAMILY = "imports"
RECORDS, WORKLOADS = "database_tuning_record.json", "database_workload.json"
SOUND = 4
"""Records of a database that are good ones."""


def database(folder: Path, data: Path) -> list[bytes]:
    """Writes the workload of a database and returns the lines of a few good records."""
    folder.mkdir()
    workload = shards.read(data, "workloads")[0]
    (folder / WORKLOADS).write_bytes(workload_line(workload["module_json"].encode()) + b"\n")
    rows = [row for row in shards.read(data) if row["workload_id"] == workload["workload_id"] and row["run_s"]]
    shapes = zip(workload["dtypes"], json.loads(workload["shapes"]), strict=True)
    arguments = [["TENSOR", dtype, shape] for dtype, shape in shapes]
    parts = [[json.loads(r["trace"]), r["run_s"], json.loads(r["target"]), arguments] for r in rows[:SOUND]]
    return [json.dumps([0, part]).encode() for part in parts]


def workload_line(module: bytes, *, size: int | None = None) -> bytes:
    """A line with a workload: its module behind the number of its bytes."""
    blob = (len(module) if size is None else size).to_bytes(8, "little") + module
    return json.dumps(["1234", base64.b64encode(blob).decode()]).encode()


def bad_lines(good: bytes) -> list[bytes]:
    """Lines that are no record: eighteen kinds."""
    record: list[Any] = json.loads(good)

    def other(*place: int, value: Any) -> bytes:
        copy: Any = json.loads(good)
        inner = copy
        for step in place[:-1]:
            inner = inner[step]
        inner[place[-1]] = value
        return json.dumps(copy).encode()

    return [
        b"\xff\xfe\x00",
        b"{}",
        b"[]",
        b"[0]",
        good[:-9],
        good.replace(b"[", b"[" * 5000, 1),
        b"\0" * 100,
        b"[0, " + b"9" * 10**6 + b"]",
        deep(200_000).encode(),
        other(0, value=-1),
        other(0, value=10**30),
        other(1, 1, value=[float("nan")]),
        other(1, 1, value=[-1.0]),
        other(1, 1, value="x" * 10**6),
        other(1, 0, 1, value=[[10**6, [1, 2]]]),
        other(1, 0, 0, 0, value=["NoSuchInstruction", [], [], ["b0"]]),
        other(1, 2, value={"kind": "no-such-target"}),
        json.dumps([record] * 3).encode(),
    ]


def imported(spoil: Callable[[Path, list[bytes]], list[bytes] | None], *words: str) -> Callable[[Place], Command]:
    """Imports a database whose records somebody has spoilt."""

    def make(place: Place) -> Command:
        folder = place.folder / "db"
        lines = spoil(folder, database(folder, place.data()))
        if lines is not None:
            (folder / RECORDS).write_bytes(b"\n".join(lines) + b"\n")
        device = [] if "--device" in words else ["--device", DEVICE]
        return place.costhub("import", "metaschedule", folder, *device, "--out", place.folder / "out", *words)

    return make


def pipe(folder: Path, lines: list[bytes]) -> None:
    """Named pipes in the place of both files."""
    del lines
    (folder / WORKLOADS).unlink()
    os.mkfifo(folder / WORKLOADS)
    os.mkfifo(folder / RECORDS)


def zip_bomb(folder: Path, lines: list[bytes]) -> None:
    """Two gigabytes of one letter in two megabytes."""
    del lines
    with gzip.open(folder / f"{RECORDS}.gz", "wb", compresslevel=9) as file:
        for _ in range(2048):
            file.write(b"x" * (1 << 20))


def module_file(text: str) -> Callable[[Place], Command]:
    """Tunes a file that is said to hold a module."""

    def make(place: Place) -> Command:
        path = place.folder / "module.json"
        path.write_text(text)
        return tune(place, path)

    return make


def tune(place: Place, path: Path) -> Command:
    """Two trials on a file."""
    return place.costhub("tune", path, "--trials", 2, "--model", "amd-epyc-zen5-2c", "--out", place.folder / "out")


@cache
def exported() -> bytes:
    """A network of one layer, as torch exports it."""
    import torch

    network = torch.nn.Sequential(torch.nn.Linear(8, 8), torch.nn.ReLU()).eval()
    file = io.BytesIO()
    torch.export.save(torch.export.export(network, (torch.zeros(1, 8),)), file)
    return file.getvalue()


def network(change: Callable[[str, bytes, Place], bytes]) -> Callable[[Place], Command]:
    """Tunes an exported network after each file of the archive went through a change."""

    def make(place: Place) -> Command:
        path = place.folder / "net.pt2"
        with zipfile.ZipFile(io.BytesIO(exported())) as old, zipfile.ZipFile(path, "w") as new:
            for entry in old.infolist():
                new.writestr(entry.filename, change(entry.filename, old.read(entry), place))
        return tune(place, path)

    return make


def _evil_inputs(name: str, content: bytes, place: Place) -> bytes:
    if not name.endswith("sample_inputs/model.pt"):
        return content
    import torch

    file = io.BytesIO()
    torch.save(RunsCode(place.canary), file)
    return file.getvalue()


def _pickled_weights(name: str, content: bytes, place: Place) -> bytes:
    if name.endswith("model_weights_config.json"):
        return content.replace(b'"use_pickle": false', b'"use_pickle": true')
    return pickle.dumps(RunsCode(place.canary)) if "weights/weight_" in name else content


def _pickled_config(name: str, content: bytes, place: Place) -> bytes:
    return pickle.dumps(RunsCode(place.canary)) if name.endswith("models/model.json") else content


def attempts() -> Iterator[Attempt]:
    """Kinds 46 to 50."""
    for kind, what, text in (
        ("46a", "a module whose nodes name one another in a circle", CIRCLE),
        ("46b", "a module nested 200,000 deep", deep(200_000)),
        ("46c", "a module whose root is far out of range", '{"root_index": 4000000000, "nodes": [{"type": "None"}]}'),
    ):
        yield Attempt(kind, FAMILY, f"tune, {what}", module_file(text), limit_s=60)
    mixed = imported(lambda folder, lines: [*bad_lines(lines[0]), *lines])
    yield Attempt("47", FAMILY, "import, eighteen kinds of bad lines before four good ones", mixed, "accepted",
                  harm=lacks(f"{SOUND} "), limit_s=60)  # fmt: skip
    yield Attempt("48a", FAMILY, "import, both files are named pipes", imported(pipe))
    yield Attempt("48b", FAMILY, "import, a record of 2 GB in 2 MB of gzip", imported(zip_bomb), "either", most_mb=1000,
                  limit_s=60)  # fmt: skip
    outside = imported(lambda folder, lines: lines, "--device", "../../x")
    yield Attempt("48c", FAMILY, "import --device ../../x", outside, quick=True)
    for kind, what, change in (
        ("49", "sample inputs that are a hostile pickle", _evil_inputs),
        ("50a", "weights that are a hostile pickle", _pickled_weights),
        ("50b", "a graph that is a hostile pickle", _pickled_config),
    ):
        made = network(change)
        yield Attempt(kind, FAMILY, f"tune, a .pt2 with {what}", made, harm=writes("canary"), limit_s=90)


CIRCLE = json.dumps(
    {
        "root_index": 1,
        "nodes": [
            {"type": "None"},
            {"type": "ffi.Array", "data": [2]},
            {"type": "ffi.Array", "data": [1]},
        ],
    }
)
