"""Saves and loads the members of a compound model, each in a sub-folder of its own."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from costhub.errors import ModelError
from costhub.models.protocol import CostModel


def save_members(members: Sequence[CostModel], folder: Path) -> None:
    """Writes the weights of each member into `member_0/`, `member_1/` and so on.

    Raises:
        ModelError: A member is not fitted.
    """
    for number, member in enumerate(members):
        own = folder / f"member_{number}"
        own.mkdir()
        member.save_weights(own)


def load_members(
    members: Sequence[CostModel], folder: Path, configs: object, *, columns: Sequence[int]
) -> None:
    """Reads what `save_members` wrote into members that are not yet fitted.

    Args:
        members: New models of the right architectures.
        folder: Where the sub-folders are.
        configs: The `config()` of each member, as they came from an untrusted file.
        columns: Width of the rows that each must read.

    Raises:
        ModelError: A configuration or a file is not what the code expects.
    """
    if not (
        isinstance(configs, list)
        and len(configs) == len(members)
        and all(isinstance(config, Mapping) for config in configs)
    ):
        raise ModelError(
            f"The configuration in {folder} needs fitted, a list with an object for each of the "
            f"{len(members)} members; fetch or train the model again."
        )
    for number, (member, config, width) in enumerate(zip(members, configs, columns, strict=True)):
        found = _width(config)
        member.load_weights(folder / f"member_{number}", config)
        if found != width:
            raise ModelError(
                f"Member {number} in {folder} reads rows of {found} columns, "
                f"but config.json describes {width}."
            )


def _width(config: Mapping[str, Any]) -> object:
    return config.get("columns")
