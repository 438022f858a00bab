"""Provides STRATEGIES: every search strategy by name."""

from __future__ import annotations

from costhub.registry import Registry
from costhub.search.strategies.strategy import Evolutionary, Random, RandomTopK, Strategy

STRATEGIES: Registry[type[Strategy]] = Registry(
    "strategy",
    {
        "evolutionary": Evolutionary,
        "random-top-k": RandomTopK,
        "random": Random,
    },
    group="costhub.strategies",
    listing="`costhub tune --help`",
)
"""Name -> a strategy; called without arguments, it has its default sizes."""


def find_strategy(name: str) -> Strategy:
    """The strategy of a name, with its default sizes.

    Raises:
        UnknownNameError: No strategy has this name.

    Example:
        >>> find_strategy("random-top-k").name
        'random-top-k'
    """
    return STRATEGIES.find(name)()
