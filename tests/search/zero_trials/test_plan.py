"""What may be ranked: plans that leave nothing to rank are refused."""

from __future__ import annotations

from typing import Any

import pytest

from costhub.cli.compile import SOURCES as OFFERED
from costhub.errors import ArgumentError
from costhub.search.zero_trials.plan import SOURCES, ZeroTrialPlan


def test_the_command_line_offers_every_source() -> None:
    assert OFFERED == tuple(SOURCES) == ZeroTrialPlan().sources


@pytest.mark.parametrize(
    ("plan", "words"),
    [
        ({"sources": ("guessed",)}, "'guessed' is not a source of schedules; the sources are measured, carried, model"),
        ({"sources": ()}, "A source of schedules is needed"),
        ({"pool": 0}, "pool=0"),
    ],
)
def test_a_plan_without_programs_is_refused(plan: dict[str, Any], words: str) -> None:
    with pytest.raises(ArgumentError, match=words):
        ZeroTrialPlan(**plan)
