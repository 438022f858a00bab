from __future__ import annotations

import gzip
import json
import lzma
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from costhub.dataset.check.texts import MOST_TEXT_BYTES
from costhub.dataset.metaschedule import lines as module
from costhub.dataset.metaschedule.lines import (
    MOST_REFUSALS,
    UNMEASURED_S,
    ImportReport,
    Line,
    RefusedLine,
    batches,
    database_file,
    parse_record,
    read_lines,
)
from costhub.errors import DataError


def test_lines_come_with_their_numbers(tmp_path: Path) -> None:
    path = tmp_path / "lines.json"
    path.write_bytes(b"[1]\r\n\n  [2] \n \t \n[3]")

    found = [(line.number, line.text, line.why) for line in read_lines(path, most_bytes=100)]

    blank = "the line is blank"
    assert found == [(1, b"[1]", ""), (2, b"", blank), (3, b"[2]", ""), (4, b"", blank), (5, b"[3]", "")]


def test_a_byte_order_mark_is_no_part_of_the_first_line(tmp_path: Path) -> None:
    path = tmp_path / "lines.json"
    path.write_bytes(b"\xef\xbb\xbf[1]\n\xef\xbb\xbf[2]\n")

    found = [(line.text, line.has_mark) for line in read_lines(path, most_bytes=100)]

    assert found == [(b"[1]", True), (b"\xef\xbb\xbf[2]", False)]


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
    with pytest.raises(DataError, match="is a folder"):
        next(read_lines(tmp_path, most_bytes=10))


def test_a_plain_file_goes_before_its_archive(tmp_path: Path) -> None:
    assert database_file(tmp_path, "a.json") is None
    (tmp_path / "a.json.gz").write_bytes(b"")
    assert database_file(tmp_path, "a.json") == tmp_path / "a.json.gz"
    (tmp_path / "a.json").write_bytes(b"")
    assert database_file(tmp_path, "a.json") == tmp_path / "a.json"


TRACE = [[["EnterPostproc", [], [], []]], []]
ARGUMENTS = [["TENSOR", "float32", [16, 16]]]


def line(run_secs: Any = (1e-3,), *, workload: Any = 0, trace: Any = TRACE, arguments: Any = ARGUMENTS) -> bytes:
    return json.dumps([workload, [trace, run_secs, {"kind": "llvm"}, arguments]]).encode()


def test_a_target_is_as_long_as_the_check_accepts() -> None:
    assert MOST_TEXT_BYTES["target"] == module.MOST_TARGET_BYTES
    longest = json.dumps({"kind": "x" * (MOST_TEXT_BYTES["target"] - len('{"kind":""}'))})

    assert parse_record(f"[0,[[[],[]],[1.0],{longest},[]]]".encode()).run_s == (1.0,)
    with pytest.raises(DataError, match="its target has more than 16,384 bytes"):
        parse_record(f'[0,[[[],[]],[1.0],{longest[:-2]}x"}},[]]]'.encode())


def test_a_record_has_what_the_line_says() -> None:
    record = parse_record(line((1e-3, 2e-3), workload=7))

    assert (record.workload, record.run_s, record.target) == (7, (1e-3, 2e-3), '{"kind":"llvm"}')
    assert json.loads(record.trace) == TRACE
    assert record.arguments == (("float32", (16, 16)),)


@pytest.mark.parametrize("run_secs", [None, [1e10], [1e9], [1e-3, 1e10]])
def test_a_failure_has_no_times(run_secs: Any) -> None:
    assert parse_record(line(run_secs)).run_s == ()


def test_a_program_that_was_never_measured_is_no_measurement() -> None:
    with pytest.raises(DataError, match="its program was never measured: `costhub compile` chose it"):
        parse_record(line([UNMEASURED_S]))

    record = parse_record(line([UNMEASURED_S]), unmeasured=True)
    assert (record.run_s, record.was_measured) == ((), False)
    assert parse_record(line([1e10])).was_measured


