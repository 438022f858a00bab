"""Provides device_vector, the numbers known about a device in the fixed layouts device@1 and device@2.

It also provides what programs need relative to them.
"""

from __future__ import annotations

import json
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

TARGET_NUMBERS = ("thread_warp_size", "max_threads_per_block", "max_shared_memory_per_block")
"""Attributes of a GPU's TVM target, which device@2 adds; targets of CPUs have none of them. They are read from the
column `target`: the table needs no columns that repeat it."""

_MOST = 1 << 60
"""No attribute of a target is as large; a whole number in JSON may be too large for a float."""

KINDS = ("cpu", "cuda", "rocm", "metal", "vulkan", "opencl")
"""TVM's device kinds that have a flag; all others share the last one."""
_OF_GPUS = [False, *(True for _ in KINDS[1:]), False]
"""Which flags are for GPUs: TVM makes programs for all of them by the same rules, for threads and shared memory."""

Vector = npt.NDArray[np.float64]


@dataclass(frozen=True)
class DeviceLayout:
    """What the entries of a vector are: the numbers, a flag for each that is not known, and the flags of the kind.

    Example:
        >>> len(DEVICE_1.names), len(DEVICE_2.names), DEVICE_2.names[DEVICE_2.missing][-1]
        (39, 45, 'no_max_shared_memory_per_block')
    """

    name: str
    """With its version: other entries make a new layout, since models hold vectors."""
    numbers: tuple[str, ...]
    relations: tuple[tuple[str, str], ...]
    """(column of a feature spec, number of a device). Both are logarithms to base 2, so their difference is that
    of a ratio; trees cannot compute it by themselves."""

    @property
    def names(self) -> tuple[str, ...]:
        """The names of the entries."""
        return (
            *(f"log2_{name}" for name in self.numbers),
            *(f"no_{name}" for name in self.numbers),
            *(f"is_{kind}" for kind in (*KINDS, "other")),
        )

    @property
    def known(self) -> slice:
        """Where the numbers are."""
        return slice(0, len(self.numbers))

    @property
    def missing(self) -> slice:
        """Where the flags of numbers that are not known are."""
        return slice(len(self.numbers), 2 * len(self.numbers))

    @property
    def kind(self) -> slice:
        """Where the flags of the kind are."""
        return slice(2 * len(self.numbers), len(self.names))


_BUFFERS = ("B0", "B1", "B2")  # Few statements have a fourth buffer.
_CACHES = ("l1d_bytes", "l2_bytes", "l3_bytes")
_TILES = range(1, 6)

_RELATIONS: tuple[tuple[str, str], ...] = (
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
    *((f"tile_{number}_bytes", cache) for number in _TILES for cache in _CACHES),
    ("parallel", "cores"),
    ("vectorized", "simd_bits"),
    ("tile_0_accumulators", "simd_bits"),
)

_GPU_RELATIONS: tuple[tuple[str, str], ...] = (
    # Does a tile fit the memory that a block's threads share? (tiles@1; relation@1)
    *((f"tile_{number}_bytes", "max_shared_memory_per_block") for number in _TILES),
    ("touch_bytes", "max_shared_memory_per_block"),
    # Do the threads of a block fill warps, and how far are they from the most that it can have?
    *((column, "thread_warp_size") for column in ("thread", "longest_thread")),
    *((column, "max_threads_per_block") for column in ("thread", "longest_thread")),
)

DEVICE_1 = DeviceLayout("device@1", NUMBERS, _RELATIONS)
DEVICE_2 = DeviceLayout("device@2", (*NUMBERS, *TARGET_NUMBERS), (*_RELATIONS, *_GPU_RELATIONS))
LAYOUTS = {layout.name: layout for layout in (DEVICE_1, DEVICE_2)}
"""Name -> layout."""


