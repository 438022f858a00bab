"""Provides every_choice: all combinations of the options that a benchmark tries."""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Mapping, Sequence
from typing import Any


def every_choice(grid: Mapping[str, Sequence[Any]]) -> Iterator[dict[str, Any]]:
    """Each combination of the values of a grid, by the names of its options.

    Example:
        >>> list(every_choice({"a": (1, 2), "b": (3,)}))
        [{'a': 1, 'b': 3}, {'a': 2, 'b': 3}]
    """
    for values in itertools.product(*grid.values()):
        yield dict(zip(grid, values, strict=True))
