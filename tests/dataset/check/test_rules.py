from __future__ import annotations

from pathlib import Path

from costhub.dataset.check.rules import RULES, table_of_rules

DOCS = Path(__file__).parents[3] / "docs/check.md"


def test_ids_count_up_and_titles_differ() -> None:
    # An id that is no longer used would leave a gap, and be named here.
    assert list(RULES) == [f"CH{number:03d}" for number in range(1, len(RULES) + 1)]
    assert len({rule.title for rule in RULES.values()}) == len(RULES)


def test_every_rule_says_what_to_do() -> None:
    assert all(rule.fix.endswith(".") and not rule.title.endswith(".") for rule in RULES.values())


def test_the_documentation_has_the_table_of_rules() -> None:
    assert table_of_rules() in DOCS.read_text(encoding="utf-8")
