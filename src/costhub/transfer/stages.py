"""Provides Stages: the stopwatch that tells where the seconds of a search went."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from time import perf_counter

OTHER = "other"
"""What is none of the stages by name: starting processes, for one."""
WAITING = "waiting"
"""Not the search's own time: another task has its turn."""
EVOLUTION = "evolution"
"""TVM's own part: the design space, sampling, mutation, post-processing and its records."""
FEATURES = "features"
PREDICTION = "prediction"
LEARNING = "learning"
"""Fine-tuning the model on what was measured."""
BUILDING = "building"
RUNNING = "running"

STAGES = (EVOLUTION, FEATURES, PREDICTION, LEARNING, BUILDING, RUNNING, OTHER)


class Stages:
    """A stopwatch with a hand for each stage, of which exactly one moves.

    Args:
        first: The stage that begins.

    Example:
        >>> stages = Stages()
        >>> with stages.during(FEATURES):
        ...     with stages.during(PREDICTION):
        ...         pass
        >>> sorted(stages.seconds())
        ['features', 'other', 'prediction']
    """

    def __init__(self, first: str = OTHER) -> None:
        self._seconds: dict[str, float] = {}
        self._stage, self._since = first, perf_counter()

    @contextmanager
    def during(self, stage: str) -> Iterator[None]:
        """Counts the seconds of a block to `stage`, save those of blocks within it."""
        before = self._turn(stage)
        try:
            yield
        finally:
            self._turn(before)

    def seconds(self) -> dict[str, float]:
        """Stage -> seconds until now, without waiting; with it they would add up to the stopwatch's age."""
        self._turn(self._stage)
        return {stage: spent for stage, spent in self._seconds.items() if stage != WAITING}

    def _turn(self, stage: str) -> str:
        now, before = perf_counter(), self._stage
        self._seconds[before] = self._seconds.get(before, 0.0) + now - self._since
        self._stage, self._since = stage, now
        return before
