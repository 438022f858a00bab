"""Each damage is where it says, and leaves all else as it was."""

from __future__ import annotations

import gzip
import json
import random
from pathlib import Path
from typing import Any

import pytest

from costhub.dataset.metaschedule.lines import RECORDS_FILE, WORKLOADS_FILE, parse_record
from costhub.errors import DataError
from scripts.bench.data import doctor_damages as damages
from scripts.bench.data.doctor_damages import (
    ALONE,
    SPARED,
    TOGETHER,
    Damage,
    Database,
    Entry,
    UnsuitableError,
    said,
)

INSTRUCTIONS = [
    ["GetSBlock", [], ["C", "main"], ["b0"]],
    ["GetLoops", ["b0"], [], ["l1"]],
    ["SamplePerfectTile", ["l1"], [2, 64], ["v2", "v3"]],
    ["SampleCategorical", [], [[0, 16], [0.5, 0.5]], ["v4"]],
    ["SampleComputeLocation", ["b0"], [], ["l5"]],
]
TARGET = {"kind": "llvm", "num-cores": 2}


def record(number: int, seconds: float) -> bytes:
    trace = [INSTRUCTIONS, [[2, [4, 8]], [3, 1], [4, -1]]]
    arguments = [["TENSOR", "float32", [8 * (number + 1), 4]]]
    return json.dumps([number, [trace, [seconds], TARGET, arguments]]).encode()


@pytest.fixture
def database() -> Database:
    """Sixteen records of each of three workloads, mixed."""
    workloads = [json.dumps([str(n), "A" * 300]).encode() for n in range(3)]
    records = [record(n % 3, 1e-3 * (n + 1)) for n in range(48)]
    return Database(
        [Entry(text, n) for n, text in enumerate(workloads, 1)],
        [Entry(text, n) for n, text in enumerate(records, 1)],
        set(range(1, 49)),
        TARGET,
        {1, 2, 3},
        random.Random(0),
    )


def read(path: Path) -> list[bytes]:
    return path.read_bytes().split(b"\n")


def unreadable(text: bytes) -> bool:
    if b"\0" in text:  # Python's reader of JSON would take UTF-16
        return True
    try:
        parse_record(text)
    except DataError:
        return True
    return False


ALL = [*TOGETHER, *ALONE]


@pytest.mark.parametrize("damage", ALL, ids=[damage.__name__ for damage in ALL])
def test_what_counts_as_undamaged_is_as_it_was(damage: Damage, database: Database) -> None:
    before = {each.origin: each.text for each in database.records}

    damage(database)

    for each in database.records:
        if each.origin is not None:
            # Workloads may have got other numbers.
            assert each.text.partition(b",")[2] == before[each.origin].partition(b",")[2]
    assert all(each.origin is None for each in database.records if each.rules)
    assert said(damage)
    assert not said(damage).endswith(".")


@pytest.mark.parametrize("damage", ALL, ids=[damage.__name__ for damage in ALL])
def test_a_damage_changes_a_file_and_must_be_found(damage: Damage, database: Database, tmp_path: Path) -> None:
    database.write(tmp_path / "before")

    damage(database)
    files = {path.name: path.read_bytes() for path in database.write(tmp_path / "db").iterdir()}

    whole = {path.name: path.read_bytes() for path in (tmp_path / "before").iterdir()}
    assert files != whole
    assert database.expected() or database.elsewhere or database.missing or damage in damages.HARMLESS


@pytest.mark.parametrize(
    "damage",
    [
        damages.cut_off,
        damages.joined,
        damages.one_byte,
        damages.zeros,
        damages.another_encoding,
        damages.another_object,
        damages.a_part_less,
        damages.below_zero,
        damages.no_number,
    ],
)
def test_what_is_said_to_be_no_record_is_none(damage: Damage, database: Database) -> None:
    damage(database)

    [spoilt] = [each for each in database.records if each.rules]
    assert spoilt.rules == ("DB01",)
    assert unreadable(spoilt.text)


