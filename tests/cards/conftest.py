"""What a model folder and its evaluation say, for cards to show."""

from __future__ import annotations

from typing import Any

import pytest


@pytest.fixture
def config() -> dict[str, Any]:
    return {
        "arch": "mlp",
        "device_id": "nvidia-h200",
        "feature_spec": "per-store-1",
        "licence": "CC-BY-4.0",
        "data_rows": 2516,
        "data_hash": "9f86d081884c7d659a2feaa0c55ad015a3bf4f1b2b0b822cd15d6c15b0f00a08",
        "seed": 0,
        "created": "2026-11-20",
        "base": None,
        "versions": {"tvm": "0.27.0.post1", "torch": "2.13.0"},
        "metrics": {"top_1": 0.8567},
    }


@pytest.fixture
def evaluation() -> dict[str, Any]:
    def row(workload: str, operator: str, programs: int, top_1: float, pairwise: float) -> dict[str, Any]:
        figures = {"top_1": top_1, "top_5": 0.99, "pairwise": pairwise, "spearman": 0.8}
        return {"workload": workload, "operator": operator, "programs": programs, **figures}

    return {
        "noise_floor": 0.02,
        "totals": {"top_1": 0.8567, "top_5": 0.9712, "pairwise": 0.8891, "spearman": 0.8},
        "workloads": [
            row("resnet18 conv1", "conv2d", 53, 0.9, 0.95),
            row("resnet18 conv4", "conv2d", 51, 0.8, 0.85),
            row("bert softmax", "softmax", 40, 0.625, float("nan")),
        ],
    }


@pytest.fixture
def device() -> dict[str, Any]:
    return {
        "device_id": "nvidia-h200",
        "kind": "cuda",
        "model_name": "NVIDIA H200",
        "cores": 132,
        "l1d_bytes": 262144,
        "memory_bytes": 141_000_000_000,
        "l3_bytes": None,
        "isa_features": ["sm_90"],
        "peak_gflops": 51234.5,
    }
