"""Provides Selection: which of the proposed programs a search measures next."""

from __future__ import annotations

from collections.abc import Callable, Sequence, Set
from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np

from costhub.dataset.programs import BoolArray, IntArray
from costhub.dataset.trace import plain, trace_parts
from costhub.models.protocol import Scores
from costhub.search.knobs import Knobs
from costhub.search.strategies.search_space import EPSILON


@dataclass(frozen=True)
class Candidates:
    """Programs of one workload that a search has proposed, with their scores.

    Example:
        >>> a, b = Knobs("s", ((1, 4),)), Knobs("s", ((1, 8),))
        >>> candidates = Candidates(np.array([0.1, 0.7, 0.7]), [a, b, b])
        >>> candidates.best_first().tolist(), candidates.is_new().tolist()
        ([1, 0], [True, True, True])
    """

    scores: Scores
    """(n,) a model's scores, all finite; higher is faster."""
    knobs: Sequence[Knobs]
    """(n,) the decisions of each program."""
    visited: Set[Knobs] = frozenset()
    """Programs that have been measured; candidates may be among them."""

    def __post_init__(self) -> None:
        if len(self.scores) != len(self.knobs):
            raise ValueError(
                f"There must be one score for each of the {len(self.knobs)} candidates, got {len(self.scores)}."
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
        """Positions of the candidates to choose from: `best_first` without those already measured."""
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
            count: The most to choose; fewer if fewer are new.
            seed: The only source of randomness; use a different one for every batch of a search.

        Returns:
            Positions of different programs that have not been measured, in the order of measuring.
        """


def epsilon_greedy(
    waiting: IntArray, count: int, pick: Callable[[int], IntArray], *, epsilon: float, seed: int
) -> IntArray:
    """Candidates that `pick` chooses, followed by random ones.

    *Learning to Optimize Tensor Programs* (Chen et al., NeurIPS 2018), algorithm 1, takes epsilon * count at
    random. For a small batch that is less than one, so here each program is random with probability epsilon.

    Args:
        waiting: Positions to choose from.
        count: How many to choose; all if there are fewer.
        pick: Chooses that many of `waiting`.
        epsilon: In [0, 1].
        seed: The only source of randomness.

    Example:
        >>> waiting = np.array([7, 3, 5])
        >>> epsilon_greedy(waiting, 2, lambda n: waiting[:n], epsilon=0, seed=0).tolist()
        [7, 3]
    """
    rng = np.random.default_rng(seed)
    count = min(count, len(waiting))
    chosen = pick(count - int(rng.binomial(count, epsilon)))
    rest = np.setdiff1d(waiting, chosen)
    return np.concatenate([chosen, rng.choice(rest, count - len(chosen), replace=False)])


@dataclass(frozen=True)
class Ranked:
    """The best by score, epsilon-greedy.

    Example:
        >>> import numpy as np
        >>> from costhub.search.knobs import Knobs
        >>> programs = [Knobs("s", ((1, size),)) for size in (1, 2, 4)]
        >>> some = Candidates(np.array([0.2, 0.9, 0.5]), programs, visited={programs[1]})
        >>> Ranked(epsilon=0).choose(some, 2, seed=0).tolist()
        [2, 0]
    """

    epsilon: float = EPSILON
    """Share chosen at random."""

    name = "ranked"

    def choose(self, candidates: Candidates, count: int, *, seed: int) -> IntArray:
        """See `Selection`."""
        waiting = candidates.waiting()
        return epsilon_greedy(waiting, count, lambda n: waiting[:n], epsilon=self.epsilon, seed=seed)


PROPOSED_PER_TRIAL = 4
"""Programs that a strategy proposes for each one that is measured."""


class Shortlist:
    """The candidates among which a selection chooses.

    Candidates that it does not choose wait, and compete with those proposed next: TVM's strategies assume
    that everything they propose is measured, and would never propose it again.

    Args:
        selection: Chooses among the candidates.
        score: Gives the (n,) scores of candidates, as the model sees them now.
        seed: Seed of the choices.
    """

    def __init__(self, selection: Selection, score: Callable[[Sequence[Any]], Scores], *, seed: int) -> None:
        self._selection, self._score, self._seed = selection, score, seed
        self._waiting: list[Any] = []
        self._visited: set[Knobs] = set()
        self._batches = 0

    def measured(self, candidates: Sequence[Any]) -> None:
        """Takes ``MeasureCandidate`` objects that an earlier search has measured."""
        self._visited.update(map(candidate_knobs, candidates))

    def choose(self, proposed: Sequence[Any], count: int) -> list[Any]:
        """Up to `count` candidates, in the order of measuring; none if nothing is left.

        Args:
            proposed: New ``MeasureCandidate`` objects, each proposed for the first time.
            count: How many are to be measured.

        Raises:
            DataError: A decision of the design space is neither a number nor a list of numbers.
        """
        pool = [*self._waiting, *proposed]
        if not pool:
            return []
        candidates = Candidates(self._score(pool), list(map(candidate_knobs, pool)), self._visited)
        self._batches += 1
        # Seeds of batches must not be those of another search.
        chosen = self._selection.choose(candidates, count, seed=1000 * self._seed + self._batches).tolist()
        taken = set(chosen)
        order = [place for place in candidates.waiting().tolist() if place not in taken]
        self._waiting = [pool[place] for place in order[: PROPOSED_PER_TRIAL * count]]
        self._visited.update(candidates.knobs[place] for place in chosen)
        return [pool[place] for place in chosen]


def candidate_knobs(candidate: Any) -> Knobs:
    """The decisions of a ``MeasureCandidate``."""
    return Knobs.of(*plain(trace_parts(candidate.sch.trace, postproc=False)))
