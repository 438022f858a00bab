"""The programs of a real search run here; one that computes something else is found."""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from typing import Any

import pytest

from costhub.collector.build.builder import Builder
from costhub.collector.run.database_outputs import _chosen, compare_outputs, is_of_this_machine
from costhub.dataset.doctor.examine import Examination, examine_database

RECORDS = "database_tuning_record.json"


def examine(folder: Path) -> Examination:
    return examine_database(folder, workers=1, progress=False)


def wrong_trace(folder: Path, number: int) -> list[Any]:
    """A schedule that replays, and whose program keeps every second column in the place of its neighbour."""
    from tvm.s_tir import Schedule
    from tvm.s_tir import meta_schedule as ms

    from costhub.dataset.trace import trace_to_json

    line = (folder / "database_workload.json").read_text().splitlines()[number]
    schedule = Schedule(ms.database.Workload.from_json(json.loads(line)).mod)
    block = schedule.get_sblock("matmul")
    schedule.cache_write(block, 0, "global")
    schedule.transform_layout(block, ("write", 0), lambda i, j: (i, j // 2), assume_injective_transform=True)
    trace: list[Any] = json.loads(trace_to_json(schedule.trace))
    return trace


@pytest.fixture
def folder(searched: Path, tmp_path: Path) -> Path:
    """The search, with a program of workload 0 last that is the fastest and wrong."""
    (tmp_path / "db").mkdir()
    for name in (RECORDS, "database_workload.json"):
        shutil.copy(searched / name, tmp_path / "db" / name)
    lines = [json.loads(line) for line in (searched / RECORDS).read_text().splitlines()]
    _, (_, _, target, arguments) = next(line for line in lines if line[0] == 0)
    with (tmp_path / "db" / RECORDS).open("a") as file:
        file.write(json.dumps([0, [wrong_trace(tmp_path / "db", 0), [1e-9], target, arguments]]) + "\n")
    return tmp_path / "db"


def test_a_program_that_computes_something_else_is_found(folder: Path) -> None:
    found = examine(folder)
    assert found.log.count("error") == 0

    report = compare_outputs(found, progress=False)
    again = compare_outputs(examine(folder), progress=False)

    assert (report.right, report.wrong, report.not_run, report.known) == (12, 1, 0, 0)
    assert [each.line for each in found.records if each.is_wrong] == [13]
    [finding] = found.log.findings()
    assert (finding.rule, finding.where) == ("DB07", f"{RECORDS} line 13")
    assert "argument 3 differs" in finding.message or "argument 2 differs" in finding.message
    assert (again.right, again.wrong, again.known) == (12, 1, 13)


def test_only_the_fastest_of_each_workload_are_run(folder: Path) -> None:
    report = compare_outputs(examine(folder), best=1, progress=False)

    assert (report.right, report.wrong, report.not_run) == (1, 1, 0)


def test_the_fastest_is_the_one_that_tvm_would_take(folder: Path) -> None:
    lines = [json.loads(line) for line in (folder / RECORDS).read_text().splitlines()]
    of_first = [number for number, line in enumerate(lines, start=1) if line[0] == 0]
    for number in of_first:
        lines[number - 1][1][1] = [2e-3, 2e-3, 2e-3]
    steady, fitful = of_first[:2]
    lines[steady - 1][1][1] = [1e-3, 1e-3, 1e-3]
    lines[fitful - 1][1][1] = [5e-4, 5e-4, 9e-3]  # the smallest median, but not the smallest mean
    (folder / RECORDS).write_text("".join(json.dumps(line) + "\n" for line in lines))

    chosen = _chosen(examine(folder), 1)

    assert (steady in chosen, fitful in chosen) == (True, False)


def test_a_database_of_several_targets_holds_processes_for_one_at_a_time(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    lines = [json.loads(line) for line in (folder / RECORDS).read_text().splitlines()]
    for number, line in enumerate(lines):
        line[1][2] = {**line[1][2], "num-cores": 1 + number % 2}
    (folder / RECORDS).write_text("".join(f"{json.dumps(line)}\n" for line in lines))
    opened: list[str] = []
    live: set[str] = set()

    class Watched(Builder):
        def __enter__(self) -> Builder:
            assert not live
            opened.append(self.target)
            live.add(self.target)
            return super().__enter__()

        def close(self) -> None:
            live.discard(self.target)
            super().close()

    monkeypatch.setattr("costhub.collector.run.database_outputs.Builder", Watched)
    report = compare_outputs(examine(folder), progress=False)

    assert (report.right, report.wrong, report.not_run) == (12, 1, 0)
    assert len(opened) == len(set(opened)) == 2
    assert not live


def test_programs_of_another_machine_are_not_run(folder: Path) -> None:
    text = (folder / RECORDS).read_text()
    lines = [json.loads(line) for line in text.splitlines()]
    for line in lines:
        line[1][2] = {"kind": "llvm", "mtriple": "riscv64-unknown-linux-gnu", "num-cores": 2}
    (folder / RECORDS).write_text("".join(f"{json.dumps(line)}\n" for line in lines))
    found = examine(folder)

    report = compare_outputs(found, best=2, progress=False)

    assert (report.right, report.wrong, report.not_run) == (0, 0, 4)
    assert found.log.counts["DB19"] == 4


@pytest.mark.parametrize(
    ("target", "is_here"),
    [
        ({"kind": "llvm"}, True),
        ({"kind": "cuda"}, False),
        ({"kind": "llvm", "mtriple": "vax-dec-ultrix"}, False),
    ],
)
def test_a_target_is_of_this_machine_or_not(target: dict[str, Any], is_here: bool) -> None:
    assert is_of_this_machine(json.dumps(target)) is is_here
