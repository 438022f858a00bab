"""The database of a search: stock TVM opens it, whatever moment the search was stopped at."""

from __future__ import annotations

import base64
import json
import os
from pathlib import Path
from typing import Any

import pytest

from costhub.collector.propose.sampler import Sampler
from costhub.collector.workloads.suites import find_workload
from costhub.dataset.workload import parse_target
from costhub.errors import DataError
from costhub.search.database import FILES, SearchDatabase, SearchFolder, drop_unfinished_line, measured_programs

CIRCLE = '{"root_index":1,"nodes":[{"type":"None"},{"type":"ffi.Array","data":[2]},{"type":"ffi.Array","data":[1]}]}'


@pytest.fixture(scope="module")
def candidates(target: str) -> list:  # type: ignore[type-arg]
    from tvm.s_tir import meta_schedule as ms

    from costhub.dataset.trace import replay

    mod = find_workload("matmul.128x128x128").module()
    found = []
    for program in Sampler(mod, target, seed=1).random(3):
        schedule = replay(mod, program.trace)
        found.append(ms.MeasureCandidate(schedule, ms.arg_info.ArgInfo.from_entry_func(mod, True)))
    return found


@pytest.fixture
def filled(tmp_path: Path, candidates: list, target: str) -> Path:  # type: ignore[type-arg]
    records, mod = SearchDatabase(tmp_path), find_workload("matmul.128x128x128").module()
    for candidate, run_s in zip(candidates, ([1e-3, 2e-3], None, [3e-3]), strict=True):
        records.add(mod, candidate, run_s, parse_target(target))
    return tmp_path


def test_what_was_added_is_known_to_the_next_search_failures_included(filled: Path, target: str) -> None:
    again, here = SearchDatabase(filled), parse_target(target)
    elsewhere = parse_target(json.dumps({**json.loads(target), "num-cores": 99}))

    known = again.records(find_workload("matmul.128x128x128").module(), here)

    assert [each.run_s for each in known] == [pytest.approx((1e-3, 2e-3)), pytest.approx((3e-3,)), None]
    assert again.records(find_workload("softmax.64x1000").module(), here) == []
    assert again.records(find_workload("matmul.128x128x128").module(), elsewhere) == []


@pytest.mark.parametrize("kept", [0.2, 0.9, 1.0])
def test_a_search_cut_while_it_writes_loses_that_record_alone(filled: Path, target: str, kept: float) -> None:
    path = filled / FILES[1]
    *lines, last = path.read_bytes().splitlines(keepends=True)
    path.write_bytes(b"".join(lines) + last[: int(kept * (len(last) - 1))])

    mod = find_workload("matmul.128x128x128").module()
    known = SearchDatabase(filled).records(mod, parse_target(target))

    assert len(known) == 2


def test_a_missing_file_stays_missing(tmp_path: Path) -> None:
    drop_unfinished_line(tmp_path / "none")

    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("key", ["pragma_import_llvm", "\\u0070ragma_import_llvm"])
def test_a_database_whose_schedules_import_code_is_not_opened(filled: Path, target: str, key: str) -> None:
    records = filled / FILES[1]
    number, record = json.loads(records.read_text().splitlines()[0])
    record[0][0].append(["Annotate", ["l0", '"x"'], ["KEY"], []])
    records.write_text(records.read_text() + json.dumps([number, record]).replace("KEY", key) + "\n")

    with pytest.raises(DataError, match=r"Line \d+ of .* has a schedule that brings code"):
        SearchDatabase(filled)


@pytest.mark.parametrize("broken", [b"\xff", b"007,"])
def test_what_python_cannot_read_is_not_left_to_tvm(filled: Path, broken: bytes) -> None:
    """TVM reads numbers that begin with zeros, and any bytes."""
    records = filled / FILES[1]
    records.write_bytes(
        records.read_bytes() + b'[0, [[[["Annotate",["l0","' + broken + b'"],["pragma_import_llvm"],[]]],[007]]]]\n'
    )

    with pytest.raises(DataError, match="is not JSON"):
        SearchDatabase(filled)


