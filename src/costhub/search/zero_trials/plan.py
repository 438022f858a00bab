"""Provides ZeroTrialPlan: from which sources schedules may come, and how many programs of each workload are ranked."""

from __future__ import annotations

from dataclasses import dataclass

from costhub.errors import ArgumentError

MEASURED, CARRIED, CHOSEN = "measured", "carried over", "model's choice"
"""Where a schedule may come from."""
SOURCES = {"measured": MEASURED, "carried": CARRIED, "model": CHOSEN}
"""What users write -> what reports say."""


@dataclass(frozen=True)
class ZeroTrialPlan:
    """Which programs are ranked.

    Raises:
        ArgumentError: A source does not exist, or a number is out of range.

    Example:
        >>> ZeroTrialPlan(sources=("carried",)).pool
        128
    """

    sources: tuple[str, ...] = tuple(SOURCES)
    """Keys of `SOURCES`."""
    pool: int = 128
    """Random programs from the design space that the model scores for each workload."""
    generations: int = 2
    """How often the best programs are changed, and the results scored."""
    children: int = 32
    """Changed programs per generation."""
    space: str | None = None
    """Name of the design space of all workloads; by default `costhub.collector.propose.spaces.best_space` of each."""
    seed: int = 0

    def __post_init__(self) -> None:
        unknown = [name for name in self.sources if name not in SOURCES]
        if unknown or not self.sources:
            named = f"{unknown[0]!r} is not a source of schedules" if unknown else "A source of schedules is needed"
            raise ArgumentError(f"{named}; the sources are {', '.join(SOURCES)}.")
        if self.pool < 1 or self.generations < 0 or self.children < 1:
            raise ArgumentError(
                f"pool={self.pool}, generations={self.generations} and children={self.children} are too few programs: "
                "give at least 1, 0 and 1."
            )
