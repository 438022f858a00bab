from __future__ import annotations

from costhub.dataset.metaschedule.report import MOST_NAMED, ImportReport, Refusal


def test_sentences_name_the_commonest_reasons_and_a_line_of_each() -> None:
    report = ImportReport(workloads=1, ok=2, known=3, duplicates=4, redone=5)
    for number in (7, 9):
        report.refuse("records.json", number, "it is blank")
    report.refuse("records.json", 8, "it is torn")

    assert report.sentences() == [
        "2 measurements of 1 workloads were added: 2 ran, 0 failed on the device.",
        "The post-processing of 5 was redone.",
        "3 records were there already.",
        "4 lines are copies of earlier ones and were left out.",
        "3 lines were refused:",
        "  2 because it is blank, first records.json line 7.",
        "  1 because it is torn, first records.json line 8.",
    ]
    assert report.kept == 5


def test_all_refused_lines_count_and_the_first_thousand_are_named() -> None:
    report = ImportReport()
    for number in range(2 * MOST_NAMED):
        report.refuse("f", number, f"reason {number}")

    assert report.refused == sum(report.reasons.values()) == 2 * MOST_NAMED
    assert len(report.refusals) == MOST_NAMED
    assert report.refusals[-1] == Refusal("f", MOST_NAMED - 1, f"reason {MOST_NAMED - 1}")
    assert report.reasons["other reasons"] == MOST_NAMED
