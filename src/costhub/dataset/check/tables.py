"""Provides the rules on the rows of the tables devices and workloads."""

from __future__ import annotations

import itertools
import json
import math
from collections.abc import Iterator
from typing import Any

import numpy as np

from costhub.dataset.check.measurements import TableRule
from costhub.names import EMULATOR

_CACHES = ("l1d_bytes", "l2_bytes", "l3_bytes", "memory_bytes")
_POSITIVE_FIGURES = (
    *("cores", "simd_bits", *_CACHES, "peak_gflops"),
    *("peak_gflops_float64", "peak_gflops_float16", "peak_gflops_bfloat16", "peak_gops_int8"),
    *("l1_gbs", "l2_gbs", "l3_gbs", "dram_gbs", "launch_overhead_us"),
)
_FIGURE_LISTS = ("thread_scaling", "bandwidth_ladder")
_LARGEST_FIGURES = {"cores": 1e5, "simd_bits": 65536, "peak_gflops": 1e7, "launch_overhead_us": 1e6, "dram_gbs": 1e5}


def impossible_devices(row: dict[str, Any]) -> Iterator[str]:
    """Finds figures that no device has."""
    for name in _POSITIVE_FIGURES:
        value = row[name]
        if value is None:
            continue
        if not (math.isfinite(value) and value > 0):
            yield f"{name} is not a number above 0."
        elif value > _LARGEST_FIGURES.get(name, math.inf):
            yield f"{name} is above {_LARGEST_FIGURES[name]:,.0f}, which no device has; look at its unit."
    for name in _FIGURE_LISTS:
        steps = [step.get("gbs") if isinstance(step, dict) else step for step in row[name] or ()]
        if not all(step is not None and math.isfinite(step) and step > 0 for step in steps):
            yield f"{name} holds a number that is not above 0."
    sizes = [(name, row[name]) for name in _CACHES if row[name] is not None]
    # GPUs report the first level per multiprocessor and the second in total: the order holds there too.
    for (inner, smaller), (outer, larger) in itertools.pairwise(sizes):
        if smaller > larger:
            yield f"{inner} is larger than {outer}."
    if row["vendor"] == EMULATOR:
        yield f"vendor is {EMULATOR!r}: it was measured on an imitation of the device, whose speed says nothing of it."
    if not row["device_id"].strip() or not row["kind"].strip():
        yield "device_id or kind is empty."


def impossible_workloads(row: dict[str, Any]) -> Iterator[str]:
    """Finds rows whose shapes, dtypes, FLOP and bytes are inconsistent."""
    if not (math.isfinite(row["flop"]) and row["flop"] >= 0):
        yield "flop is not a number, 0 or more."
    shapes = _shapes(row["shapes"])
    if shapes is None:
        yield "shapes is not the JSON of a list of shapes."
    elif len(shapes) != len(row["dtypes"]):
        yield "shapes and dtypes have different numbers of arguments."
    else:
        size = _bytes(shapes, row["dtypes"])
        if size is not None and size != row["bytes"]:
            yield "bytes does not follow from shapes and dtypes."
    weights = [network["weight"] for network in row["networks"] or () if network is not None]
    if not all(weight is not None and math.isfinite(weight) and weight > 0 for weight in weights):
        yield "a network's weight is not a number above 0."


def _shapes(text: str) -> list[list[int]] | None:
    try:
        shapes = json.loads(text)
    except (ValueError, RecursionError):
        return None
    sound = isinstance(shapes, list) and all(
        isinstance(shape, list) and all(type(extent) is int and extent >= 0 for extent in shape) for shape in shapes
    )
    return shapes if sound else None


def _bytes(shapes: list[list[int]], dtypes: list[str]) -> float | None:
    """Bytes of all arguments; None if numpy does not know a dtype."""
    try:
        sizes = [np.dtype(dtype).itemsize for dtype in dtypes]
    except TypeError:
        return None
    return float(sum(math.prod(shape) * size for shape, size in zip(shapes, sizes, strict=True)))


def useful_share(module_json: str) -> float:
    """The share of FLOP that remains if one x in c meets each condition ``x % c == 0``; 1 if there are none.

    Only the JSON of the module is read, without TVM; for a text that is not JSON, the share is 1.

    Example:
        >>> useful_share("{}")
        1.0
    """
    # Few modules have one, and parsing takes a hundred times as long as this check.
    if '"prim.FloorMod"' not in module_json:
        return 1.0
    try:
        nodes = json.loads(module_json)["nodes"]
        divisors = [_divisor(nodes, node) for node in nodes if node["type"] == "prim.EQ"]
    except (ValueError, KeyError, TypeError, IndexError, RecursionError):
        return 1.0
    share = 1.0
    for divisor in divisors:
        share /= divisor
    return share


def _divisor(nodes: list[Any], equal: dict[str, Any]) -> int:
    """The c of ``x % c == y``; 1 for any other condition."""
    left = nodes[equal["data"]["a"]]
    if left["type"] != "prim.FloorMod":
        return 1
    right = nodes[left["data"]["b"]]
    value = nodes[right["data"]["value"]]["data"] if right["type"] == "ir.IntImm" else 1
    return value if type(value) is int and 1 < value <= 16 else 1


TABLE_RULES = (
    TableRule(
        id="CH024",
        title="a device's figures are possible",
        severity="error",
        fix="Run costhub probe on the device and put its row again; leave out unknown figures.",
        tables=("devices",),
        find=impossible_devices,
    ),
    TableRule(
        id="CH020",
        title="a workload's shapes, dtypes, FLOP and bytes go together",
        severity="error",
        fix="Make the row with costhub.dataset.workload.workload_row and put it again.",
        tables=("workloads",),
        find=impossible_workloads,
    ),
)
