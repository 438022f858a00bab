"""The names of outcomes: each wrong one can come, and a right one comes only where it was expected."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from scripts.bench.security.attempt import Attempt, holds, judge, lacks, says
from scripts.bench.security.place import Answer, Command


def tried(**options: Any) -> Attempt:
    return Attempt("1", "models", "a pickle", lambda place: Command((), ""), **options)


def told(code: int, text: str = "costhub: no.", **facts: Any) -> Answer:
    return Answer(code, 1.0, facts.pop("peak_mb", 90.0), "", text, **facts)


@pytest.mark.parametrize(
    ("expected", "answer", "harm", "outcome"),
    [
        ("refused", told(2), "", "refused"),
        ("accepted", told(0), "", "accepted"),
        ("either", told(0), "", "accepted"),
        ("either", told(1), "", "refused"),
        ("refused", told(0), "", "accepted wrongly"),
        ("refused", told(2), "a secret got out", "accepted wrongly"),
        ("accepted", told(2), "", "refused wrongly"),
        ("refused", told(2, ""), "", "no sentence"),
        ("refused", told(1, "Traceback (most recent call last):\nKeyError: 1"), "", "traceback"),
        ("refused", told(1, "costhub: this is a bug in costhub (KeyError)."), "", "traceback"),
        ("refused", told(-11), "", "crash"),
        ("refused", told(139), "", "crash"),
        ("refused", told(-9, timed_out=True), "", "hang"),
        ("refused", told(2, peak_mb=4215.0), "", "too much memory"),
        ("refused", told(2, left=1), "", "left processes"),
    ],
)
def test_an_outcome_has_a_name_and_only_the_expected_one_is_good(
    expected: Any, answer: Answer, harm: str, outcome: str
) -> None:
    verdict = judge(tried(expected=expected), answer, harm)

    assert (verdict.outcome, verdict.good) == (outcome, outcome in ("refused", "accepted"))


def test_an_attempt_may_take_less_memory_than_others() -> None:
    assert judge(tried(most_mb=50), told(2), "").outcome == "too much memory"


def test_harms_look_at_what_was_said_and_written(tmp_path: Path) -> None:
    answer: Any = Answer(0, 1.0, 1.0, "the figures stayed", "")
    place: Any = None
    (tmp_path / "copy.json").write_bytes(b"a secret")

    assert not lacks("the figures stayed")(place, answer)
    assert lacks("four records")(place, answer)
    assert says("figures")(place, answer)
    assert not says("secret")(place, answer)
    assert holds(tmp_path, b"secret")
    assert not holds(tmp_path, b"other")
