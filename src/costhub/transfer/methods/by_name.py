"""Provides METHODS: every transfer method by name."""

from __future__ import annotations

from costhub.registry import Registry
from costhub.transfer.methods.corrected import Corrected
from costhub.transfer.methods.lottery import Lottery
from costhub.transfer.methods.method import Brief, FineTune, Frozen, ResidualTrees, TransferMethod

METHODS: Registry[type[TransferMethod]] = Registry(
    "method",
    {
        "frozen": Frozen,
        "brief": Brief,
        "fine-tune": FineTune,
        "corrected": Corrected,
        "residual": ResidualTrees,
        "lottery": Lottery,
    },
    group="costhub.methods",
    listing="`costhub adapt --help`",
)
"""Name -> a method; called without arguments, it has its default options."""


def find_method(name: str) -> TransferMethod:
    """The method of a name, with its default options.

    Raises:
        UnknownNameError: No method has this name.

    Example:
        >>> find_method("fine-tune").name
        'fine-tune'
    """
    return METHODS.find(name)()
