"""Provides the rule on workloads: a row of the workloads table agrees with itself."""

from __future__ import annotations

import json
import math
from collections.abc import Iterator
from typing import Any

import numpy as np

from costhub.dataset.check.rule import TableRule


def impossible_workloads(row: dict[str, Any]) -> Iterator[str]:
    """Finds rows whose shapes, dtypes, FLOP and bytes do not go together."""
    if not (math.isfinite(row["flop"]) and row["flop"] >= 0):
        yield "flop is no number from 0."
    shapes = _shapes(row["shapes"])
    if shapes is None:
        yield "shapes is not the JSON of a list of shapes."
    elif len(shapes) != len(row["dtypes"]):
        yield "shapes and dtypes are of another number of arguments."
    else:
        size = _bytes(shapes, row["dtypes"])
        if size is not None and size != row["bytes"]:
            yield "bytes is not what shapes and dtypes make."
    weights = [network["weight"] for network in row["networks"] or () if network is not None]
    if not all(weight is not None and math.isfinite(weight) and weight > 0 for weight in weights):
        yield "a network's weight is no number above 0."


def _shapes(text: str) -> list[list[int]] | None:
    try:
        shapes = json.loads(text)
    except (ValueError, RecursionError):
        return None
    sound = isinstance(shapes, list) and all(
        isinstance(shape, list) and all(type(extent) is int and extent >= 0 for extent in shape)
        for shape in shapes
    )
    return shapes if sound else None


def _bytes(shapes: list[list[int]], dtypes: list[str]) -> float | None:
    """Bytes of all arguments; None where a dtype is one that numpy does not know."""
    try:
        sizes = [np.dtype(dtype).itemsize for dtype in dtypes]
    except TypeError:
        return None
    return float(sum(math.prod(shape) * size for shape, size in zip(shapes, sizes, strict=True)))


RULES = (
    TableRule(
        id="CH020",
        title="a workload's shapes, dtypes, FLOP and bytes go together",
        severity="error",
        fix="Make the row with costhub.dataset.workload_row.workload_row and put it again.",
        tables=("workloads",),
        find=impossible_workloads,
    ),
)
