"""Provides data for benchmarks: copies of the embedded datasets, a small folder, and folds of workloads."""

from __future__ import annotations

import atexit
import shutil
import tempfile
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from costhub.dataset.folder import DataFolder
from costhub.dataset.schema import arrow_schema, stored_schema
from costhub.dataset.shards.layout import compact
from costhub.dataset.shards.shard import new_parquet
from costhub.dataset.splits.split import list_splits, load_split
from costhub.dataset.splits.split_rules import split_into_folds
from costhub.hub.catalogue.hubs import EMBEDDED, folder_root, folders_in

DATASET = "amd-epyc-zen5"
DEVICE = "amd-epyc-zen5-1c"
SPLIT = Path("splits") / "held-out-14.json"
DATASETS = EMBEDDED / "datasets" / "costhub"
"""The embedded datasets. Copy one to work on it: the cache of features grows beside the data."""
REAL = DATASETS / DATASET
BLOCKED = "blocked-40-seed0"
"""A split of two chips' datasets, whose tested kernels are in blocked layouts; no shipped model learned from them."""
PAIRS = "bfloat16-40-seed0"
"""A split of one chip's dataset, whose tested kernels multiply in bfloat16; no shipped model learned from them."""
PLAIN = "network-tenset"
"""A split whose two sides are the workloads in TVM's own layouts, which CPUs' datasets share; GPUs have no others."""

_SMALL_WORKLOADS = ("softmax.64x1000", "metaschedule.nrm")
_SMALL_ROWS = 24


def embedded_datasets() -> list[Path]:
    """The folders of the embedded datasets."""
    return list(folders_in(folder_root(EMBEDDED), "datasets"))


def copy_dataset(folder: str | Path, name: str = DATASET) -> Path:
    """Copies a dataset into `folder` and returns its data folder; the default one holds SPLIT."""
    return shutil.copytree(DATASETS / name, Path(folder, name))


def own_copy(name: str = DATASET) -> Path:
    """As `copy_dataset`, in an `own_folder`."""
    return copy_dataset(own_folder(), name)


def copy_with(device_id: str) -> Path | None:
    """As `own_copy`, of the dataset with measurements of a device; None if no dataset has any."""
    for folder in embedded_datasets():
        if device_id in DataFolder.open(folder).device_ids():
            return own_copy(folder.name)
    return None


def own_folder() -> Path:
    """A folder that goes away with the process."""
    folder = tempfile.mkdtemp(prefix="costhub-")
    atexit.register(shutil.rmtree, folder, ignore_errors=True)
    return Path(folder)


def small_folder(path: Path) -> Path:
    """Makes a folder of real measurements: one device, two workloads, 24 rows each, in small row groups."""
    source, folder = DataFolder.open(REAL), DataFolder.create(path)
    workloads = [row for row in source.workloads().to_pylist() if row["name"] in _SMALL_WORKLOADS]
    rows = source.measurements(DEVICE).to_pylist()
    chosen = [[r for r in rows if r["workload_id"] == w["workload_id"]][:_SMALL_ROWS] for w in workloads]
    _write(path / "measurements" / DEVICE, "measurements", [row for part in chosen for row in part])
    _write(path / "workloads", "workloads", workloads)
    _write(path / "devices", "devices", source.devices().to_pylist())
    return folder.path


def plain_workloads(folder: Path) -> set[str] | None:
    """The workloads in TVM's own layouts; None for all, where a dataset holds no others."""
    if PLAIN not in list_splits(folder):
        return None
    sides = load_split(folder, PLAIN)
    return {*sides.train, *sides.test}


@dataclass(frozen=True)
class SplitPart:
    """One split, or one fold of it, of one device."""

    split: str
    """`held-out-14`, or `fold-5`."""
    fold: int
    train: frozenset[str]
    test: frozenset[str]
    untouched: frozenset[str] = frozenset()
    """On neither side: nothing may be learned from them, on any device."""


def folds(about: Sequence[dict[str, Any]], count: int, seed: int) -> list[SplitPart]:
    """The folds of `costhub split --by fold`, each as a part."""
    splits = split_into_folds(about, count=count, seed=seed)
    return [
        SplitPart(f"fold-{count}", number, frozenset(split.train), frozenset(split.test))
        for number, split in enumerate(splits)
    ]


def _write(folder: Path, table: str, rows: list[dict[str, object]]) -> None:
    folder.mkdir(exist_ok=True)
    path = folder / "train-00000-of-00001.parquet"
    whole = pa.Table.from_pylist(rows, schema=arrow_schema(table))
    with new_parquet(path, stored_schema(table)) as writer:
        writer.write_table(compact(whole) if table == "measurements" else whole, row_group_size=max(1, len(rows) // 4))


def median_latencies(data: Path, devices: Sequence[str], workloads: Sequence[str] | None = None) -> pa.Table:
    """One row per program that ran: its workload, its id and the median of its runs over all devices and attempts."""
    where = pc.field("status") == "ok"
    if workloads is not None:
        where &= pc.field("workload_id").isin(workloads)
    table = DataFolder.open(data).select_measurements(list(devices), ["workload_id", "program_id", "run_s"], where)
    median = pa.array([float(np.median(runs)) for runs in table["run_s"].to_pylist()])
    table = table.drop_columns("run_s").append_column("latency_s", median)
    means = table.group_by(["workload_id", "program_id"]).aggregate([("latency_s", "mean")])
    return means.rename_columns(["workload_id", "program_id", "latency_s"])
