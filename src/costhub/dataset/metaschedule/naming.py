"""Provides Naming: the names and networks of imported workloads."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from costhub.errors import DataError

Given = str | Mapping[str, Any] | None


@dataclass(frozen=True)
class Naming:
    """What a user says about the workload on one line of a database."""

    name: str | None = None
    """None where a name is to be made."""
    networks: tuple[tuple[str, float], ...] = ()
    """(network, how often it has the workload)."""

    @classmethod
    def parse(cls, given: Given, number: int) -> Naming:
        """Reads entry `number`, from 0, of a list of names.

        Raises:
            DataError: It is neither a string nor an object with a name and perhaps networks.

        Example:
            >>> Naming.parse({"name": "resnet18_C1", "networks": {"resnet18": 1}}, 0).networks
            (('resnet18', 1.0),)
        """
        entry: Any = {"name": given} if isinstance(given, str) or given is None else given
        try:
            name, networks = entry["name"], entry.get("networks") or {}
            known = tuple((_text(network), float(weight)) for network, weight in networks.items())
            return cls(None if name is None else _text(name), known)
        except (KeyError, TypeError, ValueError, AttributeError) as error:
            raise DataError(
                f"Entry {number} of the names is {given!r:.80}; it should be a name, or an object such as "
                '{"name": "resnet18_C1", "networks": {"resnet18": 1}}.'
            ) from error


def parse_names(names: Sequence[Given] | None, workloads: int) -> list[Naming]:
    """Reads the names of a database's workloads, one per line.

    Raises:
        DataError: There are not as many as the database has workloads, or one cannot be read.
    """
    if names is None:
        return [Naming()] * workloads
    if len(names) != workloads:
        raise DataError(
            f"There are {len(names)} names for {workloads} workloads; give one per line of "
            "database_workload.json, null where the name is to be made."
        )
    return [Naming.parse(given, number) for number, given in enumerate(names)]


def made_name(row: Mapping[str, Any]) -> str:
    """A name out of a workload's operator and the shapes of its arguments.

    Example:
        >>> made_name({"operator": "matmul", "shapes": "[[8, 4], [4, 2], [8, 2]]"})
        'matmul_8x4_4x2_8x2'
    """
    shapes = ["x".join(map(str, shape)) or "scalar" for shape in json.loads(row["shapes"])]
    return "_".join([row["operator"], *shapes])


def unique_name(name: str, taken: set[str]) -> str:
    """The name, with a number behind it where it is taken already.

    Example:
        >>> unique_name("matmul", {"matmul", "matmul_2"})
        'matmul_3'
    """
    if name not in taken:
        return name
    number = 2
    while f"{name}_{number}" in taken:
        number += 1
    return f"{name}_{number}"


def _text(value: Any) -> str:
    if not isinstance(value, str) or not value.strip():
        raise ValueError(value)
    value.encode()
    return value
