"""Provides ADAPT_STOPS: rules that end the measuring of an adaptation before all trials are spent, by name."""

from __future__ import annotations

import statistics
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from typing import Any, Protocol

from costhub.registry import Registry

DEFAULT_STOP = "gain"
"""The rule of `costhub adapt` when it measures, and of `costhub tune`."""


@dataclass(frozen=True)
class BatchVerdict:
    """How the candidates ranked a batch that none of them had seen."""

    trials: int
    """Programs measured before the batch."""
    pairwise: dict[str, float]
    """Candidate -> mean over the batch's workloads of the share of ordered pairs that it ranked correctly;
    empty if no workload has two programs that differ by more than the noise."""
    chosen: str
    """The candidate to score with from here on."""
    gains: tuple[float, ...] = ()
    """For each of these workloads, the share of pairs that the leading candidate ranked correctly, minus that of
    the candidate that led one batch earlier: what the last batch taught. Empty for the first batch."""


@dataclass(frozen=True)
class Stopped:
    """Where and why measuring ended before all trials were spent.

    Example:
        >>> print(Stopped("gain", "The last batches taught the model nothing.", 96, 256, 62.4))
        The last batches taught the model nothing. Measuring ended after 96 of 256 trials and saved about 62 s.
    """

    rule: str
    """Name of the rule."""
    why: str
    """A sentence."""
    trials: int
    """Programs measured."""
    cap: int
    """Programs that could have been measured."""
    saved_s: float | None = None
    """Seconds that the rest would have taken, at the rate of those that were measured; None if nothing was."""

    @property
    def saved(self) -> int:
        """Programs that were not measured."""
        return self.cap - self.trials

    def to_json(self) -> dict[str, Any]:
        """The values for JSON, with `saved_trials` and, as text for people, `said`."""
        return {**asdict(self), "saved_trials": self.saved, "said": str(self)}

    def __str__(self) -> str:
        seconds = self.saved_s
        took = f"{seconds:.0f} s" if seconds and seconds < 120 else f"{(seconds or 0) / 60:.0f} min"
        saved = f" and saved about {took}" if seconds else ""
        return f"{self.why} Measuring ended after {self.trials:,} of {self.cap:,} trials{saved}."


class TransferStop(Protocol):
    """Looks at the verdicts of a guard and says when a new batch is no longer worth its time."""

    def reason_to_stop(self, verdicts: Sequence[BatchVerdict], /) -> str | None:
        """Why measuring should end, as a sentence; None while it should continue.

        Args:
            verdicts: The verdicts on all batches so far, at least one.
        """


@dataclass(frozen=True)
class SpendAll:
    """Never ends: all trials are spent, whatever is measured and whoever asks.

    The rule `never` of adaptations, searches and collections, which pass different things to their rules.

    Example:
        >>> SpendAll().reason_to_stop([BatchVerdict(32, {}, "adapted")]) is None
        True
    """

    def reason_to_stop(self, *_: object) -> str | None:
        """None."""
        return None


@dataclass(frozen=True)
class NoMoreGain:
    """Ends when the last batches no longer change what the model knows about programs it has not seen.

    Each batch is a test before it is a lesson (see `Guard`), so the current model and that of one batch earlier
    are compared on the same new programs. Measuring ends when the mean difference over the last workloads is below
    `worth`: what a batch teaches is then too little for anybody to notice.

    The defaults were chosen with scripts/bench/transfer/stopping.py.

    Example:
        >>> rule = NoMoreGain(workloads=4)
        >>> learning = BatchVerdict(32, {}, "adapted", gains=(0.02, 0.01, 0.0, 0.03))
        >>> rule.reason_to_stop([learning])
        >>> rule.reason_to_stop([learning, BatchVerdict(64, {}, "adapted", gains=(0.01, -0.01, 0.0, 0.0))])
        'Over the last 4 workloads, a batch changed the share of correctly ordered pairs by +0.0000 (less than 0.0030).'
    """

    workloads: int = 8
    """How many of the last workloads are considered; until there are that many, measuring continues."""
    worth: float = 0.003
    """Share of the pairs that a batch must add."""

    def reason_to_stop(self, verdicts: Sequence[BatchVerdict]) -> str | None:
        """See `TransferStop`."""
        gains = [gain for verdict in verdicts for gain in verdict.gains][-self.workloads :]
        if len(gains) < self.workloads or (mean := statistics.fmean(gains)) >= self.worth:
            return None
        return (
            f"Over the last {self.workloads} workloads, a batch changed the share of correctly ordered pairs by "
            f"{mean:+.4f} (less than {self.worth:.4f})."
        )


ADAPT_STOPS: Registry[type[TransferStop]] = Registry(
    "stop rule",
    {"gain": NoMoreGain, "never": SpendAll},
    group="costhub.adapt_stops",
    listing="`costhub adapt --help`",
)
"""Name -> a rule; called without arguments, it has its default options."""
