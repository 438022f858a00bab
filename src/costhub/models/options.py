"""Provides parse_options: the options of a model, checked, from the JSON of its folder."""

from __future__ import annotations

import ast
import dataclasses
import inspect
import textwrap
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, fields, replace
from itertools import pairwise
from typing import TYPE_CHECKING, Any, TypeVar

from costhub.errors import ModelError, UnknownNameError
from costhub.names import close_names

if TYPE_CHECKING:
    from _typeshed import DataclassInstance

    Options = TypeVar("Options", bound=DataclassInstance)
else:
    Options = TypeVar("Options")

Value = TypeVar("Value", int, float, bool, str)

NETWORK_OBJECTIVES = ("regression", "rank", "lambdarank", "gap")
"""What networks can be trained for, see `costhub.models.networks.losses`."""
TREE_OBJECTIVES = ("regression", "log", "rank", "lambdarank")
"""What trees can be trained for, see `costhub.models.trees.gbt`."""

_BEFORE = "before"
_OPTION_TYPES = (int, float, bool, str)
_TRUTH = {"true": True, "false": False}


def added_option(default: Value, *, before: Value | None = None) -> Value:
    """A field of an options dataclass that older model folders lack.

    Args:
        default: The default of new models.
        before: What a folder without the option stands for; by default the same.
    """
    return dataclasses.field(default=default, metadata={_BEFORE: default if before is None else before})


def parse_options(kind: type[Options], values: Mapping[str, Any], *, arch: str) -> Options:
    """Builds the options dataclass of an architecture from untrusted JSON values.

    Every field except those added later (`added_option`) must be present with the type of its default, and there
    may be no others. `__post_init__` checks ranges and raises ValueError.

    Args:
        kind: A dataclass whose fields all have defaults of type int, float, bool or str.
        values: Name -> value.
        arch: Name of the architecture, for the message.

    Raises:
        ModelError: A field is missing, unknown, of another type or out of range.
    """
    defaults = {field.name: field.default for field in fields(kind)}
    before = {field.name: field.metadata[_BEFORE] for field in fields(kind) if _BEFORE in field.metadata}
    values = {**before, **values}
    if set(values) != set(defaults):
        differing = sorted(set(values) ^ set(defaults))
        raise ModelError(
            f"The options of this {arch} model do not fit the code (missing or unknown: {', '.join(differing)}); "
            "it was saved by another version of costhub, so fetch or train it again."
        )
    for name, default in defaults.items():
        # Some writers of JSON turn 1.0 into 1, so an int passes for a float; a bool passes only for a
        # bool.
        kinds = (int, float) if type(default) is float else (type(default),)
        if type(values[name]) not in kinds:
            raise ModelError(
                f"The option {name} of this {arch} model must be {type(default).__name__}, "
                f"got {values[name]!r}; fetch or train the model again."
            )
    try:
        return kind(**values)
    except ValueError as error:
        raise ModelError(f"The options of this {arch} model cannot be used: {error}") from error


def changed_options(
    options: Options, changes: Mapping[str, object], *, owner: str, listing: str | None = None
) -> Options:
    """Options with some of them changed, as given by a person.

    Args:
        options: A dataclass; its fields of type int, float, bool or str are options.
        changes: Name -> value; text stands for the value that it spells.
        owner: What has these options, for messages: an architecture or a method.
        listing: What lists them, for messages; by default the command for an architecture.

    Raises:
        UnknownNameError: There is no such option.
        ModelError: A value is of another type than the option, or out of range.
    """
    values = {field.name: getattr(options, field.name) for field in fields(options) if field.init}
    present = {name: value for name, value in values.items() if isinstance(value, _OPTION_TYPES)}
    for name in changes:
        if name not in present:
            listing = listing or f"`costhub train --list-options {owner}`"
            raise UnknownNameError(f"option of {owner}", name, close_names(name, tuple(present)), listing)
    try:
        return replace(options, **{name: _read(name, changes[name], present[name]) for name in changes})
    except ValueError as error:
        raise ModelError(f"These options of {owner} cannot be used: {error}") from error


def _read(name: str, value: object, present: object) -> object:
    """The value in the type of the current one."""
    kind = type(present)
    try:
        if kind is bool and isinstance(value, str):
            return _TRUTH[value.lower()]
        # 64.5 is not a number of units, and True is not a number at all.
        if isinstance(value, str) or type(value) is kind or (kind is float and type(value) is int):
            return kind(value)  # type: ignore[call-arg]
    except (ValueError, KeyError):
        pass
    description = {"int": "a whole number", "float": "a number", "bool": "true or false", "str": "a string"}
    raise ValueError(f"{name} must be {description[kind.__name__]}, got {value!r}.")


@dataclass(frozen=True)
class OptionDescription:
    """An option of an architecture, described for people."""

    name: str
    default: int | float | bool | str
    meaning: str
    """Sentences; empty where the code says no more than the name."""


def describe_options(kind: type[Any]) -> list[OptionDescription]:
    """The options of a dataclass with what its source says about each, in the text below a field.

    Args:
        kind: A dataclass; its fields whose default is a number, text or truth value are options, and a class that it
            derives from may describe some of them.

    Example:
        >>> from costhub.models.networks.network_options import MlpOptions
        >>> next(option for option in describe_options(MlpOptions) if option.name == "hidden")
        OptionDescription(name='hidden', default=256, meaning='Width of the hidden layers.')
    """
    meanings: dict[str, str] = {}
    for part in reversed(kind.__mro__):
        if dataclasses.is_dataclass(part):
            meanings |= _field_texts(part)
    return [
        OptionDescription(f.name, f.default, meanings.get(f.name, ""))
        for f in fields(kind)
        if f.init and isinstance(f.default, _OPTION_TYPES)
    ]


def _field_texts(kind: type[Any]) -> dict[str, str]:
    """Field -> the text below it in the source of the class."""
    try:
        body = ast.parse(textwrap.dedent(inspect.getsource(kind))).body[0]
    except (OSError, TypeError, SyntaxError):
        return {}  # as for a class that was created at run time
    texts: dict[str, str] = {}
    lines = body.body if isinstance(body, ast.ClassDef) else []
    for field, text in pairwise(lines):
        if isinstance(field, ast.AnnAssign) and isinstance(field.target, ast.Name):
            found = text.value if isinstance(text, ast.Expr) else None
            if isinstance(found, ast.Constant) and isinstance(found.value, str):
                texts[field.target.id] = " ".join(found.value.split())
    return texts


def check_choice(name: str, value: str, choices: Sequence[str]) -> None:
    """Refuses a value that is not one of the choices.

    Raises:
        ValueError: It is not one of them.
    """
    if value not in choices:
        raise ValueError(f"{name} must be one of {', '.join(choices)}, got {value!r}.")


def check_ranges(limits: Mapping[str, tuple[float, float, float]]) -> None:
    """Refuses values outside their limits.

    Args:
        limits: Name -> (value, lowest, highest).

    Raises:
        ValueError: A value is out of range, or NaN.
    """
    for name, (value, low, high) in limits.items():
        if not low <= value <= high:
            raise ValueError(f"{name} must be between {low:g} and {high:g}, got {value!s:.40}.")


def check_width(name: str, value: object, *, arch: str) -> int:
    """A number of columns from untrusted JSON.

    Raises:
        ModelError: It is not a whole number between 1 and 65,536.
    """
    if type(value) is not int or not 1 <= value <= 65_536:
        raise ModelError(f"{name} of this {arch} model must be 1 to 65536, got {value!r}; fetch it again.")
    return value
