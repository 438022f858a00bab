"""Builds a data folder that can be learned from without TVM; `runpy.run_path` brings it into a test."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

from costhub.cli.main import run
from costhub.dataset.features.cache import FeatureCache
from costhub.dataset.features.program_key import keys_of_records
from costhub.dataset.features.spec import FeatureSpec
from costhub.dataset.features.specs import find_spec
from costhub.dataset.folder import DataFolder
from costhub.dataset.splits.split import Split, save_split

SPEC = find_spec("tiles@1")
WORKLOADS = [f"{family}{i}" for family in ("conv2d", "matmul") for i in range(3)]


def build_data(
    path: Path, *, device_id: str = "acme-one", each: int = 12, more_specs: Sequence[FeatureSpec] = ()
) -> Path:
    """A data folder whose features are in the cache already, so that TVM has nothing to do."""
    rng = np.random.default_rng(0)
    folder = DataFolder.create(path)
    folder.put_workloads(
        [
            {
                "workload_id": f"id-{name}",
                "name": name,
                "operator": name[:-1],
                "shapes": "[[8,8]]",
                "dtypes": ["float32"],
                "flop": 1.0,
                "bytes": 1.0,
                "module_json": "{}",
                "networks": [],
            }
            for name in WORKLOADS
        ]
    )
    ids, features = [], []
    with folder.writer(device_id) as writer:
        for name in WORKLOADS:
            for number in range(each):
                rows = rng.normal(size=(3, SPEC.width)).astype(np.float32)
                ids.append(f"{device_id}-{name}-{number}")
                features.append(rows)
                latency_s = float(1e-3 * np.exp(-rows[:, 0].sum()))
                writer.append(row(ids[-1], device_id, name, latency_s=latency_s, place=path))
    key_of = keys_of_records(folder, device_id)
    keys = [key_of[record_id] for record_id in ids]
    FeatureCache(device_id, SPEC).append(keys, features)
    for spec in more_specs:
        drawn = [rng.normal(size=(3, spec.width)).astype(np.float32) for _ in ids]
        FeatureCache(device_id, spec).append(keys, drawn)
    return path


def row(
    record_id: str, device_id: str, name: str, *, latency_s: float, place: str | Path = "elsewhere"
) -> dict[str, Any]:
    """A measurement; its trace is no other row's, in no other folder, so nor are its features."""
    return {
        "record_id": record_id,
        "program_id": record_id,
        "workload_id": f"id-{name}",
        "device_id": device_id,
        "target": '{"kind":"llvm"}',
        "trace": json.dumps([[[f"{place} {record_id}", [], [], []]], []]),
        "status": "ok",
        "run_s": [latency_s],
        "proposed_by": "random",
    }


def train_model(data: Path, place: Path) -> Path:
    """A model in `place` that has learned from all workloads but conv2d0 and matmul0."""
    held_out = ("id-conv2d0", "id-matmul0")
    learned = tuple(f"id-{name}" for name in WORKLOADS if f"id-{name}" not in held_out)
    split, model = place / "split.json", place / "model"
    save_split(Split("mine", learned, held_out, 0), split)
    words = ("train", "--data", data, "--arch", "gbt", "--split", split, "--out", model)
    assert run([str(word) for word in words]) == 0
    return model
