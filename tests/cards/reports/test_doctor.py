from __future__ import annotations

from pathlib import Path

from costhub.cards.reports.doctor import doctor_text
from costhub.dataset.doctor.coverage import KernelCoverage, NetworkCoverage
from costhub.dataset.doctor.database_rules import MOST_FINDINGS
from costhub.dataset.doctor.examine import Examination


def test_findings_stand_with_their_first_places_and_what_to_do() -> None:
    found = Examination(Path("tuned"), lines=9)
    for number in range(5):
        found.log.add("DB01", f"database_tuning_record.json line {number}", "it is not JSON")
    found.log.add("DB17", "database_tuning_record.json line 9", "failed")

    text = doctor_text(found, None)

    assert 'DB01 error, 5 breaches of the rule "a record can be read"' in text
    assert "line 2: it is not JSON" in text
    assert "line 3: it is not JSON" not in text
    assert "... and 2 more" in text
    assert text.count("To do:") == 1
    assert text.endswith("tuned: 5 errors, 0 warnings, 1 note.")


def test_more_places_than_are_kept_are_not_promised() -> None:
    found = Examination(Path("tuned"), lines=2000)
    for number in range(MOST_FINDINGS + 500):
        found.log.add("DB02", f"line {number}", "blank")

    assert "... and 1,497 more; --json lists only the first 1,000 of 1,500" in doctor_text(found, None)


def test_what_a_stranger_wrote_does_not_paint_the_terminal() -> None:
    found = Examination(Path("tu\x1b[2Jned"))
    found.log.add("DB01", "line\x1b[1m", "said\x1b]0;x\x07")

    assert "\x1b" not in doctor_text(found, None)


def test_a_network_is_a_table_of_shares() -> None:
    kernels = (
        KernelCoverage("conv", "conv_8x8", 2, 0.9, 6, 0, 0.5, 10.0, 1.0),
        KernelCoverage("dense", None, 1, 0.095, 0, 0, 0.0, None, None),
        KernelCoverage("mean", "reduce_8x8", 1, 0.005, 3, 3, 0.25, None, None),
    )
    left_out, by_default = {"moves data only": 4}, {"too little work": 1}
    coverage = NetworkCoverage("net", kernels, left_out, by_default, trials=12, foreign_trials=3)

    text = doctor_text(Examination(Path("tuned")), coverage)

    assert "net: 1 of 3 kernels tuned, 90.0% of the arithmetic" in text
    assert "of the trials, 25.0% to kernels with under 1 % of the arithmetic each and 25.0% to workloads that" in text
    assert "nothing to tune: 4 functions (moves data only)" in text
    assert "left to the default schedule, as by costhub tune: 1 kernel (too little work)" in text
    assert [line.split() for line in text.splitlines() if line.startswith("conv")] == [
        ["conv", "2", "90.0%", "100.0%", "50.0%", "6", "10.0"]
    ]
