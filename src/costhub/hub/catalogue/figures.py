"""Provides FIGURES and low_figures: what a probe measures, and which of it is far below the index's figures."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

FIGURES = (
    ("peak_gflops", "float32", "GFLOP/s"),
    ("peak_gflops_float64", "float64", "GFLOP/s"),
    ("peak_gflops_float16", "float16", "GFLOP/s"),
    ("peak_gflops_bfloat16", "bfloat16", "GFLOP/s"),
    ("peak_gops_int8", "int8", "10^9 operations/s"),
    ("l1_gbs", "reading L1", "GB/s"),
    ("l2_gbs", "reading L2", "GB/s"),
    ("l3_gbs", "reading L3", "GB/s"),
    ("dram_gbs", "reading memory", "GB/s"),
    ("launch_overhead_us", "an empty program", "us"),
)
"""Column of the devices table, what it is, and its unit."""
MOST_DIFFERENCE = 1.5
"""Allowed ratio between two probes of one device; the roofline of a contribution is only as good as its probe."""


def low_figures(row: Mapping[str, Any]) -> list[str]:
    """The figures of a device that are far below those of the device index, since other programs disturbed the probe.

    Args:
        row: The device's row of the devices table.

    Returns:
        A sentence for each; none if the index does not know the device.

    Example:
        >>> low_figures({"device_id": "amd-epyc-zen5-2c", "peak_gflops": 200.0})
        ['float32 is 2.6 times lower than the device index says (514.2 GFLOP/s).']
        >>> low_figures({"device_id": "toaster", "peak_gflops": 1.0})
        []
    """
    from costhub.hub.catalogue.devices import find_device

    device = find_device(str(row["device_id"]))
    known = device.row() if device else {}
    sentences = []
    for key, what, unit in FIGURES:
        before, now = known.get(key), row.get(key)
        if unit != "us" and before and now and before / now > MOST_DIFFERENCE:
            times = f"{before / now:.1f} times lower than the device index says"
            sentences.append(f"{what} is {times} ({before:,.4g} {unit}).")
    return sentences