@pytest.mark.parametrize("run_secs", [[], [0], [-1.0], [1e-3, float("nan")], [float("inf")], [-(10**400)]])
def test_times_that_no_program_takes_are_refused(run_secs: Any) -> None:
    with pytest.raises(DataError, match="are not all positive and finite"):
        parse_record(line(run_secs))


@pytest.mark.parametrize("run_secs", [["1"], 1.0, [True], [None], {"a": 1}])
def test_times_that_are_no_numbers_are_refused(run_secs: Any) -> None:
    with pytest.raises(DataError, match="are not a list of numbers"):
        parse_record(line(run_secs))


@pytest.mark.parametrize(
    ("text", "why"),
    [
        (line()[:-9], "it is not JSON; perhaps it was cut off"),
        (b"\xff\xfe\xfa", "it is not JSON"),
        (b"[" * 100_000, "it is not JSON"),
        (b"7", "it is not .workload, .trace"),
        (b'["1234","aGVsbG8="]', "it is not .workload, .trace"),
        (b'{"a":1,"b":2}', "it is not .workload, .trace"),
        (line(workload=-1), "its workload -1 is not a whole number, 0 or more"),
        (line(workload=True), "its workload True"),
        (line(workload="0"), "its workload '0'"),
        (line(trace=[{}, []]), "its trace is not a pair"),
        (line(arguments=[["TENSOR", "float32"]]), "its arguments are not like"),
        (line(arguments=[["TENSOR", "float32", ["x"]]]), "its arguments are not like"),
        (line(arguments=[["TENSOR", "float32", [1] * 65]]), "its arguments are not like"),
    ],
)
def test_other_lines_are_refused(text: bytes, why: str) -> None:
    with pytest.raises(DataError, match=why):
        parse_record(text)


@given(
    st.binary(max_size=60)
    | st.recursive(st.none() | st.integers() | st.text(), st.lists).map(lambda value: json.dumps(value).encode())
)
def test_nothing_but_a_data_error_comes_of_any_line(text: bytes) -> None:
    with pytest.raises(DataError):
        parse_record(text)


def test_the_id_names_the_record_and_nothing_else() -> None:
    one, spaced = parse_record(line()), parse_record(json.dumps(json.loads(line()), indent=1).encode())
    others = [parse_record(line([2e-3])), parse_record(line(None)), parse_record(line(trace=[[], []]))]

    assert one.record_id("d", "w") == spaced.record_id("d", "w")
    ids = {one.record_id("d", "w"), one.record_id("e", "w"), one.record_id("d", "x")}
    assert len(ids | {other.record_id("d", "w") for other in others}) == 6


def test_sentences_name_the_commonest_reasons_and_a_line_of_each() -> None:
    report = ImportReport(workloads=1, ok=2, known=3, duplicates=4, redone=5)
    for number in (7, 9):
        report.refuse("records.json", number, "it is blank")
    report.refuse("records.json", 8, "it is torn")

    assert report.sentences() == [
        "2 measurements of 1 workload were added: 2 ran, 0 failed on the device.",
        "TVM 0.27 redid the post-processing of 5.",
        "3 records were in the folder already.",
        "4 lines are copies of earlier ones and were left out.",
        "3 lines were refused:",
        "  2 because it is blank, first records.json line 7.",
        "  1 because it is torn, first records.json line 8.",
    ]
    assert report.kept == 5
    assert str(report) == repr(report) == "\n".join(report.sentences())


@pytest.mark.parametrize(
    ("columns", "named"),
    [(["cores"], "cores"), (list("abcde"), "a, b, c, d, e"), (list("abcdefg"), "a, b, c, d, e and 2 other columns")],
)
def test_a_few_columns_of_the_device_that_stay_are_named(columns: list[str], named: str) -> None:
    assert ImportReport(device_keeps=columns).sentences()[1] == (
        f"The folder keeps what it says of the device in {named}, which differs from what was given; "
        "`DataFolder.put_device` replaces the row."
    )


