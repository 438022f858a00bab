"""Provides ImportReport: what became of every line of a database that was imported."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field

MOST_NAMED = 1000


@dataclass(frozen=True)
class Refusal:
    """A line that was not imported."""

    file: str
    line: int
    """1 for the first."""
    why: str


@dataclass
class ImportReport:
    """Counts of an import, and the lines that it refused."""

    workloads: int = 0
    """Workloads that could be read, each distinct one once."""
    ok: int = 0
    """Measurements added that ran."""
    failed: int = 0
    """Measurements added of programs that failed on the device."""
    known: int = 0
    """Records that the folder had already, from an earlier or interrupted import."""
    duplicates: int = 0
    """Records that the database holds a second time."""
    refused: int = 0
    """Lines that could not be imported."""
    redone: int = 0
    """Added measurements whose post-processing was redone, because as recorded it does not replay."""
    reasons: dict[str, int] = field(default_factory=dict)
    """How many lines were refused for which reason."""
    refusals: list[Refusal] = field(default_factory=list)
    """The refused lines; the first 1,000 of them."""

    @property
    def kept(self) -> int:
        """Records that the folder has now."""
        return self.ok + self.failed + self.known

    def refuse(self, file: str, line: int, why: str) -> None:
        """Counts a line that is not imported, and keeps its number and the reason."""
        self.refused += 1
        reason = why if why in self.reasons or len(self.reasons) < MOST_NAMED else "other reasons"
        self.reasons[reason] = self.reasons.get(reason, 0) + 1
        if len(self.refusals) < MOST_NAMED:
            self.refusals.append(Refusal(file, line, why))

    def sentences(self) -> list[str]:
        """The report for people.

        Example:
            >>> ImportReport(workloads=2, ok=9, failed=1).sentences()
            ['10 measurements of 2 workloads were added: 9 ran, 1 failed on the device.']
        """
        said = [
            f"{self.ok + self.failed:,} measurements of {self.workloads:,} workloads were added: "
            f"{self.ok:,} ran, {self.failed:,} failed on the device."
        ]
        if self.redone:
            said.append(f"The post-processing of {self.redone:,} was redone.")
        if self.known:
            said.append(f"{self.known:,} records were there already.")
        if self.duplicates:
            said.append(f"{self.duplicates:,} lines are copies of earlier ones and were left out.")
        if self.refused:
            said.append(f"{self.refused:,} lines were refused:")
            said += [self._example(why, count) for why, count in Counter(self.reasons).most_common(10)]
        return said

    def _example(self, why: str, count: int) -> str:
        first = next((r for r in self.refusals if r.why == why), None)
        where = f", first {first.file} line {first.line}" if first else ""
        return f"  {count:,} because {why}{where}."
