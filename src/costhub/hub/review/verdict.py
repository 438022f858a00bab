"""Provides Verdict: whether something may go into a hub, and why."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, dataclass, field
from typing import TYPE_CHECKING, Any, Literal

from costhub.dataset.check.rule import Finding

if TYPE_CHECKING:
    from costhub.hub.review.comparison import Comparison


@dataclass(frozen=True)
class Reason:
    """One thing that speaks against taking something, or that a person should look at."""

    weight: Literal["refuse", "look"]
    what: str
    """A sentence."""


@dataclass(frozen=True)
class Verdict:
    """The outcome of a review."""

    subject: str
    kind: Literal["model", "dataset"]
    reasons: Sequence[Reason]
    findings: Sequence[Finding] = ()
    """Of `costhub check`."""
    comparisons: Sequence[Comparison] = field(default=())

    @property
    def is_accepted(self) -> bool:
        """Whether nothing speaks against it."""
        return not any(reason.weight == "refuse" for reason in self.reasons)

    def to_json(self) -> dict[str, Any]:
        """The verdict for machines."""
        return {"accepted": self.is_accepted, **asdict(self)}
