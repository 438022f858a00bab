"""Provides Rule, the base of every rule of check_folder, and Report, which joins breaches into findings."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Literal

from costhub.terminal_text import clean, first_few

Severity = Literal["error", "warning"]
_NAMED = 3
_MOST_MESSAGES = 20
"""Limit on messages of one rule on one file; an untrusted file could cause any number of them."""


@dataclass(frozen=True, kw_only=True)
class Rule:
    """A rule that data folders must follow; an instance of this class itself is applied while files are read.

    A message says what was found and what was expected. It never quotes values of the data, so that the
    breaches of many rows become one finding.
    """

    id: str
    """Never reused for another rule: contributions and their reviews refer to it."""
    title: str
    severity: Severity
    """An error makes data wrong or unsafe; a warning deserves a look."""
    fix: str
    """What to do about it."""
    is_deep: bool = False
    """Whether it loads modules into TVM; applied with `--deep` only."""


@dataclass(frozen=True)
class Finding:
    """One breach of a rule, in one place."""

    rule: str
    severity: Severity
    where: str
    """File or table, within the data folder."""
    message: str
    fix: str
    rows: int = 0
    """How many rows; 0 if the finding is about a file."""


@dataclass
class Breach:
    """A broken rule: one message on one file, and the rows concerned."""

    rule: str
    where: str
    message: str
    rows: int = 0
    names: list[str] = field(default_factory=list)


class Report:
    """Collects breaches; breaches with the same message on the same file become one finding."""

    def __init__(self, rules: Mapping[str, Rule]) -> None:
        self._rules = rules
        self._breaches: dict[tuple[str, str], dict[str, Breach]] = {}

    def add(self, breach: Breach) -> None:
        """Adds a breach, or adds its rows to an earlier one with the same message."""
        messages = self._breaches.setdefault((breach.rule, breach.where), {})
        earlier = messages.get(breach.message)
        if earlier is not None:
            earlier.rows += breach.rows
            earlier.names += [name for name in breach.names if name not in earlier.names][:_NAMED]
        elif len(messages) < _MOST_MESSAGES:
            messages[breach.message] = breach

    def extend(self, breaches: Iterable[Breach]) -> None:
        """Adds several breaches."""
        for breach in breaches:
            self.add(breach)

    def findings(self) -> list[Finding]:
        """The findings, in the order of the rules."""
        breaches = [breach for messages in self._breaches.values() for breach in messages.values()]
        order = {rule: number for number, rule in enumerate(self._rules)}
        return [self._finding(breach) for breach in sorted(breaches, key=lambda b: (order[b.rule], b.where))]

    def _finding(self, breach: Breach) -> Finding:
        rule = self._rules[breach.rule]
        where, message = clean(breach.where, 200), clean(breach.message, 500)
        if breach.rows:
            rows = "1 row" if breach.rows == 1 else f"{breach.rows:,} rows"
            message = f"{rows} ({first_few(breach.names, breach.rows)}): {message}"
        return Finding(rule.id, rule.severity, where, message, rule.fix, breach.rows)
