"""Provides Job and Search: what to tune, and how; SELECTIONS and SEARCH_STOPS, which choose and end, by name."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from costhub.errors import ArgumentError
from costhub.names import refuse_text
from costhub.registry import Registry

if TYPE_CHECKING:
    from costhub.models.protocol import CostModel
    from costhub.search.scheduler import Priority, StopRule
    from costhub.search.selection import Selection
    from costhub.search.strategies.strategy import Strategy
    from costhub.transfer.methods.method import TransferMethod

OnTrial = Callable[[str, int, float | None], None]
"""Called after each trial with the workload, its number of trials so far and its best latency in us."""


@dataclass(frozen=True)
class Job:
    """A workload to tune."""

    name: str
    mod: Any
    """A ``tvm.IRModule`` with one function."""
    weight: float = 1.0
    """How often it occurs, for example in a network."""


@dataclass(frozen=True)
class Search:
    """The model that leads a search, and what proposes, selects and learns.

    Example:
        >>> from costhub.models.architectures import new_model
        >>> Search(new_model("gbt", feature_spec="tiles@1"), seed=3).trials_per_round
        16
    """

    model: CostModel
    """The pretrained model; it is not changed."""
    draft: CostModel | None = None
    """A cheap model that ranks all candidates, so that `model` scores only the best of them."""
    method: TransferMethod | None = None
    """How the models learn from what is measured; by default `Brief`."""
    strategy: Strategy | None = None
    """How programs are proposed; by default `Evolutionary`, TVM's own."""
    selection: Selection | None = None
    """Chooses what to measure among four times as many programs; by default the strategy's best are measured."""
    known: Any = None
    """Measured schedules, a `costhub.search.zero_trials.known.KnownSchedules`, the best of which are in the first
    batch."""
    known_sources: tuple[str, ...] = ("measured",)
    """Which schedules are known: ``measured``, those of the very workload, and ``carried``, those of near ones."""
    descends: bool = False
    """Whether neighbours of the fastest programs are measured, too."""
    space: str | None = None
    """Name of the design space of all workloads; by default `costhub.collector.propose.spaces.best_space` of each."""
    trials_per_round: int = 16
    """Programs measured before the model learns."""
    priority: Priority | None = None
    """Chooses the workload that is measured next; by default `ExpectedGain`."""
    stop_rule: StopRule | None = None
    """Ends the measuring of a workload, whose trials go to the others, or of all; by default all trials are spent."""
    seed: int = 0


KNOWN_SOURCES = ("measured", "carried")
"""What `Search.known_sources` may name."""


def check_known_sources(names: Sequence[str]) -> None:
    """Refuses sources of known schedules that do not exist.

    Raises:
        ArgumentError: A name is none of `KNOWN_SOURCES`, there is no name, or they are one text.

    Example:
        >>> check_known_sources(("measured", "carried"))
    """
    refuse_text(names, "The sources of known schedules are")
    unknown = [name for name in names if name not in KNOWN_SOURCES]
    if unknown:
        raise ArgumentError(
            f"{unknown[0]!r} is not a source of known schedules; the sources are {', '.join(KNOWN_SOURCES)}."
        )
    if not names:
        raise ArgumentError(
            f"Name a source of known schedules ({', '.join(KNOWN_SOURCES)}); from_scratch=True begins without any."
        )


RANKED = "ranked"
"""The selection by score, which every strategy applies to its proposals."""

# As a text, so that a wrong name is refused before TVM is loaded.
SELECTIONS: Registry[type[Selection]] = Registry(
    "selection",
    {RANKED: "costhub.search.selection:Ranked"},
    group="costhub.selections",
    listing="`costhub tune --help`",
)
"""Name -> a selection; called without arguments, it has its default options."""


SEARCH_STOPS: Registry[type[StopRule]] = Registry(
    "stop rule",
    {"gain": "costhub.search.stopping:SmallGain", "never": "costhub.transfer.stopping:SpendAll"},
    group="costhub.search_stops",
    listing="`costhub tune --help`",
)
"""Name -> a rule that ends a search; called without arguments, it has its default options."""


def find_selection(name: str) -> Selection | None:
    """The selection of a name for a search; None for `RANKED`, since every strategy ranks what it proposes.

    Raises:
        UnknownNameError: No selection has this name.

    Example:
        >>> find_selection("ranked") is None
        True
    """
    return None if name == RANKED else SELECTIONS.find(name)()
