"""Provides METHODS: every method of transfer by name."""

from __future__ import annotations

from typing import Any

from costhub.names import find_named
from costhub.transfer.methods.brief import Brief
from costhub.transfer.methods.corrected import Corrected
from costhub.transfer.methods.fine_tune import FineTune
from costhub.transfer.methods.frozen import Frozen
from costhub.transfer.methods.lottery import Lottery
from costhub.transfer.methods.method import TransferMethod
from costhub.transfer.methods.momentum import Momentum
from costhub.transfer.methods.residual_trees import ResidualTrees

METHODS: dict[str, type[Any]] = {
    kind.name: kind for kind in (Frozen, Brief, FineTune, Corrected, ResidualTrees, Lottery, Momentum)
}
"""Name -> a method; called without arguments, it has its default options."""


def find_method(name: str) -> TransferMethod:
    """The method of a name, with its default options.

    Raises:
        UnknownNameError: There is none.

    Example:
        >>> find_method("fine-tune").name
        'fine-tune'
    """
    made: TransferMethod = find_named("method", name, METHODS, "`costhub adapt --help`")()
    return made
