"""`datasets` reads our data folders from the hub: all at once, and as a stream."""

from __future__ import annotations

import json
import sys
from collections.abc import Callable
from typing import Any

import pytest

pytest.importorskip("datasets")
Run = Callable[..., str]
SHARD = "measurements/amd-epyc-zen5-1c/train-00000-of-00001.parquet"
CODE = """
import json
from datasets import get_dataset_config_names, load_dataset
name = "acme/data"
configs = sorted(get_dataset_config_names(name))
rows = load_dataset(name, "measurements", split="train", streaming={streaming})
ids = [row["record_id"] for row in rows]
print(json.dumps([configs, ids]))
"""


@pytest.mark.parametrize("streaming", [False, True])
def test_measurements_are_loaded_from_the_hub(run: Run, server: Any, rows: dict[str, bytes], streaming: bool) -> None:
    import pyarrow as pa
    import pyarrow.parquet as pq

    server.commit("datasets/acme/data", rows)

    configs, ids = json.loads(run(sys.executable, "-c", CODE.format(streaming=streaming)).splitlines()[-1])

    assert configs == ["devices", "measurements", "workloads"]
    assert ids == pq.read_table(pa.BufferReader(rows[SHARD]))["record_id"].to_pylist()


@pytest.mark.slow
def test_what_datasets_pushes_datasets_reads(run: Run, server: Any) -> None:
    code = (
        "from datasets import Dataset, load_dataset\n"
        "made = Dataset.from_dict({'run_s': [1.5, 2.5]})\n"
        "made.push_to_hub('acme/pushed', 'small')\n"
        "print(load_dataset('acme/pushed', 'small', split='train')['run_s'][:])"
    )

    assert run(sys.executable, "-c", code).strip() == "[1.5, 2.5]"
    assert "small/train-00000-of-00001.parquet" in server.files("datasets/acme/pushed")
