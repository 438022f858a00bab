"""Provides without: how networks are made without one of the passes that make their kernels fast."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any
from unittest.mock import patch

PARTS = FETCHING, ONE_PASS = ("fetching", "one-pass")
"""Parts of the compilation of a network: fetching weights, and one pass for kernels that no search touches."""
PASSES = SOFTMAX, NORMS, PACKING, ATTENTION = (
    *("softmax-in-lanes", "norms-in-lanes", "packed-weights", "attention-in-bfloat16"),
)
"""Passes without which a network has other kernels, so that these are searched as well; the last is of matrix units
only."""


@contextmanager
def without(part: str | None) -> Iterator[None]:
    """Networks that this process reads or compiles in it are made without a part.

    Args:
        part: One of `PARTS` or `PASSES`; None for all of them. `FETCHING` is an argument of the compilation instead.
    """
    from costhub.collector.workloads import packed_products, relax_import
    from costhub.search.whole_network import default_schedules

    replaced: dict[str, tuple[Any, dict[str, Any]]] = {
        ONE_PASS: (default_schedules, {"in_one_pass": lambda *_: None, "in_one_region": lambda *_: None}),
        SOFTMAX: (relax_import, {"_softmax_in_lanes": _without_lanes(relax_import.softmax_of_tvm)}),
        NORMS: (packed_products._Packer._cls, {"_norm": lambda _, call: call}),  # TVM's wrapper delegates to it
        ATTENTION: (packed_products._Packer._cls, {"_heads": lambda _, call: call}),
        PACKING: (packed_products, {"_MOST_ADDED": -1.0}),  # not even no columns may be added
    }
    if part not in replaced:
        yield
        return
    place, names = replaced[part]
    with patch.multiple(place, **names):
        yield


def _without_lanes(legalize: Callable[..., Any]) -> Callable[..., Any]:
    return lambda builder, call, *, lanes, fast: legalize(builder, call, fast=fast)
