"""Provides parse_options: the options of a model, checked, from the JSON of its folder."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import fields
from typing import TYPE_CHECKING, Any, TypeVar

from costhub.errors import ModelError

if TYPE_CHECKING:
    from _typeshed import DataclassInstance

    Options = TypeVar("Options", bound=DataclassInstance)
else:
    Options = TypeVar("Options")


def parse_options(kind: type[Options], found: Mapping[str, Any], *, arch: str) -> Options:
    """Builds the options dataclass of an architecture from untrusted JSON values.

    Every field must be there with the type of its default, and nothing else may be. Ranges are the business
    of `__post_init__`, which raises ValueError.

    Args:
        kind: A dataclass whose fields all have defaults of type int, float, bool or str.
        found: Name -> value.
        arch: For the message.

    Raises:
        ModelError: A field is missing, unknown, of another type or out of range.
    """
    defaults = {field.name: field.default for field in fields(kind)}
    if set(found) != set(defaults):
        odd = sorted(set(found) ^ set(defaults))
        raise ModelError(
            f"The options of this {arch} model do not fit the code (missing or unknown: {', '.join(odd)}); "
            "it was saved by another version of costhub, so fetch or train it again."
        )
    for name, default in defaults.items():
        # JSON writes 1.0 as 1 in some hands, so an int passes for a float; a bool passes for nothing but a
        # bool.
        wanted = (int, float) if type(default) is float else (type(default),)
        if type(found[name]) not in wanted:
            raise ModelError(
                f"The option {name} of this {arch} model must be {type(default).__name__}, "
                f"got {found[name]!r}; fetch or train the model again."
            )
    try:
        return kind(*(found[name] for name in defaults))
    except ValueError as error:
        raise ModelError(f"The options of this {arch} model cannot be used: {error}") from error


def check_ranges(limits: Mapping[str, tuple[float, float, float]]) -> None:
    """Refuses values outside their limits.

    Args:
        limits: Name -> (value, lowest, highest).

    Raises:
        ValueError: A value is out of range, or NaN.
    """
    for name, (value, low, high) in limits.items():
        if not low <= value <= high:
            raise ValueError(f"{name} must be between {low:g} and {high:g}, got {value:g}.")


def check_width(name: str, found: object, *, arch: str) -> int:
    """A number of columns from untrusted JSON.

    Raises:
        ModelError: It is no whole number, or not between 1 and 65,536.
    """
    if type(found) is not int or not 1 <= found <= 65_536:
        raise ModelError(f"{name} of this {arch} model must be 1 to 65536, got {found!r}; fetch it again.")
    return found