def device_vector(row: Mapping[str, Any], layout: DeviceLayout = DEVICE_1) -> Vector:
    """The vector of a device.

    Args:
        row: A row of the `devices` table. A number that is null, missing or not above 0 becomes 0, and its flag
            `no_...` says so.
        layout: What the entries are.

    Returns:
        (v,) the entries listed in `layout.names`.

    Raises:
        ModelError: The row does not say what kind of device it is.

    Example:
        >>> vector = device_vector({"device_id": "board", "kind": "cpu", "cores": 8})
        >>> [name for name, value in zip(DEVICE_1.names, vector) if value and not name.startswith("no_")]
        ['log2_cores', 'is_cpu']
    """
    kind = row.get("kind")
    if not isinstance(kind, str) or not kind:
        raise ModelError(
            f"Nothing is known about the device {row.get('device_id')!r}, and this model scores by what a "
            "device can do. Write its row with `costhub probe --out DATA`."
        )
    given = {**_of_target(row.get("target")), **{name: row.get(name) for name in NUMBERS}}
    values = [float(given.get(name) or 0.0) for name in layout.numbers]
    is_known = [0.0 < value < math.inf for value in values]
    numbers = [math.log2(value) if ok else 0.0 for value, ok in zip(values, is_known, strict=True)]
    flag = kind if kind in KINDS else "other"
    flags = [flag == name for name in (*KINDS, "other")]
    return np.array([*numbers, *(not ok for ok in is_known), *flags], np.float64)


def _of_target(target: object) -> dict[str, int]:
    """TARGET_NUMBERS of a target as JSON; none if it is in another form."""
    try:
        found = json.loads(target) if isinstance(target, str) else None
    except (ValueError, RecursionError):
        return {}
    attributes = found if isinstance(found, dict) else {}
    held = {name: attributes.get(name) for name in TARGET_NUMBERS}
    return {name: value for name, value in held.items() if type(value) is int and 0 < value < _MOST}


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
    layout: DeviceLayout = DEVICE_1

    @classmethod
    def fit(cls, vectors: Vector, layout: DeviceLayout = DEVICE_1) -> DeviceScaler:
        """The scaler of (k, v) vectors, one per device."""
        known = np.ones(vectors.shape, bool)
        known[:, layout.known] = vectors[:, layout.missing] == 0
        having = np.maximum(known.sum(axis=0), 1)
        mean = (vectors * known).sum(axis=0) / having
        std = np.sqrt((np.square(vectors - mean) * known).sum(axis=0) / having)
        apart = std > 1e-6
        return cls(mean, np.where(apart, 1.0 / np.where(apart, std, 1.0), 0.0), layout)

    def filled(self, vector: Vector) -> Vector:
        """(..., v) the vectors with the mean in place of numbers that are not known."""
        missing = np.zeros(vector.shape, bool)
        missing[..., self.layout.known] = vector[..., self.layout.missing] > 0
        return np.where(missing, self.mean, vector)

    def __call__(self, vector: Vector) -> Vector:
        """(..., v) standardised entries; 0 where the number is not known or the entry is masked."""
        return (self.filled(vector) - self.mean) * self.inverse_std

    def knows_kind(self, vector: Vector) -> bool:
        """Whether one of the devices was of the same kind as this one, or both are GPUs."""
        learned, flags = self.mean[self.layout.kind], vector[self.layout.kind]
        return bool((learned * flags).sum() > 0 or (flags[_OF_GPUS].any() and learned[_OF_GPUS].any()))


def relation_places(feature_spec: str, layout: DeviceLayout = DEVICE_1) -> tuple[tuple[int, int], ...]:
    """The positions of the two sides of each relation: (column of a row, entry of a device vector).

    Args:
        feature_spec: Name of the layout; a layout without any of the columns, or one that is not costhub's, has no
            relations.
        layout: Of the device vectors.

    Example:
        >>> len(relation_places("per_store@1")), relation_places("trace_tokens@1")
        (26, ())
    """
    try:
        columns = find_spec(feature_spec).columns
    except UnknownNameError:
        return ()
    place = {name: number for number, name in enumerate(columns)}
    entries = layout.names
    return tuple(
        (place[column], entries.index(f"log2_{number}")) for column, number in layout.relations if column in place
    )


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
