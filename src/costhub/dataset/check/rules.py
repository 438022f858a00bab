"""Provides RULES: every rule of check_folder, in the order of its id."""

from __future__ import annotations

from costhub.dataset.check.deep import DEEP_RULES as DEEP
from costhub.dataset.check.files import FILE_RULES as FILES
from costhub.dataset.check.identities import IDENTITY_RULES as IDENTITIES
from costhub.dataset.check.identities import TRACE_RULES as TRACES
from costhub.dataset.check.latencies import GENERATED_RULES as GENERATED
from costhub.dataset.check.latencies import REPEAT_RULES as REPEATS
from costhub.dataset.check.latencies import UNIT_RULES as UNITS
from costhub.dataset.check.outcomes import OUTCOME_RULES as OUTCOMES
from costhub.dataset.check.outcomes import ROOFLINE_RULES as ROOFLINE
from costhub.dataset.check.rule import Rule
from costhub.dataset.check.sessions import SESSION_RULES as SESSIONS
from costhub.dataset.check.tables import DEVICE_RULES as DEVICES
from costhub.dataset.check.tables import WORKLOAD_RULES as WORKLOADS
from costhub.dataset.check.texts import PERSONAL_RULES as PERSONAL
from costhub.dataset.check.texts import PROVENANCE_RULES as PROVENANCE
from costhub.dataset.check.texts import TEXT_RULES as TEXTS

_THEMES = (
    *(FILES, IDENTITIES, TRACES, WORKLOADS, DEEP, DEVICES, OUTCOMES, ROOFLINE),
    *(UNITS, REPEATS, GENERATED, SESSIONS, TEXTS, PROVENANCE, PERSONAL),
)

RULES: dict[str, Rule] = {
    rule.id: rule for rule in sorted((rule for theme in _THEMES for rule in theme), key=lambda rule: rule.id)
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
