"""Provides RandomTopK: many random programs, of which those with the best scores are measured."""

from __future__ import annotations

from dataclasses import dataclass

from costhub.transfer.strategies.ground import Ground
from costhub.transfer.strategies.strategy import Exploration, Explorer

POOL = 768
"""Programs that a strategy scores for a batch: as many as TVM's evolutionary search with the sizes of
`SearchOptions`, so that strategies compare."""


@dataclass(frozen=True)
class RandomTopK(Explorer):
    """Draws a pool anew for each batch; the least that a model is good for, and what others must beat."""

    pool: int = POOL
    """Programs that are scored for a batch."""

    name = "random-top-k"

    def begin(self, ground: Ground) -> Exploration:
        """See `Explorer`."""
        return _Drawing(ground, self.pool)


@dataclass(frozen=True)
class Random(Explorer):
    """Measures random programs; no model is asked."""

    name = "random"

    def begin(self, ground: Ground) -> Exploration:
        """See `Explorer`."""
        return _Nothing()


@dataclass(frozen=True)
class _Drawing:
    ground: Ground
    pool: int

    def explore(self, count: int) -> None:
        programs = self.ground.random(max(count, self.pool))
        if programs:
            self.ground.score(programs)


class _Nothing:
    """Finds nothing, so that random programs fill the batch."""

    def explore(self, count: int) -> None:
        pass
