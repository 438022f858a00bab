"""Provides Task: one of several that share a budget of trials, and what has been measured of it."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, field

from costhub.transfer.controller.batch import Batch, best_after


@dataclass
class Task:
    """A workload on a device under search.

    Example:
        >>> Task("conv", weight=3.0).best_s
        inf
    """

    name: str
    weight: float = 1.0
    """How often it occurs in the network."""
    batches: list[Batch] = field(default_factory=list)
    exhausted: bool = False
    """Whether no program waits."""

    @property
    def trials(self) -> int:
        """Programs measured."""
        return sum(batch.n for batch in self.batches)

    @property
    def best_s(self) -> float:
        """Best latency in seconds; infinite while nothing ran."""
        return float(best_after(self.batches)[-1]) if self.batches else math.inf


Priority = Callable[[Task], float]
"""Tells which task of several is measured next, the one with the highest value; each has a batch already."""
