"""Provides STRATEGIES: every search strategy by name."""

from __future__ import annotations

from typing import Any

from costhub.names import find_named
from costhub.transfer.strategies.annealing import Annealing
from costhub.transfer.strategies.evolutionary import Evolutionary
from costhub.transfer.strategies.ppo import Ppo
from costhub.transfer.strategies.random_top_k import Random, RandomTopK
from costhub.transfer.strategies.strategy import Strategy

STRATEGIES: dict[str, type[Any]] = {
    kind.name: kind for kind in (Evolutionary, Annealing, Ppo, RandomTopK, Random)
}
"""Name -> a strategy; called without arguments, it has its default sizes."""


def find_strategy(name: str) -> Strategy:
    """The strategy of a name, with its default sizes.

    Raises:
        UnknownNameError: There is none.

    Example:
        >>> find_strategy("annealing").name
        'annealing'
    """
    made: Strategy = find_named("strategy", name, STRATEGIES, "`costhub tune --help`")()
    return made
