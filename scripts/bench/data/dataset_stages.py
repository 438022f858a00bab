"""The stages of the dataset benchmark, each run in a process of its own to measure its peak memory.

python -m scripts.bench.data.dataset_stages STAGE ROWS FOLDER
"""

from __future__ import annotations

import json
import os
import resource
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow.compute as pc
import pyarrow.dataset as ds

from costhub.dataset.check.folder import check_folder
from costhub.dataset.folder import DataFolder
from costhub.dataset.load import load_measurements, load_programs
from costhub.dataset.metaschedule.export import export_database
from costhub.dataset.stats.folder_stats import folder_stats
from costhub.files import CACHE_VARIABLE
from scripts.bench.common.data import DEVICE, REAL
from scripts.bench.common.synthetic import DEVICES, copy_features, write_measurements

Stage = Callable[[Path, int], dict[str, Any]]


def write(path: Path, rows: int) -> dict[str, Any]:
    """Writes `rows` synthetic measurements of four devices; generating them is not counted."""
    seconds = write_measurements(path, rows)
    size = sum(file.stat().st_size for file in path.glob("measurements/*/*.parquet"))
    return {"seconds": seconds, "bytes_per_row": size / rows}


def check(path: Path, rows: int) -> dict[str, Any]:
    """All rules but the deep ones."""
    del rows
    return {"findings": len(check_folder(path))}


def filter_workload(path: Path, rows: int) -> dict[str, Any]:
    """All columns of one workload on every device."""
    workload = DataFolder.open(path).workloads()["workload_id"][0].as_py()
    start = time.perf_counter()
    table = load_measurements(path, workload=workload)
    return {"seconds": time.perf_counter() - start, "found": table.num_rows, "share": table.num_rows / rows}


def filter_pyarrow(path: Path, rows: int) -> dict[str, Any]:
    """The same with a bare pyarrow dataset."""
    workload = DataFolder.open(path).workloads()["workload_id"][0].as_py()
    start = time.perf_counter()
    files = [str(file) for file in sorted(path.glob("measurements/*/*.parquet"))]
    table = ds.dataset(files).to_table(filter=pc.field("workload_id") == workload)
    return {"seconds": time.perf_counter() - start, "found": table.num_rows, "share": table.num_rows / rows}


def load_features(path: Path, rows: int) -> dict[str, Any]:
    """Loads the arrays of one device, whose features are in the cache."""
    del rows
    programs = load_programs(path, device=DEVICES[0], spec="per_store@1", progress=False)
    return {"programs": programs.n, "gigabytes": programs.rows.nbytes / 1e9}


def fill_features(path: Path, rows: int) -> dict[str, Any]:
    """Gives the programs of one device the features of real ones, as if they had been computed."""
    del rows
    load_programs(REAL, device=DEVICE, spec="per_store@1", progress=False)
    copy_features(path, DEVICES[0])
    return {}


def stats(path: Path, rows: int) -> dict[str, Any]:
    """Every count of `costhub stats`."""
    del rows
    return {"programs": folder_stats(path).programs}


def tvm_json(path: Path, rows: int) -> dict[str, Any]:
    """The real measurements in TVM's own format: bytes per row, and seconds until TVM has loaded them."""
    del rows
    from tvm.s_tir.meta_schedule.database import JSONDatabase

    out = path / "tvm"
    export_database(REAL, out, device=DEVICE, progress=False)
    size = sum(file.stat().st_size for file in out.iterdir())
    start = time.perf_counter()
    count = len(JSONDatabase(work_dir=str(out)))
    return {"seconds": time.perf_counter() - start, "found": count, "bytes_per_row": size / count}


def shards(path: Path, rows: int) -> dict[str, Any]:
    """The same real measurements, read from their shards."""
    del path, rows
    places = (REAL / "measurements" / DEVICE, REAL / "workloads")
    size = sum(file.stat().st_size for place in places for file in place.glob("*.parquet"))
    start = time.perf_counter()
    count = load_measurements(REAL, device=DEVICE).num_rows
    return {"seconds": time.perf_counter() - start, "found": count, "bytes_per_row": size / count}


STAGES: dict[str, Stage] = {
    stage.__name__: stage
    for stage in (
        write,
        check,
        stats,
        filter_workload,
        filter_pyarrow,
        fill_features,
        load_features,
        shards,
        tvm_json,
    )
}
REAL_ONLY = ("shards", "tvm_json")
"""Stages on the real measurements, whatever the number of rows asked for."""


def main(stage: str, rows: str, path: str) -> None:
    """Runs one stage and prints its figures as JSON."""
    os.environ[CACHE_VARIABLE] = f"{path}-cache"  # some features are made up
    start = time.perf_counter()
    figures = STAGES[stage](Path(path), int(rows))
    figures.setdefault("seconds", time.perf_counter() - start)
    peak = [resource.getrusage(who).ru_maxrss for who in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN)]
    print(json.dumps({"stage": stage, "rows": int(rows), "peak_gib": max(peak) / 2**20, **figures}))


if __name__ == "__main__":
    main(*sys.argv[1:])
