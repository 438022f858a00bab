from __future__ import annotations

from pathlib import Path

from costhub.dataset.doctor.database_rules import DATABASE_RULES, MOST_FINDINGS, FindingLog

PAGE = Path(__file__).parents[3] / "docs/doctor.md"


def test_the_page_has_every_rule_as_it_is() -> None:
    rows = [line for line in PAGE.read_text(encoding="utf-8").splitlines() if line.startswith("| DB")]

    assert rows == [f"| {r.id} | {r.severity} | {r.title} | {r.fix} |" for r in DATABASE_RULES.values()]


def test_all_findings_count_and_the_first_thousand_are_kept() -> None:
    log = FindingLog()
    for number in range(MOST_FINDINGS + 5):
        log.add("DB17", f"line {number}", "failed")
    log.add("DB02", "line 9", "blank")

    assert (log.count("note"), log.count("error"), log.count("warning")) == (MOST_FINDINGS + 5, 1, 0)
    assert len(log.findings()) == MOST_FINDINGS + 1
    assert log.findings()[0].rule == "DB02"
