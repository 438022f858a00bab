"""Provides the arguments of a program: numbers that do not distort its speed or its control flow."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

ARGUMENT_CACHE_BYTES = 1 << 30
LARGEST_INTEGER = 7

Arguments = tuple[tuple[str, tuple[int, ...]], ...]
"""(dtype, shape) of each argument of a program."""

_held: dict[tuple[str, Arguments], list[Any]] = {}


def on_device(arguments: Arguments, device_kind: str, device: Any) -> list[Any]:
    """Tensors of these types and shapes on the device, filled as `on_host` fills them.

    They are kept between the programs of one workload, as filling them costs as much as running.
    """
    key = (device_kind, arguments)
    if key not in _held:
        if sum(nbytes(kept) for _, kept in _held) + nbytes(arguments) > ARGUMENT_CACHE_BYTES:
            _held.clear()
        _held[key] = [to_device(value, device) for value in on_host(arguments)]
    return _held[key]


def forget() -> None:
    """Drops the tensors kept on devices, which a wrong program may have written over."""
    _held.clear()


def to_device(value: Any, device: Any) -> Any:
    """A copy of the array on the device."""
    import tvm

    return tvm.runtime.tensor(value, device)


def on_host(arguments: Arguments) -> list[Any]:
    """The same arrays for the same arguments, every time.

    Floating point: [0.1, 1), as zeros and denormals run at another speed than the numbers of a real network.
    Integers: from 1 to 7 but less than any extent over 1, as they may be indices into another argument, and
    an index out of range ends the process; truth values: both.

    Example:
        >>> [float(v.min()) >= 0.1 for v in on_host((("float16", (2, 3)), ("float64", (4,))))]
        [True, True]
        >>> on_host((("int64", (3,)), ("float32", (2, 2))))[0].tolist()
        [1, 1, 1]
    """
    import tvm  # noqa: F401 - makes NumPy know bfloat16 and its like

    extents = [extent for _, shape in arguments for extent in shape if extent > 1]
    largest = min(LARGEST_INTEGER, min(extents, default=2) - 1)
    rng = np.random.default_rng(0)
    return [_values(rng, dtype, shape, largest) for dtype, shape in arguments]


def nbytes(arguments: Arguments) -> int:
    """Bytes of all arguments together.

    Example:
        >>> nbytes((("float32", (2, 3)), ("int8", (4,))))
        28
    """
    return sum(math.prod(shape) * np.dtype(dtype).itemsize for dtype, shape in arguments)


def _values(rng: np.random.Generator, dtype: str, shape: tuple[int, ...], largest: int) -> Any:
    if dtype == "bool":
        return rng.integers(0, 2, shape).astype(bool)
    if "int" in dtype:
        return rng.integers(1, largest + 1, shape).astype(dtype)
    if dtype == "float64":
        return rng.uniform(0.1, 1.0, shape)
    values = rng.random(shape, dtype=np.float32) * np.float32(0.9) + np.float32(0.1)
    # Rounding up to 1 is harmless; a type of few bits must not round down to a denormal.
    return np.asarray(values).astype(dtype)
