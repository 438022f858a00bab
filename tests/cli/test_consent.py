from __future__ import annotations

import sys
from typing import Any

import click
import pytest

from costhub.cli.consent import agreed, in_bytes
from costhub.errors import RefusedError


def test_nobody_there_is_no_consent(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys.stdin, "isatty", lambda: False, raising=False)

    assert agreed("Send it?", yes=True, verb="publish")
    with pytest.raises(RefusedError, match="costhub publish --yes"):
        agreed("Send it?", yes=False, verb="publish")


@pytest.mark.parametrize("answer", [True, False])
def test_a_person_is_asked(answer: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[str] = []

    def confirm(question: str, **_: Any) -> bool:
        asked.append(question)
        return answer

    monkeypatch.setattr(sys.stdin, "isatty", lambda: True, raising=False)
    monkeypatch.setattr(click, "confirm", confirm)

    assert agreed("Send it?", yes=False, verb="publish") is answer
    assert asked == ["Send it?"]


@pytest.mark.parametrize(
    ("size", "text"),
    [(0, "0 B"), (999, "999 B"), (1000, "1.0 kB"), (4_161_119, "4.2 MB"), (10**13, "10000.0 GB")],
)
def test_sizes_are_for_people(size: int, text: str) -> None:
    assert in_bytes(size) == text