@pytest.mark.parametrize(
    ("line", "words"),
    [
        (b"", "is no record"),
        (b"{}", "is no record"),
        (b"[" * 5000, "is no record"),
        (b"[0, [[[], [[7, [1, 2]]]], [1.0], {}, []]]", "must not read: .* belong to none of its instructions"),
        (
            b'[0, [[[["X", [], [], []]], [[0, [0, 2]]]], [1.0], {}, []]]',
            "must not read: .* not a positive whole number",
        ),
        (b"x" * (9 << 20), "is longer than"),
    ],
)
def test_a_line_that_would_crash_tvm_is_not_left_to_it(filled: Path, line: bytes, words: str) -> None:
    records = filled / FILES[1]
    first, *rest = records.read_bytes().splitlines()
    records.write_bytes(b"\n".join([first, line, *rest]) + b"\n")

    with pytest.raises(DataError, match=rf"Line 2 of .* {words}.*`costhub doctor` examines the folder"):
        SearchDatabase(filled)


def test_what_tvm_cannot_open_is_a_sentence(filled: Path) -> None:
    records = filled / FILES[1]
    records.write_bytes(records.read_bytes() + b"[9, [[[], []], [1.0], {}, []]]\n")

    with pytest.raises(DataError, match="TVM cannot open the database in"):
        SearchDatabase(filled)


@pytest.mark.parametrize(
    ("module", "words"),
    [
        (CIRCLE, "TVM crashes on one"),
        ('{"root_index":9,"nodes":[]}', "line 2: "),
        ("x", "line 2: "),
    ],
)
def test_a_workload_that_crashes_tvm_is_a_sentence(filled: Path, module: str, words: str) -> None:
    with (filled / FILES[0]).open("ab") as file:
        blob = len(module).to_bytes(8, "little") + module.encode()
        file.write(json.dumps(["1", base64.b64encode(blob).decode()]).encode() + b"\n")

    with pytest.raises(DataError, match=f"{FILES[0]} cannot be read .{words}.*`costhub doctor` examines the folder"):
        SearchDatabase(filled)


def with_record(folder: Path, *, trace: list[Any] | None = None, target: Any = None) -> None:
    """Adds a record like the first one, but for its trace or its target."""
    records = folder / FILES[1]
    number, record = json.loads(records.read_text().splitlines()[0])
    record[0] = record[0] if trace is None else trace
    record[2] = record[2] if target is None else target
    records.write_text(records.read_text() + json.dumps([number, record]) + "\n")


def test_a_schedule_that_crashes_tvm_is_a_sentence(filled: Path) -> None:
    with_record(filled, trace=[[["EnterPostproc", [CIRCLE], [], []]], []])

    with pytest.raises(DataError, match=f"{FILES[1]} cannot be read .TVM crashes on .*`costhub doctor` examines"):
        SearchDatabase(filled)


def test_a_schedule_of_more_loops_than_tvm_can_visit_is_refused(filled: Path) -> None:
    loops = [["AddUnitLoop", ["b0"], [], [f"l{number}"]] for number in range(4000)]
    with_record(filled, trace=[[["GetSBlock", [], ["C", "main"], ["b0"]], *loops], []])

    with pytest.raises(DataError, match=r"schedule that TVM must not read: .* more than 2,000 instructions or results"):
        SearchDatabase(filled)


