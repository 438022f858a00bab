"""Provides STRATEGIES: every search strategy by name."""

from __future__ import annotations

from typing import TYPE_CHECKING

from costhub.registry import Registry

if TYPE_CHECKING:
    from costhub.search.strategies.strategy import Strategy

# As strings, so that a wrong name is refused before TVM is loaded.
STRATEGIES: Registry[type[Strategy]] = Registry(
    "strategy",
    {
        "evolutionary": "costhub.search.strategies.strategy:Evolutionary",
        "random-top-k": "costhub.search.strategies.strategy:RandomTopK",
        "random": "costhub.search.strategies.strategy:Random",
    },
    group="costhub.strategies",
    listing="`costhub tune --help`",
)
"""Name -> a strategy; called without arguments, it has its default sizes."""


def find_strategy(name: str) -> Strategy:
    """The strategy with a name, with its default sizes.

    Raises:
        UnknownNameError: No strategy has this name.

    Example:
        >>> find_strategy("random-top-k").name
        'random-top-k'
    """
    return STRATEGIES.find(name)()
