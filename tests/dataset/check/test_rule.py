from __future__ import annotations

from dataclasses import FrozenInstanceError

import pytest

from costhub.dataset.check.rule import Breach, Finding, Report, Rule
from costhub.dataset.check.rules import RULES


def test_a_rule_is_named_by_keywords_and_does_not_change() -> None:
    rule = Rule(id="CH999", title="t", severity="error", fix="f")

    assert not rule.is_deep
    with pytest.raises(FrozenInstanceError):
        rule.title = "u"  # type: ignore[misc]


def test_a_finding_on_a_file_is_about_no_rows() -> None:
    assert Finding("CH001", "error", "a", "m.", "f").rows == 0


def test_breaches_of_one_message_on_one_file_become_one_finding() -> None:
    report = Report(RULES)
    report.extend([Breach("CH026", "a", "bad.", 2, ["r0", "r1"]), Breach("CH026", "a", "bad.", 1200, ["r2"])])
    report.add(Breach("CH026", "b", "bad.", 1, ["r9"]))

    first, second = report.findings()
    assert (first.where, first.rows, first.message) == ("a", 1202, "1,202 rows (r0, r1, r2, ...): bad.")
    assert (second.where, second.message) == ("b", "1 row (r9): bad.")


def test_findings_come_in_the_order_of_the_rules() -> None:
    report = Report(RULES)
    report.extend([Breach("CH026", "a", "x."), Breach("CH001", "b", "y."), Breach("CH001", "a", "z.")])

    assert [(f.rule, f.where) for f in report.findings()] == [("CH001", "a"), ("CH001", "b"), ("CH026", "a")]


def test_a_finding_says_how_bad_it_is_and_what_to_do() -> None:
    report = Report(RULES)
    report.add(Breach("CH009", "a", "x."))

    [finding] = report.findings()
    assert (finding.severity, finding.fix) == (RULES["CH009"].severity, RULES["CH009"].fix)


def test_a_file_cannot_cause_any_number_of_findings() -> None:
    report = Report(RULES)
    report.extend(Breach("CH001", "a", f"message {number}.") for number in range(1000))

    assert len(report.findings()) == 20


def test_strange_characters_do_not_reach_the_terminal() -> None:
    report = Report(RULES)
    report.add(Breach("CH026", "a\x1b[1m", "bad \x9b.", 1, ["\x1b[31m" + "x" * 200]))

    [finding] = report.findings()
    assert finding.where + finding.message == "a?[1m" + "1 row (?[31mxxxxxxxxxxx): bad ?."
