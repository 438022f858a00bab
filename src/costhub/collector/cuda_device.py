"""Provides cuda_row: what an NVIDIA GPU says of itself, as a row of the devices table."""

from __future__ import annotations

import re
from typing import Any

from costhub.errors import DeviceError


def cuda_facts() -> dict[str, Any]:
    """What TVM's CUDA runtime reports of the first GPU.

    Raises:
        DeviceError: TVM sees no GPU.
    """
    import tvm

    device = tvm.cuda(0)
    if not device.exist:
        raise DeviceError("TVM sees no cuda device on this machine; --device auto measures its CPU.")
    return {
        "name": str(device.device_name),
        "compute_version": str(device.compute_version),
        "multiprocessors": int(device.multi_processor_count),
        "memory_bytes": int(device.total_global_memory),
        "l2_bytes": int(device.l2_cache_size_bytes),
        "driver": f"CUDA API {device.api_version}",
    }


def cuda_row(facts: dict[str, Any]) -> dict[str, Any]:
    """The row of the devices table for what `cuda_facts` returned.

    Example:
        >>> facts = {"name": "NVIDIA H200", "compute_version": "9.0", "multiprocessors": 132,
        ...          "memory_bytes": 150_000_000_000, "l2_bytes": 62_914_560, "driver": "CUDA API 13000"}
        >>> cuda_row(facts)["device_id"], cuda_row(facts)["microarchitecture"]
        ('nvidia-h200', 'sm_90')
    """
    words = re.findall(r"[a-z0-9]+", facts["name"].removeprefix("NVIDIA").casefold())
    return {
        "device_id": "-".join(["nvidia", *words]),
        "aliases": [],
        "kind": "cuda",
        "vendor": "NVIDIA",
        "microarchitecture": "sm_" + facts["compute_version"].replace(".", ""),
        "model_name": facts["name"],
        "cores": facts["multiprocessors"],
        "l2_bytes": facts["l2_bytes"],
        "memory_bytes": facts["memory_bytes"],
        "driver": facts["driver"],
        "target": None,
    }
