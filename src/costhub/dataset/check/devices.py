"""Provides the rule on devices: figures that a device can have."""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterator
from typing import Any

from costhub.dataset.check.rule import TableRule

_CACHES = ("l1d_bytes", "l2_bytes", "l3_bytes", "memory_bytes")
_ABOVE_ZERO = (
    *("cores", "simd_bits", *_CACHES, "peak_gflops"),
    *("peak_gflops_float64", "peak_gflops_float16", "peak_gflops_bfloat16", "peak_gops_int8"),
    *("l1_gbs", "l2_gbs", "l3_gbs", "dram_gbs", "launch_overhead_us"),
)
_LISTS = ("thread_scaling", "bandwidth_ladder")
_MOST = {"cores": 1e5, "simd_bits": 65536, "peak_gflops": 1e7, "launch_overhead_us": 1e6, "dram_gbs": 1e5}


def impossible_devices(row: dict[str, Any]) -> Iterator[str]:
    """Finds figures that no device has."""
    for name in _ABOVE_ZERO:
        value = row[name]
        if value is None:
            continue
        if not (math.isfinite(value) and value > 0):
            yield f"{name} is no number above 0."
        elif value > _MOST.get(name, math.inf):
            yield f"{name} is above {_MOST[name]:,.0f}, which no device has; look at its unit."
    for name in _LISTS:
        steps = [step.get("gbs") if isinstance(step, dict) else step for step in row[name] or ()]
        if not all(step is not None and math.isfinite(step) and step > 0 for step in steps):
            yield f"{name} holds a number that is not above 0."
    known = [(name, row[name]) for name in _CACHES if row[name] is not None]
    # A GPU's first level is told of one multiprocessor, its second of all: the order holds there too.
    for (inner, smaller), (outer, larger) in itertools.pairwise(known):
        if smaller > larger:
            yield f"{inner} is larger than {outer}."
    if not row["device_id"].strip() or not row["kind"].strip():
        yield "device_id or kind is empty."


RULES = (
    TableRule(
        id="CH024",
        title="a device's figures are possible",
        severity="error",
        fix="Run costhub probe on the device and put its row again; leave out what is not known.",
        tables=("devices",),
        find=impossible_devices,
    ),
)
