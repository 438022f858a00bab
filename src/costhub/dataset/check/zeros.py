"""Provides useful_share: the share of a workload's FLOP that are no products with zeros it inserts itself.

TVM counts every product of a transposed convolution, also those with the zeros between the inputs
(``if_then_else(h % 2 == 0, data[h // 2], 0)``), which compilers skip: four times too many at stride 2.
"""

from __future__ import annotations

import json
from typing import Any


def useful_share(module_json: str) -> float:
    """The share of FLOP that is left where conditions ``x % c == 0`` are met by one x in c; 1 without such.

    The module is not loaded into TVM, only its JSON is looked at: a text that is none has a share of 1.

    Example:
        >>> useful_share("{}")
        1.0
    """
    # Few modules have one, and parsing takes a hundred times as long as this look.
    if '"prim.FloorMod"' not in module_json:
        return 1.0
    try:
        nodes = json.loads(module_json)["nodes"]
        divisors = [_divisor(nodes, node) for node in nodes if node["type"] == "prim.EQ"]
    except (ValueError, KeyError, TypeError, IndexError, RecursionError):
        return 1.0
    share = 1.0
    for divisor in divisors:
        share /= divisor
    return share


def _divisor(nodes: list[Any], equal: dict[str, Any]) -> int:
    """The c of ``x % c == y``; 1 where the condition is another."""
    left = nodes[equal["data"]["a"]]
    if left["type"] != "prim.FloorMod":
        return 1
    right = nodes[left["data"]["b"]]
    value = nodes[right["data"]["value"]]["data"] if right["type"] == "ir.IntImm" else 1
    return value if type(value) is int and 1 < value <= 16 else 1
