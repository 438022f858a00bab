"""A real search's folder, damaged in every way that we know: each damage is found, and no good record is lost."""

from __future__ import annotations

import gzip
import json
import sqlite3
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from costhub.dataset.doctor.clean_copy import write_clean_copy
from costhub.dataset.doctor.examine import Examination, examine_database
from costhub.dataset.metaschedule.lines import UNMEASURED_S
from costhub.dataset.metaschedule.sqlite_form import SQLITE_FILES
from costhub.errors import DataError

RECORDS, WORKLOADS = "database_tuning_record.json", "database_workload.json"
FAILED = 1e10


def examine(folder: Path, **options: Any) -> Examination:
    return examine_database(folder, workers=1, progress=False, **options)


def test_a_sound_folder_has_no_findings_and_its_copy_is_itself(search: Any, tmp_path: Path) -> None:
    folder = search.write(tmp_path / "db")

    found = examine(folder)
    write_clean_copy([found], tmp_path / "clean")

    assert found.log.findings() == []
    assert (found.lines, len(found.records), len(found.distinct)) == (12, 12, 2)
    assert [each.records for each in found.distinct] == [6, 6]
    for name in (RECORDS, WORKLOADS):
        assert (tmp_path / "clean" / name).read_bytes() == (folder / name).read_bytes()


def _versions(found: Examination) -> dict[str, str | None]:
    return {each.workload_id: each.examined.tvm_version for each in found.distinct}


def blank(s: Any) -> None:
    s.records.insert(4, b"  ")


def cut_off(s: Any) -> None:
    s.records[4] = s.records[4][:200]


def cut_off_at_the_end(s: Any) -> None:
    s.records[11], s.end = s.records[11][:-9], b""


def bytes_that_are_no_text(s: Any) -> None:
    s.records[4] = b"\xff\xfe\x00\x80" * 20


def text_in_another_encoding(s: Any) -> None:
    s.records[4] = s.records[4].decode().encode("utf-16-be").replace(b"\n", b"")


def another_kind_of_json(s: Any) -> None:
    s.records[4] = b'{"workload": 0}'


def times_below_zero(s: Any) -> None:
    s.change(4, run_secs=[-1e-3])


def times_that_are_no_numbers(s: Any) -> None:
    s.records[4] = s.records[4].replace(json.dumps(s.record(4)[1][1]).encode(), b"[NaN]")
    s.change(4, run_secs=[float("nan")])


def no_such_workload(s: Any) -> None:
    s.change(4, workload=7)


def arguments_of_another_workload(s: Any) -> None:
    s.change(4, arguments=[["TENSOR", "float32", [5, 5]]] * 3)


def an_unknown_instruction(s: Any) -> None:
    instructions, decisions = s.record(4)[1][0]
    instructions[0][0] = "Levitate"
    s.change(4, trace=[instructions, decisions])


def a_decision_of_no_instruction(s: Any) -> None:
    instructions, decisions = s.record(4)[1][0]
    s.change(4, trace=[instructions, [*decisions, [100_000, [1, 1]]]])


def a_block_that_is_not_there(s: Any) -> None:
    instructions, decisions = s.record(4)[1][0]
    next(each for each in instructions if each[0] == "GetSBlock")[2][0] = "gone"
    s.change(4, trace=[instructions, decisions])


def a_tile_that_does_not_divide_its_loop(s: Any) -> None:
    instructions, decisions = s.record(4)[1][0]
    tile = next(d for n, d in decisions if instructions[n][0] == "SamplePerfectTile")
    tile[-1] = 7
    s.change(4, trace=[instructions, decisions])


def no_target(s: Any) -> None:
    s.change(4, target={"kind": "abacus"})


def copied(s: Any) -> None:
    s.records.insert(5, s.records[4])


LOSES = [
    (blank, "DB02"),
    (cut_off, "DB01"),
    (bytes_that_are_no_text, "DB01"),
    (text_in_another_encoding, "DB01"),
    (another_kind_of_json, "DB01"),
    (times_below_zero, "DB01"),
    (times_that_are_no_numbers, "DB01"),
    (no_such_workload, "DB04"),
    (arguments_of_another_workload, "DB05"),
    (an_unknown_instruction, "DB06"),
    (a_decision_of_no_instruction, "DB06"),
    (a_block_that_is_not_there, "DB06"),
    (a_tile_that_does_not_divide_its_loop, "DB06"),
    (no_target, "DB06"),
    (copied, "DB10"),
]


