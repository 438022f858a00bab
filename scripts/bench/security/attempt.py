"""Provides Attempt, one attack with the outcome that is right, and judge, which names the outcome that came."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from scripts.bench.security.place import Answer, Command, Place

Expected = Literal["refused", "accepted", "either"]
"""`either`: whether costhub takes it is a matter of taste; that it neither hangs nor crashes is not."""
GOOD = ("refused", "accepted")
LIMIT_S = 60.0
MOST_MB = 2500.0
"""The process that checks a file may itself add 2 GiB to the 300 MB of its libraries."""
_BUG = ("Traceback (most recent call last)", "this is a bug in costhub")
_CRASHES = tuple(128 + number for number in (4, 6, 7, 8, 11))


def no_harm(place: Place, answer: Answer) -> str:
    """Of an attempt whose exit status says enough."""
    del place, answer
    return ""


@dataclass(frozen=True)
class Attempt:
    """One attack: what it makes, what it runs, and what must come of it."""

    kind: str
    """Its number in the list of kinds, with a letter where a kind has several."""
    family: str
    what: str
    make: Callable[[Place], Command]
    """Makes the hostile things in a place of its own, and returns the command."""
    expected: Expected = "refused"
    harm: Callable[[Place, Answer], str] = no_harm
    """A few words on what was done that must not be done; empty where nothing was."""
    limit_s: float = LIMIT_S
    most_mb: float = MOST_MB
    quick: bool = False
    """Whether the quick form runs it."""


@dataclass(frozen=True)
class Verdict:
    """The name of an outcome, and whether it is a right one."""

    outcome: str
    good: bool
    why: str = ""
    """What was wrong, where the outcome does not say it."""


def judge(attempt: Attempt, answer: Answer, harm: str) -> Verdict:
    """Names an outcome.

    Args:
        attempt: What was expected.
        answer: What came.
        harm: What the attempt's own look at the place found.

    Example:
        >>> from functools import partial
        >>> tried = partial(Attempt, "1", "models", "a pickle", lambda place: Command((), ""))
        >>> told = partial(Answer, seconds=1.0, peak_mb=90.0, out="")
        >>> judge(tried(), told(2, err="costhub: it is a pickle."), "").outcome
        'refused'
        >>> judge(tried(), told(0, err=""), "")
        Verdict(outcome='accepted wrongly', good=False, why='')
        >>> judge(tried(expected="accepted"), told(-11, err=""), "").outcome
        'crash'
    """
    text = f"{answer.out}\n{answer.err}"
    if answer.peak_mb > attempt.most_mb:
        return Verdict("too much memory", False, f"{answer.peak_mb:,.0f} MB")
    if answer.timed_out:
        return Verdict("hang", False, f"still there after {attempt.limit_s:g} s")
    if answer.code in _CRASHES or (answer.code < 0 and answer.code not in (-2, -9, -15)):
        return Verdict("crash", False, f"exit status {answer.code}")
    if any(words in text for words in _BUG):
        return Verdict("traceback", False)
    if harm:
        return Verdict("accepted wrongly", False, harm)
    if answer.left:
        return Verdict("left processes", False, f"{answer.left} of them")
    if answer.code == 0:
        return Verdict("accepted wrongly", False) if attempt.expected == "refused" else Verdict("accepted", True)
    if not answer.last_line:
        return Verdict("no sentence", False)
    return Verdict("refused wrongly", False) if attempt.expected == "accepted" else Verdict("refused", True)


def says(text: str) -> Callable[[Place, Answer], str]:
    """A harm: the answer holds a text that must not get out.

    Args:
        text: What must not be there.
    """

    def found(place: Place, answer: Answer) -> str:
        del place
        return f"the answer holds {text!r}" if text in answer.out + answer.err else ""

    return found


def lacks(text: str) -> Callable[[Place, Answer], str]:
    """A harm: the answer does not say what it must say."""

    def missing(place: Place, answer: Answer) -> str:
        del place
        return "" if text in answer.out + answer.err else f"the answer does not say {text!r}"

    return missing


def writes(name: str) -> Callable[[Place, Answer], str]:
    """A harm: a path below the place exists, which only an attack that worked could have made."""

    def made(place: Place, answer: Answer) -> str:
        del answer
        path = place.folder / name
        return f"{name} was written" if path.exists() or path.is_symlink() else ""

    return made


def holds(path: Path, text: bytes) -> bool:
    """Whether any plain file at or below a path holds some bytes."""
    files = [path] if path.is_file() else [p for p in path.rglob("*") if p.is_file() and not p.is_symlink()]
    return any(text in each.read_bytes() for each in files if each.stat().st_size < 64 << 20)
