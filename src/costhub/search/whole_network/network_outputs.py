"""Provides compare_outputs and rms_error: what two forms of a network computed, and how far apart they are."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from costhub.collector.run.output_check import EPSILON, tolerance, unlike

SUMMED_TERMS = 1
"""Terms of the sums that the tolerance is for; errors of long sums are far below the lowest tolerance."""
TOLERANCE = tolerance("float32", SUMMED_TERMS)
"""Relative to the size of an output plus the mean size of all of them; float32."""
BF16_TOLERANCE = 0.1
"""Of the error (`rms_error`) of a network that multiplies in bfloat16."""
GPU_TOLERANCE = 1e-3
"""The same on GPUs: TVM has their code compiled with fast math, whose divisions and functions are approximate."""


def widest_tolerance(outputs: Sequence[Any]) -> float:
    """The widest tolerance among outputs; that of float32 if none is a floating point number.

    Args:
        outputs: NumPy arrays.

    Example:
        >>> widest_tolerance([np.ones(3, np.float32)]), widest_tolerance([np.ones(3, np.float16)])
        (0.0002, 0.01)
    """
    types = {str(output.dtype) for output in outputs}
    return max((tolerance(dtype, SUMMED_TERMS) for dtype in types & EPSILON.keys()), default=TOLERANCE)


def rms_error(outputs: Sequence[Any], reference: Sequence[Any]) -> float | None:
    """Size of the differences between outputs relative to that of the outputs, as root mean squares; the largest.

    Args:
        outputs: NumPy arrays.
        reference: The outputs of the other form.

    Returns:
        None if no output is a floating point number other than zero, or if outputs differ in more than the size of
        such numbers: in count, shape, type, integers, or where they are infinite or NaN.

    Example:
        >>> one = np.array([3.0, 4.0], np.float32)
        >>> rms_error([one], [one + 0.1])
        0.0275
    """
    if len(outputs) != len(reference):
        return None
    found = []
    for one, other in zip(outputs, reference, strict=True):
        finite = np.isfinite(other)
        if one.shape != other.shape or one.dtype != other.dtype or not np.isfinite(one[finite]).all():
            return None
        exact = ~finite if other.dtype.kind == "f" else np.ones(other.shape, bool)
        if not np.array_equal(one[exact], other[exact], equal_nan=other.dtype.kind == "f"):
            return None
        here, there = (value[finite & ~exact].astype(np.float64) for value in (one, other))
        size = _rms(there)
        if size > 0:
            found.append(_rms(here - there) / size)
    return float(f"{max(found):.3g}") if found else None


def _rms(values: Any) -> float:
    return float(np.sqrt(np.mean(np.square(values)))) if values.size else 0.0


def compare_outputs(outputs: Sequence[Any], reference: Sequence[Any]) -> str | None:
    """How outputs differ by more than rounding, as the end of a sentence; None if they do not.

    Args:
        outputs: NumPy arrays.
        reference: The outputs of the other form.

    Example:
        >>> one = np.ones(3, np.float32)
        >>> compare_outputs([one], [one + 1e-6])
        >>> compare_outputs([one], [one + 1])
        'output 0 differs in 3 of 3 elements, by up to 1'
    """
    if len(outputs) != len(reference):
        return f"there are {len(outputs)} outputs instead of {len(reference)}"
    for position, (one, other) in enumerate(zip(outputs, reference, strict=True)):
        if one.shape != other.shape or one.dtype != other.dtype:
            return f"output {position} is {_shape_and_dtype(one)} instead of {_shape_and_dtype(other)}"
        if other.dtype.kind == "f" and other.size and not np.isfinite(other).any():
            return f"output {position} has no finite number to compare"
        mismatch = unlike(one, other, reduction=SUMMED_TERMS, rounds=False)
        if mismatch:
            return f"output {position} {mismatch}"
    return None


def _shape_and_dtype(array: Any) -> str:
    return f"{'x'.join(map(str, array.shape)) or 'one number'} of {array.dtype}"