@pytest.mark.parametrize(("damage", "rule"), LOSES, ids=[damage.__name__ for damage, _ in LOSES])
def test_a_damaged_line_is_found_and_costs_itself_only(
    search: Any, contents: Any, tmp_path: Path, damage: Callable[[Any], None], rule: str
) -> None:
    said, loaded = contents
    line = 6 if damage is copied else 5
    whole = said(search.records) if damage in (blank, copied) else said(search.records[:4] + search.records[5:])
    damage(search)

    found = examine(search.write(tmp_path / "db"))
    report = write_clean_copy([found], tmp_path / "clean")

    assert [(each.rule, each.where) for each in found.log.findings()] == [(rule, f"{RECORDS} line {line}")]
    assert loaded(tmp_path / "clean") == whole
    assert report.records == whole.total()
    assert examine(tmp_path / "clean").log.findings() == []


def test_a_decision_that_would_crash_tvm_never_gets_there(search: Any, tmp_path: Path) -> None:
    a_decision_of_no_instruction(search)

    found = examine(search.write(tmp_path / "db"))

    assert "decisions that belong to none of its instructions" in found.log.kept["DB06"][0].message


def test_a_decision_that_tvm_would_replace_is_named(search: Any, tmp_path: Path) -> None:
    a_tile_that_does_not_divide_its_loop(search)

    found = examine(search.write(tmp_path / "db"))

    assert "TVM replaces its decision " in found.log.kept["DB06"][0].message


def test_byte_order_marks_are_found_and_cost_nothing(search: Any, contents: Any, tmp_path: Path) -> None:
    said, loaded = contents
    folder = search.write(tmp_path / "db")
    identity = examine(folder).identity
    for name in (RECORDS, WORKLOADS):
        (folder / name).write_bytes(b"\xef\xbb\xbf" + (folder / name).read_bytes())

    found = examine(folder)
    write_clean_copy([found], tmp_path / "clean")

    assert [(each.rule, each.where) for each in found.log.findings()] == [("DB20", WORKLOADS), ("DB20", RECORDS)]
    assert loaded(tmp_path / "clean") == said(search.records)
    assert examine(tmp_path / "clean").log.findings() == []
    assert found.identity == identity


def test_a_last_line_that_was_cut_off_is_two_findings(search: Any, contents: Any, tmp_path: Path) -> None:
    said, loaded = contents
    whole = said(search.records[:11])
    cut_off_at_the_end(search)

    found = examine(search.write(tmp_path / "db"))
    write_clean_copy([found], tmp_path / "clean")

    assert [(each.rule, each.where) for each in found.log.findings()] == [
        ("DB01", f"{RECORDS} line 12"),
        ("DB13", RECORDS),
    ]
    assert loaded(tmp_path / "clean") == whole


def workload_cut_off(s: Any) -> set[int]:
    s.workloads[0] = s.workloads[0][:-200]
    return {number for number in range(12) if s.record(number)[0] == 0}


def workload_twice(s: Any) -> set[int]:
    s.workloads.append(s.workloads[0])
    s.change(next(number for number in range(12) if s.record(number)[0] == 0), workload=2)
    return set()


def workload_under_another_hash(s: Any) -> set[int]:
    s.workloads[1] = json.dumps(["12345", json.loads(s.workloads[1])[1]]).encode()
    return set()


def blank_among_workloads(s: Any) -> set[int]:
    s.workloads.insert(1, b"")
    return set()


def workload_without_records(s: Any) -> set[int]:
    for number in range(12):
        if s.record(number)[0] == 0:
            s.records[number] = b""
    return set(range(12)) - {number for number in range(12) if s.records[number]}


@pytest.mark.parametrize(
    ("damage", "rules"),
    [
        (workload_cut_off, {"DB03": 7}),
        (workload_twice, {"DB09": 1}),
        (workload_under_another_hash, {"DB08": 1}),
        (blank_among_workloads, {"DB02": 1}),
        (workload_without_records, {"DB02": 6, "DB18": 1}),
    ],
)
def test_a_damaged_workload_is_found_and_costs_its_own_records_only(
    search: Any, contents: Any, tmp_path: Path, damage: Callable[[Any], set[int]], rules: dict[str, int]
) -> None:
    said, loaded = contents
    before = list(search.records)
    lost = damage(search)

    found = examine(search.write(tmp_path / "db"))
    write_clean_copy([found], tmp_path / "clean")

    assert dict(found.log.counts) == rules
    assert loaded(tmp_path / "clean") == said([line for number, line in enumerate(before) if number not in lost])
    left = set(examine(tmp_path / "clean").log.counts)
    assert left == ({"DB18"} if "DB18" in rules else set())


def test_copies_of_a_workload_share_its_text(search: Any, tmp_path: Path) -> None:
    workload_twice(search)

    workloads = examine(search.write(tmp_path / "db"), replay=False).workloads

    assert workloads[2].examined.row["module_json"] is workloads[0].examined.row["module_json"]
    assert workloads[2].examined.line is workloads[0].examined.line
    assert workloads[2].name == f"{workloads[0].name}_2"


