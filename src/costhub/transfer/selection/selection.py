"""Provides Selection: how a search chooses which candidates of a workload to measure next."""

from __future__ import annotations

from collections.abc import Sequence, Set
from dataclasses import dataclass
from typing import Protocol

import numpy as np

from costhub.dataset.programs import BoolArray, IntArray
from costhub.models.protocol import Scores
from costhub.transfer.selection.knobs import Knobs


@dataclass(frozen=True)
class Candidates:
    """Programs of one workload that a search has come upon, with what a model thinks of them.

    Example:
        >>> a, b = Knobs("s", ((1, 4),)), Knobs("s", ((1, 8),))
        >>> found = Candidates(np.array([0.1, 0.7, 0.7]), [a, b, b])
        >>> found.best_first().tolist(), found.is_new().tolist()
        ([1, 0], [True, True, True])
    """

    scores: Scores
    """(n,) finite, of a model; higher is faster."""
    knobs: Sequence[Knobs]
    """(n,) what was decided for each."""
    visited: Set[Knobs] = frozenset()
    """Programs that have been measured; candidates may be among them."""

    def __post_init__(self) -> None:
        if len(self.scores) != len(self.knobs):
            raise ValueError(
                f"There must be one score for each of the {len(self.knobs)} candidates, "
                f"got {len(self.scores)}."
            )

    def best_first(self) -> IntArray:
        """Positions of the candidates, each program once, the highest score first."""
        first: dict[Knobs, int] = {}
        for place in np.argsort(-self.scores, kind="stable").tolist():
            first.setdefault(self.knobs[place], place)
        return np.array(list(first.values()), np.int64)

    def is_new(self) -> BoolArray:
        """(n,) whether the program has not been measured."""
        return np.array([own not in self.visited for own in self.knobs], dtype=bool)

    def waiting(self) -> IntArray:
        """Positions of those to choose from: `best_first` without what has been measured."""
        order = self.best_first()
        return order[self.is_new()[order]]


class Selection(Protocol):
    """Chooses candidates to measure."""

    @property
    def name(self) -> str:
        """What it is called in results."""

    def choose(self, candidates: Candidates, count: int, *, seed: int) -> IntArray:
        """The candidates to measure next.

        Args:
            candidates: What there is to choose from.
            count: How many to choose at the most; fewer where fewer are new.
            seed: The only source of chance; give every batch of a search one of its own.

        Returns:
            Positions of different programs that have not been measured, in the order of measuring.
        """
