"""Provides device_vector, the numbers known about a device in the fixed layout device@1.

It also provides what programs need relative to them.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from costhub.dataset.features.specs import find_spec
from costhub.dataset.programs import FloatArray
from costhub.errors import ModelError, UnknownNameError

NUMBERS = (
    "cores",
    "simd_bits",
    "l1d_bytes",
    "l2_bytes",
    "l3_bytes",
    "memory_bytes",
    "peak_gflops",
    "peak_gflops_float64",
    "peak_gflops_float16",
    "peak_gflops_bfloat16",
    "peak_gops_int8",
    "l1_gbs",
    "l2_gbs",
    "l3_gbs",
    "dram_gbs",
    "launch_overhead_us",
)
"""Columns of the `devices` table; each enters as its log2, since what matters is how many times more of it one
device has than another."""

KINDS = ("cpu", "cuda", "rocm", "metal", "vulkan", "opencl")
"""TVM's device kinds that have a flag; all others share the last one."""
_OF_GPUS = [False, *(True for _ in KINDS[1:]), False]
"""Which flags are for GPUs: TVM makes programs for all of them by the same rules, for threads and shared memory."""

NAMES: tuple[str, ...] = (
    *(f"log2_{name}" for name in NUMBERS),
    *(f"no_{name}" for name in NUMBERS),
    *(f"is_{kind}" for kind in (*KINDS, "other")),
)
"""The names of the entries of a vector; changing them makes a new layout, with a new version in its name."""

Vector = npt.NDArray[np.float64]

_KNOWN = slice(0, len(NUMBERS))
_MISSING = slice(len(NUMBERS), 2 * len(NUMBERS))
_KIND = slice(2 * len(NUMBERS), len(NAMES))


def device_vector(row: Mapping[str, Any]) -> Vector:
    """The vector of a device.

    Args:
        row: A row of the `devices` table. A number that is null, missing or not above 0 becomes 0, and its flag
            `no_...` says so.

    Returns:
        (v,) the entries listed in `NAMES`.

    Raises:
        ModelError: The row does not say what kind of device it is.

    Example:
        >>> vector = device_vector({"device_id": "board", "kind": "cpu", "cores": 8})
        >>> [name for name, value in zip(NAMES, vector) if value and not name.startswith("no_")]
        ['log2_cores', 'is_cpu']
    """
    kind = row.get("kind")
    if not isinstance(kind, str) or not kind:
        raise ModelError(
            f"Nothing is known about the device {row.get('device_id')!r}, and this model scores by what a "
            "device can do. Write its row with `costhub probe --out DATA`."
        )
    values = [float(row.get(name) or 0.0) for name in NUMBERS]
    is_known = [0.0 < value < math.inf for value in values]
    numbers = [math.log2(value) if ok else 0.0 for value, ok in zip(values, is_known, strict=True)]
    flag = kind if kind in KINDS else "other"
    flags = [flag == name for name in (*KINDS, "other")]
    return np.array([*numbers, *(not ok for ok in is_known), *flags], np.float64)


@dataclass(frozen=True)
class DeviceScaler:
    """Standardises vectors by the devices learned from; numbers that are not known are taken as their mean.

    Example:
        >>> rows = [{"kind": "cpu", "cores": 1, "dram_gbs": 20.0}, {"kind": "cpu", "cores": 4}]
        >>> scaler = DeviceScaler.fit(np.stack([device_vector(row) for row in rows]))
        >>> scaler(device_vector({"kind": "cpu", "cores": 2}))[:2].tolist()
        [0.0, 0.0]
    """

    mean: Vector
    """(v,) mean over the devices; for a number, over those that have it."""
    inverse_std: Vector
    """(v,) 1 / standard deviation; 0 where the devices do not differ, which masks the entry: a model cannot have
    learned from what it has never seen change."""

    @classmethod
    def fit(cls, vectors: Vector) -> DeviceScaler:
        """The scaler of (k, v) vectors, one per device."""
        known = np.ones(vectors.shape, bool)
        known[:, _KNOWN] = vectors[:, _MISSING] == 0
        having = np.maximum(known.sum(axis=0), 1)
        mean = (vectors * known).sum(axis=0) / having
        std = np.sqrt((np.square(vectors - mean) * known).sum(axis=0) / having)
        apart = std > 1e-6
        return cls(mean, np.where(apart, 1.0 / np.where(apart, std, 1.0), 0.0))

    def filled(self, vector: Vector) -> Vector:
        """(..., v) the vectors with the mean in place of numbers that are not known."""
        missing = np.zeros(vector.shape, bool)
        missing[..., _KNOWN] = vector[..., _MISSING] > 0
        return np.where(missing, self.mean, vector)

    def __call__(self, vector: Vector) -> Vector:
        """(..., v) standardised entries; 0 where the number is not known or the entry is masked."""
        return (self.filled(vector) - self.mean) * self.inverse_std

    def knows_kind(self, vector: Vector) -> bool:
        """Whether one of the devices was of the same kind as this one, or both are GPUs."""
        learned, flags = self.mean[_KIND], vector[_KIND]
        return bool((learned * flags).sum() > 0 or (flags[_OF_GPUS].any() and learned[_OF_GPUS].any()))


_BUFFERS = ("B0", "B1", "B2")  # Few statements have a fourth buffer.
_CACHES = ("l1d_bytes", "l2_bytes", "l3_bytes")

RELATIONS: tuple[tuple[str, str], ...] = (
    # Does what is touched between two uses of a buffer, or the whole buffer, stay in a cache?
    *((f"{buffer}.reuse_dis_bytes", cache) for buffer in _BUFFERS for cache in _CACHES),
    *((f"{buffer}.unique_bytes", cache) for buffer in _BUFFERS for cache in _CACHES),
    # How long do memory and arithmetic take at least?
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
of a ratio; trees cannot compute it by themselves."""


def relation_places(feature_spec: str) -> tuple[tuple[int, int], ...]:
    """The positions of the two sides of each relation: (column of a row, entry of a device vector).

    Args:
        feature_spec: Name of the layout; a layout without any of the columns, or one that is not costhub's, has no
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
    return tuple((place[column], NAMES.index(f"log2_{number}")) for column, number in RELATIONS if column in place)


def relation_columns(rows: FloatArray, numbers: Vector, places: tuple[tuple[int, int], ...]) -> FloatArray:
    """The relations of program rows to devices.

    Args:
        rows: (r, d) feature rows.
        numbers: (r, v) vector of each row's device, without gaps.
        places: What `relation_places` found, m of them.

    Returns:
        (r, m) differences of logarithms.

    Example:
        >>> relation_columns(np.array([[15.0]], np.float32), np.array([[14.0]]), ((0, 0),)).tolist()
        [[1.0]]
    """
    columns, entries = ([pair[side] for pair in places] for side in (0, 1))
    return (rows[:, columns] - numbers[:, entries]).astype(np.float32)
