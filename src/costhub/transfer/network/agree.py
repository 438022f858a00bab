"""Provides difference: whether two forms of a network compute the same."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from costhub.collector.output_check import EPSILON, tolerance, unlike

TERMS = 1
"""Of the sums that the tolerance is for; errors of long sums are far below the least tolerance."""
TOLERANCE = tolerance("float32", TERMS)
"""Relative to the size of an output plus the mean size of all of them; float32."""


def tolerance_of(outputs: Sequence[Any]) -> float:
    """The widest tolerance among outputs; that of float32 where none is a floating point number.

    Args:
        outputs: NumPy arrays.

    Example:
        >>> tolerance_of([np.ones(3, np.float32)]), tolerance_of([np.ones(3, np.float16)])
        (0.0002, 0.01)
    """
    types = {str(output.dtype) for output in outputs}
    return max((tolerance(dtype, TERMS) for dtype in types & EPSILON.keys()), default=TOLERANCE)


def difference(found: Sequence[Any], wanted: Sequence[Any]) -> str | None:
    """How outputs differ by more than rounding, as the end of a sentence; None where they do not.

    Args:
        found: NumPy arrays.
        wanted: Those of the other form.

    Example:
        >>> one = np.ones(3, np.float32)
        >>> difference([one], [one + 1e-6])
        >>> difference([one], [one + 1])
        'output 0 differs in 3 of 3 elements, by up to 1'
    """
    if len(found) != len(wanted):
        return f"there are {len(found)} outputs instead of {len(wanted)}"
    for position, (one, other) in enumerate(zip(found, wanted, strict=True)):
        if one.shape != other.shape or one.dtype != other.dtype:
            return f"output {position} is {_kind(one)} instead of {_kind(other)}"
        if other.dtype.kind == "f" and other.size and not np.isfinite(other).any():
            return f"output {position} has no number that could be compared"
        said = unlike(one, other, reduction=TERMS, rounds=False)
        if said:
            return f"output {position} {said}"
    return None


def _kind(array: Any) -> str:
    return f"{'x'.join(map(str, array.shape)) or 'one number'} of {array.dtype}"