def test_all_refused_lines_count_and_the_first_thousand_are_named() -> None:
    report = ImportReport()
    for number in range(2 * MOST_REFUSALS):
        report.refuse("f", number, f"reason {number}")

    assert report.refused == sum(report.reasons.values()) == 2 * MOST_REFUSALS
    assert len(report.refusals) == MOST_REFUSALS
    assert report.refusals[-1] == RefusedLine("f", MOST_REFUSALS - 1, f"reason {MOST_REFUSALS - 1}")
    assert report.reasons["other reasons"] == MOST_REFUSALS


def test_a_batch_ends_after_its_bytes() -> None:
    lines = [Line(number, b"x" * size) for number, size in enumerate((10, 90, 1, 1, 1, 200), start=1)]

    found = [[line.number for line in batch] for batch in batches(lines, 3, most_bytes=50)]

    assert found == [[1, 2], [3, 4, 5], [6]]


@pytest.mark.parametrize("extent", [1e308, -1, 2**70])
def test_sizes_that_no_array_has_are_refused(extent: float) -> None:
    line = json.dumps([0, [[[], []], [1.0], {"kind": "llvm"}, [["TENSOR", "float32", [extent] * 3]]]])
    with pytest.raises(DataError, match="its arguments are not like"):
        parse_record(line.encode())


def test_sizes_that_are_no_list_are_refused() -> None:
    line = json.dumps([0, [[[], []], [1.0], {"kind": "llvm"}, [["TENSOR", "float32", {"a": 1}]]]])
    with pytest.raises(DataError, match="its arguments are not like"):
        parse_record(line.encode())


def test_a_reason_that_quotes_a_line_is_clean_and_short() -> None:
    report = ImportReport()
    report.refuse("a.json", 1, "it has a \x1b]0;owned\x07" + "y" * 10_000)

    (why,) = report.reasons
    assert "\x1b" not in why
    assert len(why) <= 310


@pytest.mark.parametrize("suffix", ["gz", "xz"])
@pytest.mark.parametrize(
    ("limit", "text"), [("_LINES_ANYWAY", b"\n" * 100_000), ("TEXT_ANYWAY", (b"x" * 1000 + b"\n") * 20_000)]
)
def test_an_archive_that_stands_for_more_than_a_database_is_left(
    tmp_path: Path, suffix: str, limit: str, text: bytes, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, limit, 1000)
    path = tmp_path / f"a.{suffix}"
    path.write_bytes(gzip.compress(text) if suffix == "gz" else lzma.compress(text))

    *lines, last = read_lines(path, most_bytes=100)

    assert last.why.startswith("from here on, the file holds far more")
    assert 100 < len(lines) < 15_000


@pytest.mark.parametrize(("empty", "why"), [(900, ""), (5000, "more than 1,000 compressed streams hold nothing")])
def test_streams_that_hold_nothing_end_somewhere(tmp_path: Path, empty: int, why: str) -> None:
    path = tmp_path / "a.xz"
    path.write_bytes(lzma.compress(b"one\n") + lzma.compress(b"") * empty + lzma.compress(b"two\n"))

    lines = list(read_lines(path, most_bytes=100))

    assert lines[0].text == b"one"
    assert len(lines) == 2
    assert (why in lines[1].why) if why else (lines[1].text == b"two")


def test_nothing_is_read_behind_a_line_that_goes_on(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "MOST_SKIPPED_BYTES", 4 << 20)
    path = tmp_path / "holes.json"
    with path.open("wb") as file:
        file.write(b"[1]\n")
        file.truncate(100 << 20)

    first, last = read_lines(path, most_bytes=100)

    assert (first.text, last.number) == (b"[1]", 2)
    assert last.why.startswith("from here on, the file holds far more")
    assert last.position < 10 << 20
