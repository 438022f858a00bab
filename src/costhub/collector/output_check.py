"""Provides Expected: what a workload's default program computes, and whether another one computes it too."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

from costhub.collector.arguments import Arguments, on_host, to_device
from costhub.collector.relayout import relaid

# Sums in another order differ by about eps * sqrt(terms), relative to their size. The least tolerance leaves
# room for other formulas (Winograd's), the largest still finds a program that is wrong by half.
ROUNDING = 4.0
EPSILON = {"float64": 2.0**-52, "float32": 2.0**-23, "float16": 2.0**-10, "bfloat16": 2.0**-7}
LEAST = {"float64": 1e-10, "float32": 2e-4, "float16": 1e-2, "bfloat16": 5e-2}
LARGEST = 0.5
"""Also for types of 8 bits or less."""

Call = Callable[[list[Any]], object]
"""Runs a program on tensors of its device and waits for it."""


def tolerance(dtype: str, reduction: int) -> float:
    """Relative difference that rounding may make in sums of that many terms.

    Example:
        >>> tolerance("float32", 1), tolerance("float16", 16)
        (0.0002, 0.015625)
    """
    rounding = ROUNDING * EPSILON.get(dtype, 1.0) * math.sqrt(reduction)
    return min(LARGEST, max(LEAST.get(dtype, LARGEST), rounding))


@dataclass(frozen=True)
class Expected:
    """The arguments of a workload before and after its default program."""

    arguments: Arguments
    before: list[Any]
    after: dict[int, Any]
    """By position, the arguments that the default program writes."""
    reduction: int

    @classmethod
    def of(cls, call: Call, arguments: Arguments, device: Any, reduction: int) -> Expected:
        """Runs the default program; an argument is an output where its content has changed."""
        before = on_host(arguments)
        tensors = [to_device(value, device) for value in before]
        call(tensors)
        after = {i: t.numpy() for i, t in enumerate(tensors) if not _same(t.numpy(), before[i])}
        return cls(arguments, before, after, reduction)

    def difference(
        self, call: Call, arguments: Arguments, module_json: str | None, device: Any
    ) -> str | None:
        """Runs a program of the workload; a sentence where it computes something else, None where not.

        Args:
            call: Runs the program.
            arguments: Of the program, whose weights may have another layout.
            module_json: The scheduled module, which says what layout.
            device: The program's.

        Raises:
            ValueError: The layout is unknown, so nothing can be compared.
        """
        values = relaid(self.before, module_json or "", [shape for _, shape in arguments])
        if tuple((str(v.dtype), v.shape) for v in values) != arguments:
            raise ValueError("the arguments are in a layout that the module does not describe")
        rounds = any("float" in dtype for dtype, _ in arguments)
        tensors = [to_device(value, device) for value in values]
        call(tensors)
        for position, tensor in enumerate(tensors):
            output = tensor.numpy()
            if position in self.after:
                problem = unlike(output, self.after[position], reduction=self.reduction, rounds=rounds)
            else:
                problem = None if _same(output, values[position]) else "was written, but is not an output"
            if problem:
                return f"argument {position} {problem}"
        return None


def unlike(output: Any, expected: Any, *, reduction: int, rounds: bool) -> str | None:
    """How an output differs from what it should be by more than rounding; None where it does not.

    Args:
        output: The output, which has the same shape as `expected`.
        expected: What the default program computes.
        reduction: Terms of the longest sum.
        rounds: Integers may be rounded from floating point, and differ by one.
    """
    dtype = str(expected.dtype)
    if "float" not in dtype:
        off = np.abs(output.astype(np.int64) - expected.astype(np.int64))
        wrong = int((off > (rounds and dtype != "bool")).sum())
        return f"differs in {wrong} of {expected.size} elements" if wrong else None
    output, expected = output.astype(np.float64), expected.astype(np.float64)
    finite = np.isfinite(expected)
    if not np.array_equal(output[~finite], expected[~finite], equal_nan=True):
        return "has finite numbers where infinities or NaN were expected"
    if not np.isfinite(output[finite]).all():
        wrong = int((~np.isfinite(output[finite])).sum())
        return f"has {wrong} infinities or NaN where numbers were expected"
    # Relative to the usual size as well: where terms cancel, a small result is as exact as its large terms.
    size = np.abs(expected[finite])
    allowed = tolerance(dtype, reduction) * (size + (size.mean() if size.size else 0.0))
    off = np.abs(output[finite] - expected[finite])
    wrong = int((off > allowed).sum())
    return f"differs in {wrong} of {expected.size} elements, by up to {off.max():.3g}" if wrong else None


def _same(a: Any, b: Any) -> bool:
    # By bytes: NaN is not equal to itself, and small types cannot all be compared.
    a, b = (np.ascontiguousarray(value).view(np.uint8) for value in (a, b))
    return bool(np.array_equal(a, b))