def test_failures_are_notes_and_a_workload_of_failures_a_warning(search: Any, contents: Any, tmp_path: Path) -> None:
    said, loaded = contents
    for number in range(12):
        if search.record(number)[0] == 0:
            search.change(number, run_secs=[FAILED])

    found = examine(search.write(tmp_path / "db"))
    write_clean_copy([found], tmp_path / "all")
    report = write_clean_copy([found], tmp_path / "ran", failures=False)

    assert dict(found.log.counts) == {"DB14": 1, "DB17": 6}
    assert (found.log.count("error"), found.log.count("warning"), found.log.count("note")) == (0, 1, 6)
    assert loaded(tmp_path / "all") == said(search.records)
    assert loaded(tmp_path / "ran") == said([line for line in search.records if json.loads(line)[1][1] != [FAILED]])
    assert (report.records, report.failures) == (6, 6)


def test_programs_that_nobody_measured_are_notes_and_stay(search: Any, tmp_path: Path) -> None:
    for number in (4, 5):
        search.change(number, run_secs=[UNMEASURED_S])
    search.change(6, run_secs=[FAILED])

    found = examine(search.write(tmp_path / "db"))
    write_clean_copy([found], tmp_path / "clean", failures=False)

    assert dict(found.log.counts) == {"DB17": 1, "DB21": 2}
    assert [record.line for record in found.records if record.failed] == [7]
    assert sum(each.failed for each in found.distinct) == 1
    kept = (tmp_path / "clean" / RECORDS).read_bytes().splitlines()
    assert [json.loads(line)[1][1] for line in kept].count([UNMEASURED_S]) == 2
    assert len(kept) == 12 - 1


def test_a_failure_and_a_program_that_nobody_measured_are_two_records(search: Any, tmp_path: Path) -> None:
    workload, (trace, _, target, arguments) = search.record(4)
    search.change(5, workload=workload, trace=trace, run_secs=[FAILED], target=target, arguments=arguments)
    search.change(4, run_secs=[UNMEASURED_S])

    found = examine(search.write(tmp_path / "db"))

    assert found.log.counts["DB10"] == 0
    assert len(found.records) == 12


def test_two_targets_in_one_folder_are_a_warning(search: Any, tmp_path: Path) -> None:
    search.change(4, target={**search.record(4)[1][2], "num-cores": 64})

    found = examine(search.write(tmp_path / "db"))

    assert dict(found.log.counts) == {"DB11": 2}
    assert sorted(found.targets.values()) == [1, 11]


