"""The sets of schedule rules of MetaSchedule's figure 10a."""

from __future__ import annotations

from itertools import pairwise

from scripts.bench.search.composition import ADDED, rules_of
from scripts.tables.papers.composition import ALL_RULES


def names(rules: str) -> list[str]:
    return [type(rule).__name__ for rule in rules_of(rules)]


def test_each_set_has_the_rules_of_the_one_before_and_more() -> None:
    for smaller, larger in pairwise(ADDED):
        assert set(names(smaller)) < set(names(larger))


def test_the_last_set_is_what_tvm_does_by_itself() -> None:
    from tvm.s_tir.meta_schedule.schedule_rule import ScheduleRule

    assert list(ADDED)[-1] == ALL_RULES
    assert names(ALL_RULES) == [type(rule).__name__ for rule in ScheduleRule.create("llvm")]
