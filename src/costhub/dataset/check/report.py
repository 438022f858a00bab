"""Provides Report: the breaches of all rules, joined into few findings that a person can read."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

from costhub.dataset.check.rule import Finding, Rule

_NAMED = 3
_SHOWN_NAMES = 3
_MOST_MESSAGES = 20
"""Messages of one rule on one file; a file of a stranger could cause any number of them."""


@dataclass
class Breach:
    """A broken rule: one message on one file, and the rows it is about."""

    rule: str
    where: str
    message: str
    rows: int = 0
    names: list[str] = field(default_factory=list)


class Report:
    """Collects breaches; those of one message on one file become one finding."""

    def __init__(self, rules: Mapping[str, Rule]) -> None:
        self._rules = rules
        self._breaches: dict[tuple[str, str], dict[str, Breach]] = {}

    def add(self, breach: Breach) -> None:
        """Adds a breach, or counts its rows to an earlier one of the same message."""
        messages = self._breaches.setdefault((breach.rule, breach.where), {})
        known = messages.get(breach.message)
        if known is not None:
            known.rows += breach.rows
            known.names += [name for name in breach.names if name not in known.names][:_NAMED]
        elif len(messages) < _MOST_MESSAGES:
            messages[breach.message] = breach

    def extend(self, breaches: Iterable[Breach]) -> None:
        """Adds several breaches."""
        for breach in breaches:
            self.add(breach)

    def findings(self) -> list[Finding]:
        """The findings, in the order of the rules."""
        found = [breach for messages in self._breaches.values() for breach in messages.values()]
        order = {rule: number for number, rule in enumerate(self._rules)}
        return [self._finding(breach) for breach in sorted(found, key=lambda b: (order[b.rule], b.where))]

    def _finding(self, breach: Breach) -> Finding:
        rule = self._rules[breach.rule]
        where, message = clean(breach.where, 200), clean(breach.message, 500)
        if breach.rows:
            rows = "1 row" if breach.rows == 1 else f"{breach.rows:,} rows"
            message = f"{rows} ({some(breach.names, breach.rows)}): {message}"
        return Finding(rule.id, rule.severity, where, message, rule.fix, breach.rows)


def some(names: list[str], count: int) -> str:
    """The first few of `count` names, fit for a terminal.

    Example:
        >>> some(["a", "b", "c", "d"], 9)
        'a, b, c, ...'
    """
    shown = [clean(name, 16) for name in names[:_SHOWN_NAMES]]
    return ", ".join([*shown, "..."] if count > len(shown) else shown)


def clean(text: str, length: int) -> str:
    r"""Text from a stranger without what a terminal would obey, and cut.

    Example:
        >>> clean("\x1b[31mred", 6)
        '?[31mr'
    """
    return re.sub(r"[^\x20-\x7e]", "?", text)[:length]
