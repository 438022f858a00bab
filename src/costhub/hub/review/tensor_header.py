"""Provides check_tensor_header: what a safetensors file says it holds, added up before anything is read."""

from __future__ import annotations

import json
import math
from pathlib import Path
from typing import Any

from costhub.errors import ModelError

MAX_HEADER_BYTES = 1 << 20
MAX_TENSORS = 10_000
_BYTES = {"F32": 4, "F64": 8, "I64": 8}


def check_tensor_header(path: Path) -> None:
    """Checks that the tensors of a file fill it from end to end, and are of the types that models have.

    Raises:
        ModelError: They do not.
    """
    size = path.stat().st_size
    with path.open("rb") as file:
        length = int.from_bytes(file.read(8), "little")
        if length > min(MAX_HEADER_BYTES, size - 8):
            raise ModelError(
                f"{path.name} has a header of {length:,} bytes, more than a cost model has. Fetch it again."
            )
        raw = file.read(length)
    try:
        header = json.loads(raw)
        tensors = {name: entry for name, entry in header.items() if name != "__metadata__"}
        ends = [_place(entry) for entry in tensors.values()]
    except (ValueError, TypeError, KeyError, AttributeError, RecursionError) as error:
        raise ModelError(
            f"{path.name} has a header that cannot be read ({type(error).__name__}). Fetch it again."
        ) from error
    if not tensors or len(tensors) > MAX_TENSORS:
        raise ModelError(f"{path.name} holds {len(tensors):,} tensors; 1 to {MAX_TENSORS:,} were expected.")
    position = 0
    for start, end in sorted(ends):
        if start != position:
            raise ModelError(f"{path.name} has tensors that overlap or leave gaps. Fetch it again.")
        position = end
    if position != size - 8 - length:
        raise ModelError(
            f"{path.name} describes {position:,} bytes of tensors and holds {size - 8 - length:,}. "
            "Fetch it again."
        )


def _place(entry: dict[str, Any]) -> tuple[int, int]:
    """Where a tensor begins and ends.

    Raises:
        ValueError: Its type, shape and place do not go together.
    """
    shape, (start, end) = entry["shape"], entry["data_offsets"]
    if not all(type(number) is int and number >= 0 for number in (*shape, start, end)):
        raise ValueError("no whole numbers")
    if end - start != _BYTES[entry["dtype"]] * math.prod(shape):
        raise ValueError("shape and place differ")
    return start, end
