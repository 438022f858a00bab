"""Provides related: what a program needs over what a device has, as columns beside the program's own."""

from __future__ import annotations

import numpy as np

from costhub.dataset.features.spec import find_spec
from costhub.dataset.programs import FloatArray
from costhub.errors import UnknownNameError
from costhub.models.compound.device_vector import NAMES, Vector

_BUFFERS = ("B0", "B1", "B2")  # Few statements have a fourth buffer.
_CACHES = ("l1d_bytes", "l2_bytes", "l3_bytes")

RELATIONS: tuple[tuple[str, str], ...] = (
    # Does what is touched between two uses of a buffer, or all of it, stay in a cache?
    *((f"{buffer}.reuse_dis_bytes", cache) for buffer in _BUFFERS for cache in _CACHES),
    *((f"{buffer}.unique_bytes", cache) for buffer in _BUFFERS for cache in _CACHES),
    # How long do memory and arithmetic take at the least?
    *((f"{buffer}.lines", "dram_gbs") for buffer in _BUFFERS),
    *((f"float_{name}", "peak_gflops") for name in ("mad", "add_sub", "mul")),
    # Is there work for every core and every lane?
    ("parallel_prod", "cores"),
    ("vectorize_prod", "simd_bits"),
    # The same of relation@1.
    *(("touch_bytes", cache) for cache in _CACHES),
    *((f"work_{name}", "peak_gflops") for name in ("add_sub", "mul")),
    ("longest_parallel", "cores"),
    # The same of tiles@1: the tile inside each run of loops, the threads, the lanes.
    *((f"tile_{number}_bytes", cache) for number in range(1, 6) for cache in _CACHES),
    ("parallel", "cores"),
    ("vectorized", "simd_bits"),
    ("tile_0_accumulators", "simd_bits"),
)
"""(column of a feature spec, number of a device). Both are logarithms to base 2, so their difference is that
of a ratio; trees cannot take it by themselves."""


def relation_places(feature_spec: str) -> tuple[tuple[int, int], ...]:
    """Where the two sides of each relation stand: (column of a row, entry of a device vector).

    Args:
        feature_spec: Name of the layout; one that has none of the columns, or is not costhub's, has no
            relations.

    Example:
        >>> len(relation_places("per_store@1")), relation_places("trace_tokens@1")
        (26, ())
    """
    try:
        columns = find_spec(feature_spec).columns
    except UnknownNameError:
        return ()
    place = {name: number for number, name in enumerate(columns)}
    return tuple(
        (place[column], NAMES.index(f"log2_{number}")) for column, number in RELATIONS if column in place
    )


def related(rows: FloatArray, numbers: Vector, places: tuple[tuple[int, int], ...]) -> FloatArray:
    """The relations of program rows to devices.

    Args:
        rows: (r, d) feature rows.
        numbers: (r, v) vector of the device of each, without gaps.
        places: What `relation_places` found, m of them.

    Returns:
        (r, m) differences of logarithms.

    Example:
        >>> related(np.array([[15.0]], np.float32), np.array([[14.0]]), ((0, 0),)).tolist()
        [[1.0]]
    """
    columns, entries = ([pair[side] for pair in places] for side in (0, 1))
    return (rows[:, columns] - numbers[:, entries]).astype(np.float32)
