"""Provides STRATEGIES: every search strategy by name."""

from __future__ import annotations

from typing import Any

from costhub.registry import Registry
from costhub.search.strategies.strategy import Evolutionary, Random, RandomTopK, Strategy

STRATEGIES: Registry[type[Any]] = Registry(
    "strategy",
    {kind.name: kind for kind in (Evolutionary, RandomTopK, Random)},
    group="costhub.strategies",
    listing="`costhub tune --help`",
)
"""Name -> a strategy; called without arguments, it has its default sizes."""


def find_strategy(name: str) -> Strategy:
    """The strategy of a name, with its default sizes.

    Raises:
        UnknownNameError: There is none.

    Example:
        >>> find_strategy("annealing").name
        'annealing'
    """
    made: Strategy = STRATEGIES.find(name)()
    return made
