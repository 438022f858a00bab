from __future__ import annotations

import gzip
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from costhub.dataset.metaschedule.lines import database_file, read_lines
from costhub.errors import DataError


def test_lines_come_with_their_numbers(tmp_path: Path) -> None:
    path = tmp_path / "lines.json"
    path.write_bytes(b"[1]\r\n\n  [2] \n \t \n[3]")

    found = [(line.number, line.text, line.why) for line in read_lines(path, most_bytes=100)]

    blank = "the line is blank"
    assert found == [(1, b"[1]", ""), (2, b"", blank), (3, b"[2]", ""), (4, b"", blank), (5, b"[3]", "")]


@given(st.lists(st.binary(max_size=30).map(lambda b: b.replace(b"\n", b"")), max_size=12), st.integers(1, 25))
def test_no_line_is_longer_than_the_limit_and_no_other_is_lost(tmp_path_factory, lines, most) -> None:
    path = tmp_path_factory.mktemp("lines") / "f.json.gz"
    path.write_bytes(gzip.compress(b"".join(line + b"\n" for line in lines)))

    found = list(read_lines(path, most_bytes=most))

    assert [line.number for line in found] == list(range(1, len(lines) + 1))
    for got, line in zip(found, lines, strict=True):
        long = len(line.rstrip(b"\r")) > most
        assert got.text == (b"" if long else line.strip())
        assert (got.why == f"the line is longer than {most:,} bytes") == long


def test_the_limit_counts_the_line_without_its_end(tmp_path: Path) -> None:
    path = tmp_path / "f.json"
    path.write_bytes(b"12345\n123456\n12345")

    assert [bool(line.why) for line in read_lines(path, most_bytes=5)] == [False, True, False]


@pytest.mark.parametrize("damage", ["cut", "flipped"])
def test_a_damaged_archive_costs_what_follows(tmp_path: Path, damage: str) -> None:
    path = tmp_path / "f.json.gz"
    whole = gzip.compress(b"".join(b"[%d]\n" % (i * i) for i in range(20_000)))
    broken = whole[: len(whole) // 2]
    path.write_bytes(broken if damage == "cut" else broken + b"\0" * 200)

    *good, last = read_lines(path, most_bytes=100)

    assert len(good) > 100
    assert not any(line.why for line in good[:-1])
    assert last.number == len(good) + 1
    assert last.why.startswith("the file is damaged from here on (")


def test_the_position_is_that_in_the_file_on_the_disk(tmp_path: Path) -> None:
    path = tmp_path / "f.json.gz"
    path.write_bytes(gzip.compress(b"[1]\n" * 100_000))

    positions = [line.position for line in read_lines(path, most_bytes=100)]

    assert positions == sorted(positions)
    assert 0 < positions[0] <= positions[-1] == path.stat().st_size


def test_a_file_that_cannot_be_opened_is_refused(tmp_path: Path) -> None:
    with pytest.raises(DataError, match="cannot be read"):
        next(read_lines(tmp_path, most_bytes=10))


def test_a_plain_file_goes_before_its_archive(tmp_path: Path) -> None:
    assert database_file(tmp_path, "a.json") is None
    (tmp_path / "a.json.gz").write_bytes(b"")
    assert database_file(tmp_path, "a.json") == tmp_path / "a.json.gz"
    (tmp_path / "a.json").write_bytes(b"")
    assert database_file(tmp_path, "a.json") == tmp_path / "a.json"
