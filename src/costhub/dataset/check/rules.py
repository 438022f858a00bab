"""Provides RULES: every rule of check_folder, in the order of its id."""

from __future__ import annotations

from costhub.dataset.check.deep import DEEP_RULES
from costhub.dataset.check.files import FILE_RULES
from costhub.dataset.check.identities import IDENTITY_RULES
from costhub.dataset.check.latencies import LATENCY_RULES
from costhub.dataset.check.outcomes import OUTCOME_RULES
from costhub.dataset.check.rule import Rule
from costhub.dataset.check.sessions import SESSION_RULES
from costhub.dataset.check.tables import TABLE_RULES
from costhub.dataset.check.texts import TEXT_RULES

_FAMILIES = (
    *(FILE_RULES, IDENTITY_RULES, TABLE_RULES, DEEP_RULES),
    *(OUTCOME_RULES, LATENCY_RULES, SESSION_RULES, TEXT_RULES),
)

RULES: dict[str, Rule] = {
    rule.id: rule for rule in sorted((rule for family in _FAMILIES for rule in family), key=lambda rule: rule.id)
}


def table_of_rules() -> str:
    """Renders the rules as the table of docs/check.md.

    Example:
        >>> print(table_of_rules().splitlines()[2][:22])
        | CH001 | error | ever
    """
    lines = ["| rule | severity | what it asks for | what to do |", "|---|---|---|---|"]
    for rule in RULES.values():
        deep_only = " (with `--deep`)" if rule.is_deep else ""
        lines.append(f"| {rule.id} | {rule.severity} | {rule.title}{deep_only} | {rule.fix} |")
    return "\n".join(lines)
