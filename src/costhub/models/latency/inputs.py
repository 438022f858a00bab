"""Provides input_row, what the latency predictor reads about a workload on a device, and roofline_us."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

import numpy as np

from costhub.dataset.workload_numbers import NAMES as WORKLOAD_NAMES
from costhub.errors import DeviceError
from costhub.models.latency.pools import CPU, Vector, family

_DEVICE = (
    "cores",
    "simd_bits",
    "l1d_bytes",
    "l2_bytes",
    "l3_bytes",
    "peak_gflops",
    "dram_gbs",
    "l2_gbs",
    "l3_gbs",
    "launch_overhead_us",
)
"""Columns of the devices table; each enters as its log2, or NaN if it is not known."""
BORROWED_FROM = "borrowed_from"
"""Key of `device_figures`: the id of the device whose figures stand for those of one that has not been probed."""
_NEEDED = ("cores", "peak_gflops", "dram_gbs")
_SCALED = ("peak_gflops", "l1_gbs", "l2_gbs", "l3_gbs")
"""Figures that grow with the number of cores."""
_RELATIVE = (
    "compute_us",
    "memory_us",
    "roofline_us",
    "compute_over_memory",
    "bytes_per_l2",
    "bytes_per_l3",
    "spatial_per_lane",
    "innermost_per_vector",
    "largest_input_per_l1",
    "smallest_input_per_l2",
    "between_per_l2",
)
DEVICE_COLUMNS = (*(f"device_{name}" for name in _DEVICE), "is_gpu", "is_rocm")
NAMES: tuple[str, ...] = (*WORKLOAD_NAMES, *DEVICE_COLUMNS, *_RELATIVE)
"""The columns in order; changing them makes a new version of `LAYOUT`."""
LAYOUT = "latency@1"

_AT = {name: place for place, name in enumerate(WORKLOAD_NAMES)}
_GPU_LANES, _GPU_VECTOR = 64, 32
"""For GPUs, whose vectors have no width of their own: lanes of a multiprocessor, threads of a warp."""


def device_figures(row: Mapping[str, Any], others: Mapping[str, Mapping[str, Any]] | None = None) -> dict[str, Any]:
    """The row of a device with what a prediction needs.

    Figures that a part of a CPU lacks are taken from another part of the same chip, per core.

    Args:
        row: A row of the devices table.
        others: Id -> row of other devices, which may include parts of the same chip.

    Raises:
        DeviceError: The peak, the memory bandwidth or the cores are not known.

    Example:
        >>> whole = {"device_id": "c-2c", "kind": "cpu", "microarchitecture": "c", "simd_bits": 256, "cores": 2,
        ...          "peak_gflops": 80.0, "dram_gbs": 20.0}
        >>> part = {**whole, "device_id": "c-1c", "cores": 1, "peak_gflops": None, "dram_gbs": None}
        >>> [device_figures(part, {"c-2c": whole})[name] for name in ("peak_gflops", "dram_gbs")]
        [40.0, 20.0]
    """
    found = dict(row)
    if any(not found.get(name) for name in _NEEDED):
        for other in (others or {}).values():
            if _is_same_chip(found, other) and all(other.get(name) for name in _NEEDED) and found.get("cores"):
                share = found["cores"] / other["cores"]
                lent = {name: other[name] * share for name in _SCALED if other.get(name)}
                lent["dram_gbs"] = other["dram_gbs"]
                lacking = {name: value for name, value in lent.items() if not found.get(name)}
                found = {**found, **lacking, BORROWED_FROM: other["device_id"]}
                break
    missing = [name for name in _NEEDED if not _is_positive(found.get(name))]
    if missing or not isinstance(found.get("kind"), str):
        needed, name = ", ".join(missing or ["kind"]), str(found.get("device_id"))
        if name.startswith("any-"):
            raise DeviceError(
                f"{name} stands for many devices, and an estimate is for one: name one that `costhub devices` lists, "
                "or the file that `costhub probe --json` wrote on it."
            )
        raise DeviceError(
            f"An estimate for {name!r:.99} needs {needed}. Run `costhub probe` on it, for a part of a machine with "
            "--isa and --threads; for a device of another machine, give --device a file with what `costhub probe "
            "--json` prints there."
        )
    return found


def _is_same_chip(row: Mapping[str, Any], other: Mapping[str, Any]) -> bool:
    keys = ("kind", "microarchitecture", "simd_bits")
    return row.get("microarchitecture") is not None and all(row.get(key) == other.get(key) for key in keys)


def _is_positive(value: Any) -> bool:
    return isinstance(value, int | float) and 0 < value < math.inf


def roofline_us(numbers: Vector, device: Mapping[str, Any]) -> float:
    """The time that arithmetic at the peak or one pass over all arguments takes, whichever is longer.

    Args:
        numbers: (w,) from `workload_numbers`.
        device: From `device_figures`.
    """
    return float(2.0 ** max(_bounds(numbers, device)))


def _bounds(numbers: Vector, device: Mapping[str, Any]) -> tuple[float, float]:
    """log2 of the microseconds of arithmetic, and of memory."""
    compute = float(numbers[_AT["flop"]]) - math.log2(device["peak_gflops"] * 1e3)
    return compute, _argument_bytes(numbers) - math.log2(device["dram_gbs"] * 1e3)


def _argument_bytes(numbers: Vector) -> float:
    return math.log2(2.0 ** numbers[_AT["input_bytes"]] + 2.0 ** numbers[_AT["output_bytes"]])


def input_row(numbers: Vector, device: Mapping[str, Any]) -> Vector:
    """The columns listed in `NAMES`, for a workload on a device.

    Args:
        numbers: (w,) from `workload_numbers`.
        device: From `device_figures`.
    """
    kind, cores = device["kind"], device["cores"]
    compute, memory = _bounds(numbers, device)
    l1, l2, l3 = (_log2(device.get(f"{level}_bytes")) for level in ("l1d", "l2", "l3"))
    l2 += math.log2(cores) if family(kind) == CPU else 0.0  # for a GPU, all of it
    vector = (device.get("simd_bits") or 0) / 32 or _GPU_VECTOR
    lanes = cores * (vector if device.get("simd_bits") else _GPU_LANES)

    def at(name: str) -> float:
        return float(numbers[_AT[name]])

    relative = (
        compute,
        memory,
        max(compute, memory),
        compute - memory,
        _argument_bytes(numbers) - l2,
        _argument_bytes(numbers) - (l2 if math.isnan(l3) else l3),
        at("spatial") - math.log2(lanes),
        at("spatial_innermost") - math.log2(vector),
        at("largest_input_bytes") - l1,
        at("smallest_input_bytes") - l2,
        at("between_bytes") - l2,
    )
    flags = (family(kind) != CPU, kind == "rocm")
    return np.array([*numbers, *(_log2(device.get(name)) for name in _DEVICE), *flags, *relative], np.float64)


def _log2(value: Any) -> float:
    return math.log2(value) if _is_positive(value) else math.nan
