"""Provides METHODS: every transfer method by name."""

from __future__ import annotations

from typing import TYPE_CHECKING

from costhub.registry import Registry

if TYPE_CHECKING:
    from costhub.transfer.methods.method import TransferMethod

# As texts, so that a wrong name is refused before torch is loaded.
METHODS: Registry[type[TransferMethod]] = Registry(
    "method",
    {
        "frozen": "costhub.transfer.methods.method:Frozen",
        "brief": "costhub.transfer.methods.method:Brief",
        "fine-tune": "costhub.transfer.methods.method:FineTune",
        "corrected": "costhub.transfer.methods.corrected:Corrected",
        "residual": "costhub.transfer.methods.method:ResidualTrees",
        "lottery": "costhub.transfer.methods.lottery:Lottery",
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
