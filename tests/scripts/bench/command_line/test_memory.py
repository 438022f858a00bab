"""The memory of a command: all of its processes, and what they share once."""

from __future__ import annotations

import json
from pathlib import Path

import click
import pytest
from click.testing import CliRunner

from scripts.bench.command_line.memory import Peak, commands, main, peak_of
from scripts.tables.networks import memory_table

MIB = 1 << 20


def test_the_memory_of_a_command_is_measured() -> None:
    peak = peak_of(["devices"])

    assert 10 * MIB < peak.largest <= peak.together < 4096 * MIB
    assert peak.processes >= 1


def test_a_command_that_fails_is_named() -> None:
    with pytest.raises(click.ClickException, match="costhub devices --no-such-option ended with 2"):
        peak_of(["devices", "--no-such-option"])


def test_the_most_at_one_time_counts_and_the_largest_at_any() -> None:
    class Process:
        def __init__(self, mib: int, *others: Process) -> None:
            self.pss, self.others = mib * MIB, others

        def children(self, recursive: bool) -> list[Process]:
            assert recursive
            return list(self.others)

        def memory_full_info(self) -> Process:
            return self

    peak = Peak()
    for root in (Process(50, Process(70)), Process(60, Process(30), Process(40)), Process(90)):
        peak.look(root)  # type: ignore[arg-type]

    assert (peak.together, peak.processes, peak.largest) == (130 * MIB, 3, 90 * MIB)


def test_each_command_has_a_row_that_is_not_measured_twice(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    asked = []

    def measured(words: list[str]) -> Peak:
        asked.append(words[0])
        return Peak(3 << 30, 7, 1 << 30)

    monkeypatch.setattr("scripts.bench.command_line.memory.peak_of", measured)
    words = ["--quick", "--rows", str(tmp_path / "r.jsonl"), "--json", str(tmp_path / "r.json")]
    for _ in range(2):
        assert CliRunner().invoke(main, words).exit_code == 0

    assert asked == [command for command, *_ in commands(["bert_tiny"])] == ["tune", "compile", "collect"]
    table = memory_table(json.loads((tmp_path / "r.json").read_text())).splitlines()
    assert table[2:] == [
        "| `costhub tune`, bert_tiny | 3.0 | 7 | 1.0 |",
        "| `costhub compile`, bert_tiny | 3.0 | 7 | 1.0 |",
        "| `costhub collect` | 3.0 | 7 | 1.0 |",
    ]
