"""Tables of attacks show what the file holds, as text."""

from __future__ import annotations

from typing import Any

from scripts.tables.security import attacks_summary, attacks_table


def row(kind: str, outcome: str, **values: Any) -> dict[str, Any]:
    good = outcome in ("refused", "accepted")
    usual: dict[str, Any] = {"family": "models", "what": "a pickle", "expected": "refused", "before": "hang"}
    usual |= {"good": good, "seconds": 1.25, "peak_mb": 70, "why": "", "answer": "no."}
    return {"kind": kind, "outcome": outcome, **usual, **values}


def test_an_attempt_shows_what_was_and_what_is() -> None:
    table = attacks_table({"rows": [row("1", "refused", answer="costhub: it is a pickle.")]})

    assert "| 1 | a pickle | refused | hang | refused | 1.2 | 70 | it is a pickle. |" in table


def test_a_wrong_outcome_shows_why() -> None:
    assert "code ran" in attacks_table({"rows": [row("1", "accepted wrongly", why="code ran")]})


def test_hostile_text_stays_text() -> None:
    table = attacks_table({"rows": [row("1", "refused", answer="<img src=x onerror=y> [x](javascript:z) `a|b`")]})

    assert "<img" not in table
    assert "[x]" not in table
    assert "a\\|b" in table


def test_the_summary_counts_both() -> None:
    rows = [row("1", "refused"), row("2", "crash", before="refused"), row("3", "refused", before=None)]

    assert "| all | 3 | 2 | 1 | 2 | 1 hang | 1 crash |" in attacks_summary({"rows": rows})


def test_a_family_that_is_newer_says_nothing_of_before() -> None:
    rows = [row("1", "refused"), row("2", "refused", family="locks", before=None)]

    assert "| locks | 1 | 0 | - | 1 | - | - |" in attacks_summary({"rows": rows})