@pytest.mark.slow
def test_a_schedule_without_end_is_a_sentence(filled: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("costhub.dataset.trace.MOST_RESULTS", 10**6)  # otherwise it is refused before
    monkeypatch.setattr("costhub.search.database._OPENING_S", 1.0)
    monkeypatch.setattr("costhub.search.database._RECORD_S", 0.0)
    loops = [["AddUnitLoop", ["b0"], [], [f"l{number}"]] for number in range(20_000)]
    with_record(filled, trace=[[["GetSBlock", [], ["C", "main"], ["b0"]], *loops], []])

    with pytest.raises(DataError, match=f"{FILES[1]} cannot be read .TVM takes more than 1 s.*`costhub doctor`"):
        SearchDatabase(filled)


OPTIONS = {"kind": "llvm", "cl-opt": ["-print-after-all"]}


@pytest.mark.parametrize(
    ("hostile", "words"),
    [
        (OPTIONS, "cl-opt: no options of LLVM"),
        ({"kind": "llvm", "num-cores": 2, "host": OPTIONS}, "cl-opt: no options of LLVM"),
        ({"kind": "llvm", "host": json.dumps(OPTIONS).replace("c", "\\u0063")}, "cl-opt: no options of LLVM"),
        ({"kind": "llvm", "host": "{" + json.dumps(OPTIONS)}, "cl-opt: no options of LLVM"),
        ({"kind": "llvm", "mtriple": "aarch64-linux-gnu", "mcpu": "\x1b[2J"}, "characters that cannot be printed"),
        ({"kind": "llvm", "host": '{"kind": "llvm", "mcpu": "\\u001b"}'}, "characters that cannot be printed"),
    ],
)
def test_a_target_that_reaches_into_llvm_or_the_terminal_is_refused(filled: Path, hostile: Any, words: str) -> None:
    with_record(filled, target=hostile)

    with pytest.raises(DataError, match=rf"Line 4 of .* has a target with {words}.*`costhub doctor` examines"):
        SearchDatabase(filled)


@pytest.mark.slow
def test_a_record_of_a_board_is_kept(filled: Path) -> None:
    with_record(filled, target={"kind": "llvm", "mtriple": "aarch64-linux-gnu", "mcpu": "cortex-a72", "num-cores": 4})

    assert len(SearchDatabase(filled).database.get_all_tuning_records()) == 4


def test_an_empty_folder_costs_no_process(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("costhub.search.database.tvm_child", None)

    assert len(SearchDatabase(tmp_path).database) == 0
    SearchDatabase(tmp_path)


@pytest.mark.parametrize("name", FILES)
def test_a_file_that_is_none_is_neither_read_nor_written_through(filled: Path, tmp_path: Path, name: str) -> None:
    own = tmp_path / "own.txt"
    own.write_text("without a line break")
    for make, words in (
        (lambda path: path.symlink_to(own), "is a symbolic link"),
        (os.mkfifo, "is a named pipe"),
        (lambda path: os.truncate(path, 5 << 30), "At most"),
    ):
        path = filled / name
        kept = path.read_bytes()
        if words != "At most":
            path.unlink()
        make(path)
        with pytest.raises(DataError, match=words):
            SearchDatabase(filled)
        if name == FILES[1] and words != "is a named pipe":
            with pytest.raises(DataError, match=words):
                measured_programs(filled)
        path.unlink()
        path.write_bytes(kept)
    assert own.read_text() == "without a line break"


@pytest.mark.parametrize(("text", "left"), [("a\nb", "a\n"), ("a\n", "a\n"), ("", ""), ("ab", "")])
def test_only_the_last_line_is_dropped_however_long_it_is(
    tmp_path: Path, text: str, left: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("costhub.search.database._PIECE", 1)
    path = tmp_path / "lines"
    path.write_text(text)

    drop_unfinished_line(path)

    assert path.read_text() == left


def test_a_folder_that_was_made_for_a_search_that_wrote_nothing_goes(tmp_path: Path) -> None:
    with SearchFolder(tmp_path / "new"):
        pass
    assert list(tmp_path.iterdir()) == []

    with SearchFolder(tmp_path / "new") as folder:
        (folder.path / "report.json").write_text("{}")
    with SearchFolder(tmp_path / "new"):  # which is not new any more
        (folder.path / "report.json").unlink()
    assert os.listdir(tmp_path / "new") == [".lock"]