@pytest.mark.parametrize(
    ("damage", "decisions"),
    [
        (damages.a_choice_that_is_none, [[2, [4, 8]], [3, damages.FAR], [4, -1]]),
        (damages.a_place_that_is_none, [[2, [4, 8]], [3, 1], [4, damages.FAR]]),
        (damages.a_tile_of_zero, [[2, [4, 0]], [3, 1], [4, -1]]),
        (damages.a_tile_that_does_not_divide, [[2, [4, 3]], [3, 1], [4, -1]]),
    ],
)
def test_one_decision_is_changed(damage: Damage, decisions: Any, database: Database) -> None:
    damage(database)

    [spoilt] = [each for each in database.records if each.rules]
    assert json.loads(spoilt.text)[1][0] == [INSTRUCTIONS, decisions]


def test_the_records_of_a_lost_workload_are_lost_with_it(database: Database) -> None:
    damages.workload_cut_off(database)

    [workload] = [number for number, each in enumerate(database.workloads) if each.rules]
    assert database.workloads[workload].text.endswith(b"A")
    lost = {json.loads(each.text)[0] for each in database.records if each.origin is None}
    assert lost == {workload}
    assert len(database.untouched) == 32


def test_the_last_workload_goes_and_its_records_name_none(database: Database) -> None:
    damages.workloads_cut_short(database)

    assert [each.origin for each in database.workloads] == [1, 2]
    assert {json.loads(each.text)[0] for each in database.records if each.rules == ("DB04",)} == {2}
    assert len(database.untouched) == 32


def test_half_of_a_workload_names_its_second_line(database: Database) -> None:
    damages.workload_twice(database)

    numbers = [json.loads(each.text)[0] for each in database.records]
    first = [each.text for each in database.workloads].index(database.workloads[3].text)
    assert (numbers.count(first), numbers.count(3)) == (8, 8)
    assert len(database.untouched) == 48


def test_the_only_workload_is_spared(database: Database) -> None:
    database.usable = {number for number in range(1, 49) if number % 3 == 1}

    with pytest.raises(UnsuitableError):
        damages.workload_cut_off(database)


def test_a_part_of_a_gzipped_file_can_be_read(database: Database, tmp_path: Path) -> None:
    damages.gzip_cut_off(database)

    folder = database.write(tmp_path / "db")
    assert sorted(path.name for path in folder.iterdir()) == [f"{RECORDS_FILE}.gz", WORKLOADS_FILE]
    kept = [each.origin for each in database.records if each.origin is not None]
    assert kept == list(range(1, len(kept) + 1))
    assert database.expected() == {("DB01", f"{RECORDS_FILE}.gz line {len(kept) + 1}")}
    with gzip.open(folder / f"{RECORDS_FILE}.gz") as file:
        assert [file.readline().rstrip() for _ in kept] == [each.text for each in database.records[: len(kept)]]
        with pytest.raises(EOFError):
            file.read()


def test_the_ends_of_files_are_as_they_should_be(database: Database, tmp_path: Path) -> None:
    damages.byte_order_marks(database)
    damages.windows_line_ends(database)
    damages.cut_off_at_the_end(database)

    folder = database.write(tmp_path / "db")

    for name in (RECORDS_FILE, WORKLOADS_FILE):
        assert (folder / name).read_bytes().startswith(b"\xef\xbb\xbf[")
    assert len(read(folder / RECORDS_FILE)) == 48
    assert all(line.endswith(b"\r") for line in read(folder / RECORDS_FILE)[:-1])
    assert not read(folder / RECORDS_FILE)[-1].endswith(b"]")
    assert (folder / WORKLOADS_FILE).read_bytes().endswith(b"]\r\n")


def test_of_a_few_records_some_are_spared(database: Database) -> None:
    for _ in range(100):
        try:
            damages.cut_off(database)
        except UnsuitableError:
            break

    assert len(database.untouched) == 48 // SPARED


def test_a_record_without_what_is_to_be_damaged_is_passed_over(database: Database) -> None:
    for place in range(1, 48):
        number, (_, *rest) = json.loads(database.records[place].text)
        database.records[place].text = json.dumps([number, [[[], []], *rest]]).encode()

    damages.a_block_that_is_not_there(database)

    assert database.records[0].rules == ("DB06",)
    with pytest.raises(UnsuitableError):
        damages.a_tile_of_zero(database)
