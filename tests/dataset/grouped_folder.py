"""Builds a data folder of many row groups, one workload in each; `runpy.run_path` brings it into a test."""

from __future__ import annotations

import random
from pathlib import Path
from unittest.mock import patch

from costhub.dataset.folder import DataFolder
from costhub.dataset.schema import table_from_rows
from costhub.dataset.shards import shard

WORKLOADS, EACH = 20, 250


def build_groups(path: Path) -> DataFolder:
    """Twenty workloads of 250 measurements; every trace is as large as real ones, and random."""
    rng = random.Random(0)
    folder = DataFolder.create(path)
    folder.put_device({"device_id": "cpu0", "kind": "cpu"})
    folder.put_workloads(
        [
            {
                "workload_id": f"w{number:02d}",
                "name": f"matmul{number}",
                "operator": "matmul" if number < 18 else "softmax",
                "shapes": "[[8,8]]",
                "dtypes": ["float32"],
                "flop": 1.0,
                "bytes": 1.0,
                "module_json": rng.randbytes(1000).hex(),
            }
            for number in range(WORKLOADS)
        ]
    )
    rows = [
        {
            "record_id": f"r{number:05d}",
            "program_id": rng.randbytes(16).hex(),
            "workload_id": f"w{number % WORKLOADS:02d}",
            "device_id": "cpu0",
            "target": '{"kind":"llvm"}',
            "trace": rng.randbytes(1000).hex(),
            "status": "ok" if number % 7 else "run_error",
            "run_s": [1e-3 * rng.random() for _ in range(3)] if number % 7 else [],
            "proposed_by": "random",
        }
        for number in range(WORKLOADS * EACH)
    ]
    place = folder.path / "measurements/cpu0"
    place.mkdir()
    # Only the size is changed, so that a file of a few megabytes has the shape of one of gigabytes.
    with patch.object(shard, "ROW_GROUP_ROWS", EACH):
        shard.write_shard(table_from_rows("measurements", rows), place / "train-00000-of-00001.parquet")
    return folder
