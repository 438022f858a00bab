"""Provides RULES: every rule of check_folder, in the order of its id."""

from __future__ import annotations

from costhub.dataset.check import (
    deep,
    devices,
    files,
    generated,
    identities,
    outcomes,
    personal,
    provenance,
    repeats,
    roofline,
    sessions,
    texts,
    traces,
    units,
    workloads,
)
from costhub.dataset.check.rule import Rule

_THEMES = (
    *(files, identities, traces, workloads, deep, devices, outcomes, roofline, units, repeats, generated),
    *(sessions, texts, provenance, personal),
)

RULES: dict[str, Rule] = {
    rule.id: rule
    for rule in sorted((rule for theme in _THEMES for rule in theme.RULES), key=lambda rule: rule.id)
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
