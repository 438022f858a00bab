"""Provides workload_numbers, the demands of a workload on a device, in the fixed layout workload@1.

It is independent of any schedule: the numbers describe the blocks, their loops and buffers.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from costhub.dataset.operator_class import FAMILIES, BlockFacts, classify, read_blocks
from costhub.dataset.workload import count_flop

_LOGARITHMS = (
    "flop",
    "input_bytes",
    "output_bytes",
    "between_bytes",
    "largest_input_bytes",
    "smallest_input_bytes",
    "spatial",
    "spatial_outermost",
    "spatial_longest",
    "spatial_second",
    "spatial_innermost",
    "reduction",
    "reduction_longest",
    "reduction_innermost",
    "window",
    "calls",
)
"""Each is stored as log2. `between_bytes` is of buffers that are neither arguments nor results; `spatial_...` and
`reduction_...` are products or lengths of loops of the block with the most work; `window` is the product of its
reduction loops that are no longer than a convolution's window; `calls` counts exp, sqrt and the like."""
_COUNTS = ("blocks", "arguments", "spatial_loops", "reduction_loops", "innermost_twos", "spatial_twos")
"""`..._twos`: how often 2 divides the innermost spatial loop, or all of them together, up to 6."""
_RATIOS = ("flop_per_byte", "work_of_others", "calls_per_step", "flop_per_step")
"""Also log2; a step is an iteration of the block with the most work."""

NAMES: tuple[str, ...] = (*_LOGARITHMS, *_COUNTS, *_RATIOS, *(f"is_{family}" for family in FAMILIES))
"""The names of the entries; changing them makes a new layout with a new version in its name."""
LAYOUT = "workload@1"

Vector = npt.NDArray[np.float64]
_LONGEST_WINDOW = 11
_NO_WORK = ("if_then_else", "likely")
"""Operations that guard an index or a border."""
_MOST_TWOS = 6


def workload_numbers(mod: Any) -> Vector:
    """Computes the numbers of a workload.

    Args:
        mod: The workload, a ``tvm.IRModule`` that is not scheduled.

    Returns:
        (w,) the entries named by `NAMES`.
    """
    blocks = read_blocks(mod)
    main = max(blocks, key=lambda block: block.work)
    inputs, outputs, between = _bytes(mod, blocks)
    flop, spatial, reduction = count_flop(mod), _long(main.spatial), _long(main.reduction)
    calls = sum(
        block.work * len([name for name in block.calls if name.rpartition(".")[2] not in _NO_WORK]) for block in blocks
    )
    logarithms = (
        flop,
        sum(inputs),
        sum(outputs),
        sum(between),
        max(inputs, default=0),
        min(inputs, default=0),
        math.prod(spatial),
        spatial[0],
        max(spatial),
        spatial[-2] if len(spatial) > 1 else 1,
        spatial[-1],
        math.prod(reduction),
        max(reduction),
        reduction[-1],
        math.prod(n for n in reduction if n <= _LONGEST_WINDOW) if len(reduction) > 1 else 1,
        calls,
    )
    counts = (len(blocks), len(inputs) + len(outputs), len(spatial), len(reduction))
    twos = (_twos(spatial[-1]), _twos(math.prod(spatial)))
    ratios = (
        flop / max(sum(inputs) + sum(outputs), 1),
        sum(block.work for block in blocks) / main.work,
        1 + calls / main.work,
        flop / main.work,
    )
    family = classify(mod)
    return np.array(
        [
            *(math.log2(max(value, 1)) for value in logarithms),
            *counts,
            *twos,
            *(math.log2(max(value, 2.0**-20)) for value in ratios),
            *(family == name for name in FAMILIES),
        ],
        np.float64,
    )


def _bytes(mod: Any, blocks: Sequence[BlockFacts]) -> tuple[list[int], list[int], list[int]]:
    """Bytes of each argument that is read only, of each that is written, and of each other buffer."""
    arguments = list(mod["main"].params)
    written = [block.buffer for block in blocks if block.buffer is not None]
    inner: list[Any] = []
    for buffer in written:
        if not any(buffer.same_as(other) for other in (*arguments, *inner)):
            inner.append(buffer)
    outputs = [each for each in arguments if any(each.same_as(buffer) for buffer in written)]
    inputs = [each for each in arguments if not any(each.same_as(other) for other in outputs)]
    return [_size(b) for b in inputs], [_size(b) for b in outputs], [_size(b) for b in inner]


def _size(buffer: Any) -> int:
    kind = buffer.ty
    digits = "".join(letter for letter in str(kind.dtype).split("x")[0] if letter.isdigit())
    return math.prod(_extent(length) for length in kind.shape) * max(1, int(digits or 8) // 8)


def _extent(value: Any) -> int:
    """A length; one known only at run time counts as 1."""
    return int(getattr(value, "value", 1))


def _long(loops: Mapping[Any, int]) -> tuple[int, ...]:
    """The loops of more than one iteration; one of them if there is none."""
    return tuple(length for length in loops.values() if length > 1) or (1,)


def _twos(number: int) -> int:
    return min(_MOST_TWOS, (number & -number).bit_length() - 1)
