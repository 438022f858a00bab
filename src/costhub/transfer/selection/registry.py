"""Provides SELECTIONS: every way to choose what is measured, by name."""

from __future__ import annotations

from typing import Any

from costhub.names import find_named
from costhub.transfer.selection.clustered import Clustered
from costhub.transfer.selection.diverse import Diverse
from costhub.transfer.selection.ranked import Ranked
from costhub.transfer.selection.selection import Selection

SELECTIONS: dict[str, type[Any]] = {kind.name: kind for kind in (Ranked, Diverse, Clustered)}
"""Name -> a selection; called without arguments, it has its default options."""


def find_selection(name: str) -> Selection | None:
    """The selection of a name for a search; None for `Ranked`, since every strategy ranks what it proposes.

    Raises:
        UnknownNameError: There is none.

    Example:
        >>> find_selection("diverse").name, find_selection("ranked")
        ('diverse', None)
    """
    kind = find_named("selection", name, SELECTIONS, "`costhub tune --help`")
    return None if kind is Ranked else kind()
