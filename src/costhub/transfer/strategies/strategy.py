"""Provides Strategy and Explorer: how a search proposes programs."""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import Any, Protocol

from costhub.transfer.strategies.ground import Ground


class Strategy(Protocol):
    """A way to search, for `costhub.transfer.tune.tune` and TVM's own tuning functions alike."""

    @property
    def name(self) -> str:
        """A key of `STRATEGIES`."""

    def to_tvm(self) -> Any:
        """A new ``ms.search_strategy.SearchStrategy``, for one task or to be cloned for each of several."""


class Exploration(Protocol):
    """A strategy at work on one workload; what it keeps lives as long as the search."""

    def explore(self, count: int) -> None:
        """Scores programs by ``ground.score``; the best of them that are new will be measured.

        Args:
            count: How many will be measured.
        """


class Explorer(ABC):
    """A strategy in plain Python: it only scores programs; what all such strategies share is done for it.

    Shared are post-processing, the random programs among those that are measured, and TVM's interface.
    """

    name: str
    """A key of `STRATEGIES`."""

    @abstractmethod
    def begin(self, ground: Ground) -> Exploration:
        """Begins with one workload."""

    def to_tvm(self) -> Any:
        """See `Strategy`."""
        from costhub.transfer.strategies.tvm_strategy import TvmStrategy

        return TvmStrategy(self)
