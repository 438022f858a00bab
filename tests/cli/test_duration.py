"""Times as people write them."""

from __future__ import annotations

import click
import pytest

from costhub.cli.duration import Duration


@pytest.mark.parametrize(
    ("text", "seconds"), [("90s", 90), ("30m", 1800), ("2h", 7200), ("1.5m", 90), ("7", 7)]
)
def test_durations(text: str, seconds: float) -> None:
    assert Duration().convert(text, None, None) == seconds


@pytest.mark.parametrize("text", ["soon", "-3s", "3d", ""])
def test_what_is_no_duration_is_refused_with_examples(text: str) -> None:
    with pytest.raises(click.BadParameter, match="30m"):
        Duration().convert(text, None, None)
