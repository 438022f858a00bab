"""Provides DATABASE_RULES and FindingLog: what a sound MetaSchedule database keeps, and where one does not."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Literal

MOST_FINDINGS = 1000
"""Places that are kept of one rule; all of them count."""


@dataclass(frozen=True)
class DatabaseRule:
    """What a sound database keeps."""

    id: str
    severity: Literal["error", "warning", "note"]
    """Error: TVM cannot load the folder, or answers wrongly from it. Note: worth knowing, nothing to mend."""
    title: str
    fix: str
    """What to do."""


@dataclass(frozen=True)
class DatabaseFinding:
    """A place where a database breaks a rule."""

    rule: str
    severity: str
    where: str
    """File and line, or the workload."""
    message: str


_LEFT_OUT = "--fix OUT leaves it out of the copy."
_MENDED = "--fix OUT writes it as TVM 0.27 does."

DATABASE_RULES = {
    rule.id: rule
    for rule in (
        DatabaseRule("DB01", "error", "a record can be read", f"TVM cannot load the folder. {_LEFT_OUT}"),
        DatabaseRule("DB02", "error", "no line is blank", f"TVM's loader crashes on one. {_LEFT_OUT}"),
        DatabaseRule("DB03", "error", "a workload can be read", f"{_LEFT_OUT} Its records go with it."),
        DatabaseRule("DB04", "error", "the workload of a record exists", f"TVM cannot load the folder. {_LEFT_OUT}"),
        DatabaseRule(
            "DB05",
            "error",
            "a record has the arguments of its workload",
            f"It belongs to another workload. {_LEFT_OUT}",
        ),
        DatabaseRule("DB06", "error", "a schedule replays on its workload", f"TVM cannot load the folder. {_LEFT_OUT}"),
        DatabaseRule(
            "DB07",
            "error",
            "a program computes what its workload computes (with --run)",
            f"Never deploy it. {_LEFT_OUT}",
        ),
        DatabaseRule(
            "DB08",
            "warning",
            "a workload has the hash of its module",
            f"Somebody has edited the line; TVM 0.27 computes the hash anew, other tools may not. {_MENDED}",
        ),
        DatabaseRule(
            "DB09",
            "error",
            "each workload is on one line only",
            "TVM numbers what it appends wrongly from then on. --fix OUT joins the lines and keeps the records of all.",
        ),
        DatabaseRule("DB10", "warning", "each record is on one line only", "--fix OUT keeps the first."),
        DatabaseRule(
            "DB11",
            "warning",
            "all records are for one target",
            "TVM's queries ignore the target and answer with programs of any. Keep a folder for each target: "
            "--target TARGET --fix OUT writes the records of one.",
        ),
        DatabaseRule("DB12", "warning", "workloads and records are in the form of TVM 0.27", _MENDED),
        DatabaseRule(
            "DB13", "warning", "a file ends with a line break", "TVM would append to its last line. --fix OUT ends it."
        ),
        DatabaseRule(
            "DB14",
            "warning",
            "a workload with records has a program that ran",
            "TVM would compile it with a program that failed. Tune it again, or leave failures out (--no-failures).",
        ),
        DatabaseRule(
            "DB15",
            "warning",
            "every kernel of the network that `costhub tune` would tune is tuned (with --network)",
            "Tune the network's other kernels.",
        ),
        DatabaseRule(
            "DB16",
            "note",
            "trials go to kernels that matter (with --network)",
            "Give a task scheduler the network's weights, or tune the heavy kernels alone.",
        ),
        DatabaseRule("DB17", "note", "a program ran (TVM keeps 1e10 seconds for one that failed)", "Nothing."),
        DatabaseRule("DB18", "note", "a workload has records", "Nothing."),
        DatabaseRule(
            "DB19", "note", "a program can be run and compared here (with --run)", "Run it on a machine of its target."
        ),
        DatabaseRule(
            "DB20",
            "error",
            "a file begins with its first line, not with a byte order mark",
            f"TVM cannot load the folder. {_LEFT_OUT}",
        ),
        DatabaseRule(
            "DB21",
            "note",
            "a program was measured (`costhub compile` keeps 2e9 seconds for one that it chose)",
            "Nothing: TVM uses it if its workload has no other. Imports refuse it.",
        ),
    )
}


@dataclass
class FindingLog:
    """What was found, by rule: all of it counted, the first thousand places of each rule kept."""

    counts: Counter[str] = field(default_factory=Counter)
    kept: dict[str, list[DatabaseFinding]] = field(default_factory=dict)

    def add(self, rule_id: str, where: str, message: str) -> None:
        """Counts a finding and keeps its place.

        Example:
            >>> log = FindingLog()
            >>> log.add("DB02", "database_tuning_record.json line 3", "the line is blank")
            >>> log.counts["DB02"], log.findings()[0].severity
            (1, 'error')
        """
        rule = DATABASE_RULES[rule_id]
        self.counts[rule_id] += 1
        places = self.kept.setdefault(rule_id, [])
        if len(places) < MOST_FINDINGS:
            places.append(DatabaseFinding(rule_id, rule.severity, where, message))

    def rename(self, names: Mapping[str, str]) -> None:
        """Calls workloads by other names in what was found so far; `names` has the new one of each old one.

        Example:
            >>> log = FindingLog()
            >>> log.add("DB18", "matmul_8x8_8x8_8x8", "no record of it can be used")
            >>> log.rename({"matmul_8x8_8x8_8x8": "dense.8x8.8x8.0a1b2c"})
            >>> log.findings()[0].where
            'dense.8x8.8x8.0a1b2c'
        """
        for rule_id, places in self.kept.items():
            self.kept[rule_id] = [replace(each, where=names.get(each.where, each.where)) for each in places]

    def count(self, severity: str) -> int:
        """How many findings of a severity there are, those that were not kept included."""
        return sum(count for rule_id, count in self.counts.items() if DATABASE_RULES[rule_id].severity == severity)

    def findings(self) -> Sequence[DatabaseFinding]:
        """The findings that were kept, by rule."""
        return [finding for rule_id in sorted(self.kept) for finding in self.kept[rule_id]]
