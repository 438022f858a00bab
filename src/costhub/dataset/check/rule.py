"""Provides the kinds of rules of check_folder, and what a broken one reports."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal

import numpy as np
import numpy.typing as npt

if TYPE_CHECKING:
    from costhub.dataset.check.context import Context
    from costhub.dataset.check.files import Listing
    from costhub.dataset.check.ledger import Ledger
    from costhub.dataset.check.rows import Rows

Severity = Literal["error", "warning"]
Mask = npt.NDArray[np.bool_]


@dataclass(frozen=True, kw_only=True)
class Rule:
    """What a data folder must keep; on its own, a rule that the reading itself applies.

    A message is a sentence on what was found and what was expected, without values of the data in it, so that
    the breaches of many rows become one finding.
    """

    id: str
    """Never used again for something else: contributions and their reviews refer to it."""
    title: str
    severity: Severity
    """An error makes data wrong or unsafe; a warning deserves a look."""
    fix: str
    """What to do."""
    is_deep: bool = False
    """Whether it loads modules into TVM, and so is left out unless asked for."""


@dataclass(frozen=True, kw_only=True)
class FolderRule(Rule):
    """A rule on names and files: yields (where, message) for every breach; nothing is parsed."""

    find: Callable[[Listing], Iterator[tuple[str, str]]]


@dataclass(frozen=True, kw_only=True)
class TableRule(Rule):
    """A rule on one row of `devices` or `workloads`: yields messages. It runs in a child process."""

    tables: tuple[str, ...]
    find: Callable[[dict[str, Any]], Iterator[str]]


@dataclass(frozen=True, kw_only=True)
class RowRule(Rule):
    """A rule on single measurements: yields (message, mask) for a batch of them, in a child process."""

    find: Callable[[Rows], Iterator[tuple[str, Mask]]]
    shown: str = "record_id"
    """The column that names the rows of a finding."""


@dataclass(frozen=True, kw_only=True)
class LedgerRule(Rule):
    """A rule on measurements beside one another: yields (message, mask) over the ledger of them all."""

    find: Callable[[Ledger, Context], Iterator[tuple[str, Mask]]]


@dataclass(frozen=True)
class Finding:
    """One breach of a rule, in one place."""

    rule: str
    severity: Severity
    where: str
    """File or table, within the data folder."""
    message: str
    fix: str
    rows: int = 0
    """How many rows; 0 where it is about a file."""