def test_targets_without_end_cost_their_own_records_only(
    search: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for number in range(3, 8):
        search.change(number, target={**search.record(number)[1][2], "num-cores": 60 + number})
    monkeypatch.setattr("costhub.dataset.doctor.examine._MOST_TARGETS", 3)

    found = examine(search.write(tmp_path / "db"))

    refused = [each for each in found.log.findings() if each.rule == "DB06"]
    assert (len(found.targets), len(found.records)) == (3, 12 - 3)
    assert {each.where for each in refused} == {f"{RECORDS} line {number}" for number in (6, 7, 8)}
    assert {each.message for each in refused} == {"the database has more than 3 targets"}


def test_all_damages_at_once_cost_no_good_record(search: Any, contents: Any, tmp_path: Path) -> None:
    said, loaded = contents
    good = said(search.records)
    number = 0
    for damage, _ in LOSES:
        if damage not in (blank, copied):
            worse = type(search)(list(search.workloads), [search.records[number % 12]] * 5)
            damage(worse)
            search.records.append(worse.records[4])
            number += 1
    copied(search)
    blank(search)
    workload_twice(search)
    search.workloads.append(b"[]")

    found = examine(search.write(tmp_path / "db"))
    write_clean_copy([found], tmp_path / "clean")

    assert loaded(tmp_path / "clean") == good
    assert {rule for _, rule in LOSES} | {"DB03", "DB09"} <= set(found.log.counts)


def test_the_identity_is_that_of_the_contents(search: Any, tmp_path: Path) -> None:
    first = examine(search.write(tmp_path / "db")).identity
    turned = type(search)(search.workloads[::-1], [])
    turned.records = list(reversed(search.records))
    for number in range(12):
        turned.change(number, workload=1 - turned.record(number)[0])
    (tmp_path / "zipped").mkdir()
    for name in (RECORDS, WORKLOADS):
        (tmp_path / "zipped" / f"{name}.gz").write_bytes(gzip.compress((tmp_path / "db" / name).read_bytes()))
    damaged = type(search)(list(search.workloads), [b"", *search.records, search.records[0]])
    other = type(search)(list(search.workloads), list(search.records))
    other.change(3, run_secs=[0.5])

    assert examine(turned.write(tmp_path / "turned")).identity == first
    assert examine(tmp_path / "zipped").identity == first
    assert examine(damaged.write(tmp_path / "damaged"), replay=False).identity == first
    assert examine(other.write(tmp_path / "other")).identity != first


def test_sqlite_is_examined_and_its_copy_is_tvms(search: Any, contents: Any, tmp_path: Path) -> None:
    said, loaded = contents
    folder = tmp_path / "db"
    folder.mkdir()
    with sqlite3.connect(folder / SQLITE_FILES[WORKLOADS]) as table:
        table.execute("CREATE TABLE workload(shash text, mod text)")
        table.executemany("INSERT INTO workload VALUES (?, ?)", [json.loads(line) for line in search.workloads])
    table.close()
    rows = [(number, *map(json.dumps, parts)) for number, parts in map(json.loads, search.records)]
    with sqlite3.connect(folder / SQLITE_FILES[RECORDS]) as table:
        table.execute(
            "CREATE TABLE tuning_record(workload_index int, trace text, run_secs text, target text, args_info text)"
        )
        table.executemany("INSERT INTO tuning_record VALUES (?, ?, ?, ?, ?)", rows)
    table.close()

    found = examine(folder)
    write_clean_copy([found], tmp_path / "clean")

    assert found.log.findings() == []
    assert loaded(tmp_path / "clean") == said(search.records)
    assert found.identity == examine(search.write(tmp_path / "json")).identity


@pytest.mark.parametrize(
    ("name", "records", "rules"),
    [
        ("bennu-tvm017", 3, {"DB12": 4}),
        ("mlc-llm-tvm013", 2, {"DB12": 4}),
        # A workload with unknown sizes, and one program that failed, three times.
        ("rvv-tvm023", 1, {"DB03": 1, "DB10": 2, "DB12": 2, "DB14": 1, "DB17": 1}),
    ],
)
def test_a_folder_of_an_older_tvm_is_copied_in_the_form_of_today(
    real: Path, contents: Any, tmp_path: Path, name: str, records: int, rules: dict[str, int]
) -> None:
    _, loaded = contents

    found = examine(real / name)
    report = write_clean_copy([found], tmp_path / "clean")

    assert dict(found.log.counts) == rules
    assert (report.records, report.rewritten) == (records, records)
    assert report.translated == report.workloads
    assert report.sentences()[-1].endswith("tells `costhub import` which TVM measured.")
    assert _versions(examine(tmp_path / "clean")) == _versions(found)
    assert loaded(tmp_path / "clean").total() == records
    assert {"DB03", "DB12"} & set(examine(tmp_path / "clean").log.counts) == set()


@pytest.mark.parametrize("missing", [RECORDS, WORKLOADS])
def test_a_folder_without_a_database_is_refused(search: Any, tmp_path: Path, missing: str) -> None:
    (search.write(tmp_path / "db") / missing).unlink()

    with pytest.raises(DataError, match=rf"is not a MetaSchedule database: it lacks {missing}"):
        examine(tmp_path / "db")


ELSEWHERE = {"kind": "llvm", "mcpu": "znver9", "num-cores": 96}


def test_only_the_records_of_one_target_are_taken(search: Any, tmp_path: Path) -> None:
    own = json.loads(next(iter(examine(search.write(tmp_path / "one"), replay=False).targets)))
    numbers = [number for number in range(12) if search.record(number)[0] == 1]
    for number in numbers:
        search.change(number, target=ELSEWHERE)
    folder = search.write(tmp_path / "db")
    assert examine(folder).log.counts["DB11"] == 2

    found = examine(folder, target={"kind": "llvm", "num-cores": own["num-cores"]})
    write_clean_copy([found], tmp_path / "clean")

    assert [json.loads(target) for target in found.targets] == [own]
    assert sum(found.other_targets.values()) == len(numbers) == 6
    assert (len(found.distinct), len(found.records), dict(found.log.counts)) == (1, 6, {})
    clean = examine(tmp_path / "clean")
    assert (clean.identity, clean.lines, len(clean.distinct)) == (found.identity, 6, 1)
    other = examine(folder, target=ELSEWHERE)
    assert (len(other.records), len(other.distinct)) == (6, 1)


def test_a_folder_without_a_record_of_the_target_is_refused_with_those_that_it_has(search: Any, tmp_path: Path) -> None:
    folder = search.write(tmp_path / "db")

    with pytest.raises(DataError, match=r'good record for the target \{"mcpu": "znver9"\}, only for .*llvm.* \(12\)'):
        examine(folder, target={"mcpu": "znver9"})
