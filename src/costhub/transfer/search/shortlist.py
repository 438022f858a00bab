"""Provides Shortlist: what a strategy has proposed and a selection has not chosen yet."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from costhub.dataset.trace import plain, trace_parts
from costhub.models.protocol import Scores
from costhub.transfer.selection.knobs import Knobs
from costhub.transfer.selection.selection import Candidates, Selection

POOL = 4
"""Programs that a strategy proposes for each that is measured."""


class Shortlist:
    """The candidates among which a selection chooses.

    Candidates that it does not choose wait, and compete with those proposed next: TVM's strategies assume
    that all they have proposed is measured, and would never propose it again.

    Args:
        selection: Chooses.
        score: Gives the (n,) scores of candidates, as the model sees them now.
        seed: Of the choices.
    """

    def __init__(self, selection: Selection, score: Callable[[Sequence[Any]], Scores], *, seed: int) -> None:
        self._selection, self._score, self._seed = selection, score, seed
        self._waiting: list[Any] = []
        self._visited: set[Knobs] = set()
        self._batches = 0

    def measured(self, candidates: Sequence[Any]) -> None:
        """Takes ``MeasureCandidate`` objects that an earlier search has measured."""
        self._visited.update(map(knobs_of, candidates))

    def choose(self, proposed: Sequence[Any], count: int) -> list[Any]:
        """Up to `count` candidates, in the order of measuring; none where nothing is left.

        Args:
            proposed: New ``MeasureCandidate`` objects, none of which came before.
            count: How many are to be measured.

        Raises:
            DataError: A decision of the design space is neither a number nor a list of numbers.
        """
        pool = [*self._waiting, *proposed]
        if not pool:
            return []
        candidates = Candidates(self._score(pool), list(map(knobs_of, pool)), self._visited)
        self._batches += 1
        # Seeds of batches must not be those of another search's.
        chosen = self._selection.choose(candidates, count, seed=1000 * self._seed + self._batches).tolist()
        order = [place for place in candidates.waiting().tolist() if place not in set(chosen)]
        self._waiting = [pool[place] for place in order[: POOL * count]]
        self._visited.update(candidates.knobs[place] for place in chosen)
        return [pool[place] for place in chosen]


def knobs_of(candidate: Any) -> Knobs:
    """What was decided for a ``MeasureCandidate``."""
    return Knobs.of(*plain(trace_parts(candidate.sch.trace, postproc=False)))
