"""Real MetaSchedule databases to damage, from folders and from searches made here, and what stock TVM reads of one."""

from __future__ import annotations

import gzip
import json
import lzma
import tempfile
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from costhub.api.tune import TuneOptions, tune
from costhub.api.tune_report import REPORT
from costhub.dataset.intrinsics import load_intrinsics, names_intrinsics
from costhub.dataset.metaschedule.import_database import database_files
from costhub.dataset.metaschedule.lines import RECORDS_FILE, WORKLOADS_FILE
from costhub.dataset.trace import trace_to_json
from costhub.isolation.child import ChildDied, ChildTimeout
from costhub.isolation.tvm_children import tvm_child
from scripts.bench.common.fresh import checkout_path

SEARCHED = (
    ("matmul.128x128x128", "softmax.64x1000", "pool.avg-56x128"),
    ("resnet18.c11", "depthwise.14x512", "elementwise.gelu-128x3072"),
    ("batch_matmul.16x64x64x64", "norm.layer-128x768", "reduce.sum-rows-49x2048"),
    ("pointwise.7x160x960", "fused.dense-gelu-64x1024x256", "metaschedule.gmm"),
)
"""Small workloads of the suites, by search."""
_TIMEOUT_S = 900.0

Content = tuple[str, str]
"""A record of a database of TVM 0.27: the hash of its workload, and the text after the workload's number."""


@dataclass(frozen=True)
class RealDatabase:
    """The lines of a database that a search has written."""

    name: str
    workloads: list[bytes]
    records: list[bytes]
    lines: int
    """Number of records in the folder; `records` may be the first of them only."""


def real_databases(folder: Path, place: Path, most_records: int | None) -> Iterator[RealDatabase]:
    """The databases in a folder and in those below it, without those that lack a file.

    Args:
        folder: Files named ``database_*`` are JSON or SQLite, plain or compressed by gzip or xz.
        place: A folder for copies.
        most_records: As for `read_database`.
    """
    for own in sorted({path.parent for path in folder.rglob("database_tuning_record.*")}):
        if not list(own.glob("database_workload.*")):
            continue
        copy = Path(tempfile.mkdtemp(dir=place), own.name)
        copy.mkdir()
        for file in own.glob("database_*"):
            content = file.read_bytes()
            plain = lzma.decompress(content) if file.suffix == ".xz" else content
            (copy / file.name.removesuffix(".xz")).write_bytes(plain)
        yield read_database(copy, most_records)


def read_database(folder: Path, most_records: int | None = None) -> RealDatabase:
    """The lines of the database in a folder; those of SQLite as JSON.

    Args:
        folder: It holds the two files, plain, gzipped or in SQLite.
        most_records: Only so many of the first records, and the workloads up to the last that they name.
    """
    with database_files(folder) as files:
        workloads, records = (_lines(files[name]) for name in (WORKLOADS_FILE, RECORDS_FILE))
    taken = records[:most_records]
    if len(taken) < len(records):
        workloads = workloads[: 1 + max(json.loads(line)[0] for line in taken)]
    return RealDatabase(folder.name, workloads, taken, len(records))


def _lines(path: Path) -> list[bytes]:
    content = gzip.decompress(path.read_bytes()) if path.suffix == ".gz" else path.read_bytes()
    return content.removesuffix(b"\n").split(b"\n")


def searched(names: Sequence[str], out: Path, trials: int, seed: int = 0) -> Path:
    """The folder of a search, made here and now unless it is there.

    Args:
        names: Workloads, or a network.
        out: The folder.
        trials: How many programs of each workload are measured.
        seed: Of the search.
    """
    if not (out / REPORT).is_file():  # the report comes last
        tune(list(names), out, trials=trials, options=TuneOptions(stop="never"), seed=seed, progress=False)
    return out


def contents(folder: Path) -> list[Content]:
    """The records of a database of TVM 0.27, in order.

    Args:
        folder: It holds the two files as JSON.
    """
    hashes = [str(json.loads(line)[0]) for line in _lines(folder / WORKLOADS_FILE)]
    parts = [line.decode().partition(",") for line in _lines(folder / RECORDS_FILE)]
    return [(hashes[int(number.removeprefix("["))], rest) for number, _, rest in parts]


def loaded(folder: Path) -> int | str:
    """How many records stock TVM loads from a folder; a string says how it fails."""
    with tvm_child(environment=checkout_path()) as child:
        try:
            return child.call(load, folder, timeout_s=_TIMEOUT_S)
        except ChildDied:
            return "crashes"
        except ChildTimeout:
            return "hangs"
        except Exception:
            return "refuses"  # TVM raises errors of many kinds


def wrong_traces(folder: Path) -> dict[str, str | None]:
    """Hash of a workload -> a schedule that replays and whose program computes something else.

    Args:
        folder: A database of TVM 0.27.

    Returns:
        The schedules as traces in JSON; None for workloads of which none is known.
    """
    with tvm_child(environment=checkout_path()) as child:
        return {
            str(json.loads(line)[0]): child.call(wrong_trace, line, timeout_s=_TIMEOUT_S)
            for line in _lines(folder / WORKLOADS_FILE)
        }


# The code below runs in a child.


def load(folder: Path) -> int:
    """The number of records that TVM's `JSONDatabase` loads."""
    from tvm.s_tir import meta_schedule as ms

    records = folder / RECORDS_FILE
    if records.is_file() and names_intrinsics(records.read_text("utf-8", errors="replace")):
        for kind in ("llvm", "cuda"):
            load_intrinsics(kind, database=folder)
    return len(ms.database.JSONDatabase(work_dir=str(folder)).get_all_tuning_records())


def wrong_trace(line: bytes) -> str | None:
    """A schedule that writes two neighbouring elements of the output of a workload to the same place."""
    from tvm.s_tir import Schedule
    from tvm.s_tir import meta_schedule as ms

    schedule = Schedule(ms.database.Workload.from_json(json.loads(line)).mod)
    *_, block = schedule.get_child_blocks(schedule.get_sblock("root"))
    shape = [int(extent) for extent in schedule.get(block).writes[0].source.shape]
    longest = max(range(len(shape)), key=shape.__getitem__)

    def halved(*indices: Any) -> list[Any]:
        return [index // 2 if axis == longest else index for axis, index in enumerate(indices)]

    try:
        schedule.cache_write(block, 0, "global")
        schedule.transform_layout(block, ("write", 0), halved, assume_injective_transform=True)
    except Exception:
        return None  # TVM refuses it for many reasons; another workload will do
    return trace_to_json(schedule.trace) if shape[longest] > 1 else None
