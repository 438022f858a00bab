"""Provides METHODS: every transfer method by name."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import is_dataclass
from typing import TYPE_CHECKING, Any, cast

from costhub.errors import ModelError
from costhub.models.options import OptionDescription, changed_options, describe_options
from costhub.registry import Registry

if TYPE_CHECKING:
    from costhub.transfer.methods.method import TransferMethod

# As strings, so that a wrong name is refused before torch is loaded.
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


def find_method(name: str, options: Mapping[str, object] | None = None) -> TransferMethod:
    """The method with a name.

    Args:
        name: A key of `METHODS`.
        options: Options that differ from their defaults, by name; text stands for the value that it spells.

    Raises:
        UnknownNameError: No method has this name, or the method has no such option.
        ModelError: The value of an option is of another type or out of range.

    Example:
        >>> find_method("fine-tune").name
        'fine-tune'
        >>> find_method("lottery", {"ratio": "0.3"})
        Lottery(ratio=0.3, decay=0.01, epochs=30, learning_rate=0.001)
    """
    method: TransferMethod = METHODS.find(name)()
    if not options:
        return method
    if not method_options(name):
        raise ModelError(f"The method {name} has no options; leave {', '.join(options)} out.")
    listing = f"`costhub adapt --list-options {name}`"
    return cast("TransferMethod", changed_options(cast("Any", method), options, owner=name, listing=listing))


def method_text(method: TransferMethod) -> str:
    """The name of a method, with the options that differ from their defaults.

    Example:
        >>> method_text(find_method("lottery", {"ratio": "0.3"}))
        'lottery(ratio=0.3)'
    """
    options = _options_of(type(method))
    values = [(option.name, option.default, getattr(method, option.name)) for option in options]
    changed = ", ".join(f"{name}={value}" for name, default, value in values if value != default)
    return f"{method.name}({changed})" if changed else method.name


def method_options(name: str) -> list[OptionDescription]:
    """The options of a method, with their defaults and meanings.

    Raises:
        UnknownNameError: No method has this name.

    Example:
        >>> [(option.name, option.default) for option in method_options("corrected")]
        [('prior', 128.0)]
    """
    return _options_of(METHODS.find(name))


def _options_of(kind: type[Any]) -> list[OptionDescription]:
    return describe_options(kind) if is_dataclass(kind) else []
