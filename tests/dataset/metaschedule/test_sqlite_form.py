from __future__ import annotations

import contextlib
import json
import os
import sqlite3
from pathlib import Path
from typing import Any

import pytest

from costhub.dataset.folder import DataFolder
from costhub.dataset.metaschedule import sqlite_form
from costhub.dataset.metaschedule.import_database import import_database
from costhub.dataset.metaschedule.lines import RECORDS_FILE, WORKLOADS_FILE
from costhub.dataset.metaschedule.sqlite_form import SQLITE_FILES, sqlite_as_json, sqlite_files, write_json_lines
from costhub.errors import DataError

CREATE = {
    WORKLOADS_FILE: "CREATE TABLE workload(shash text, mod text)",
    RECORDS_FILE: "CREATE TABLE tuning_record"
    "(workload_index int, trace text, run_secs text, target text, args_info text)",
}


def write(folder: Path, rows: dict[str, list[tuple[Any, ...]]], create: dict[str, str] | None = None) -> Path:
    folder.mkdir(exist_ok=True)
    for name, values in rows.items():
        database = sqlite3.connect(folder / SQLITE_FILES[name])
        database.execute((create or CREATE)[name])
        for row in values:
            table = "workload" if name == WORKLOADS_FILE else "tuning_record"
            database.execute(f"INSERT INTO {table} VALUES ({', '.join('?' * len(row))})", row)  # noqa: S608
        database.commit()
        database.close()
    return folder


def repeated(content: bytes, times: int) -> bytes:
    """A SQLite file whose table (root page 2) becomes an inner page that names its old page `times` times."""
    size, leaf = 4096, len(content) // 4096 + 1
    cells = [leaf.to_bytes(4, "big") + _varint(number + 1) for number in range(times)]
    offsets, end = [], size
    for cell in cells:
        end -= len(cell)
        offsets.append(end)
    head = b"\x05" + bytes(2) + times.to_bytes(2, "big") + end.to_bytes(2, "big") + b"\0" + leaf.to_bytes(4, "big")
    pointers = b"".join(offset.to_bytes(2, "big") for offset in offsets)
    inner = (head + pointers).ljust(end, b"\0") + b"".join(reversed(cells))
    pages = [content[at : at + size] for at in range(0, len(content), size)]
    first = pages[0][:28] + leaf.to_bytes(4, "big") + pages[0][32:]
    return b"".join([first, inner, *pages[2:], pages[1]])


def _varint(number: int) -> bytes:
    return bytes([number]) if number < 128 else bytes([0x80 | number >> 7, number & 127])


def as_rows(database: Any) -> dict[str, list[tuple[Any, ...]]]:
    records = []
    for line in database.lines:
        workload, parts = json.loads(line)
        records.append((workload, *map(json.dumps, parts)))
    return {WORKLOADS_FILE: [tuple(json.loads(line)) for line in database.workloads], RECORDS_FILE: records}


def test_a_database_in_sqlite_gives_what_its_json_gives(database: Any, tmp_path: Path) -> None:
    device = {"device_id": "cpu0", "kind": "cpu"}
    write(tmp_path / "sqlite", as_rows(database))
    database.write(tmp_path / "json")

    reports = [
        import_database(tmp_path / form, tmp_path / f"out-{form}", device=device, workers=1, progress=False)
        for form in ("sqlite", "json")
    ]

    assert reports[0] == reports[1]
    assert reports[0].ok == 4
    rows = [DataFolder.open(tmp_path / f"out-{form}").measurements("cpu0") for form in ("sqlite", "json")]
    assert rows[0]["record_id"].to_pylist() == rows[1]["record_id"].to_pylist()


def test_values_that_tvm_does_not_write_cost_their_row_only(tmp_path: Path) -> None:
    rows: list[tuple[Any, ...]] = [(0, "[[],[]]", "[0.1]", '{"kind": "llvm"}', "[]"), (None, b"\xff", "{", None, "x")]
    folder = write(tmp_path / "db", {RECORDS_FILE: rows})

    write_json_lines(RECORDS_FILE, str(folder / SQLITE_FILES[RECORDS_FILE]), str(tmp_path / "out"))

    assert (tmp_path / "out").read_text().splitlines() == ['[0, [[[], []], [0.1], {"kind": "llvm"}, []]]', "null"]


@pytest.mark.parametrize(
    ("statement", "sentence"),
    [
        ("CREATE VIEW workload AS SELECT 1 AS shash, 2 AS mod", "has no table 'workload'"),
        ("CREATE TABLE other(shash text, mod text)", "has no table 'workload'"),
        ("CREATE TABLE workload(shash text)", "cannot be read as a SQLite database"),
    ],
)
def test_other_tables_are_refused(tmp_path: Path, statement: str, sentence: str) -> None:
    folder = write(tmp_path / "db", {WORKLOADS_FILE: []}, {WORKLOADS_FILE: statement})

    with pytest.raises(DataError, match=sentence):
        write_json_lines(WORKLOADS_FILE, str(folder / SQLITE_FILES[WORKLOADS_FILE]), str(tmp_path / "out"))


def test_a_virtual_table_is_refused(tmp_path: Path) -> None:
    statement = "CREATE VIRTUAL TABLE workload USING fts5(shash, mod)"
    folder = write(tmp_path / "db", {WORKLOADS_FILE: []}, {WORKLOADS_FILE: statement})

    with pytest.raises(DataError, match="has no table 'workload'"):
        write_json_lines(WORKLOADS_FILE, str(folder / SQLITE_FILES[WORKLOADS_FILE]), str(tmp_path / "out"))


@pytest.mark.parametrize("kind", ["noise", "cut", "empty"])
def test_damaged_files_are_a_sentence(tmp_path: Path, kind: str) -> None:
    folder = write(tmp_path / "db", {WORKLOADS_FILE: [("1", "x" * 9000)] * 9, RECORDS_FILE: []})
    path = folder / SQLITE_FILES[WORKLOADS_FILE]
    content = path.read_bytes()
    path.write_bytes({"noise": os.urandom(9000), "cut": content[:5000], "empty": b""}[kind])

    files = sqlite_files(folder)
    assert files is not None
    with pytest.raises(DataError, match=r"cannot be read as a SQLite database|has no table"), sqlite_as_json(files):
        pass


def test_nothing_is_written_beside_the_files(tmp_path: Path) -> None:
    folder = write(tmp_path / "db", {WORKLOADS_FILE: [("1", "x")], RECORDS_FILE: []})
    before = {path.name: path.read_bytes() for path in folder.iterdir()}

    files = sqlite_files(folder)
    assert files is not None
    with sqlite_as_json(files) as written:
        assert written[WORKLOADS_FILE].read_text() == '["1", "x"]\n'

    assert {path.name: path.read_bytes() for path in folder.iterdir()} == before


def test_a_pipe_does_not_stop_the_import(tmp_path: Path) -> None:
    folder = write(tmp_path / "db", {WORKLOADS_FILE: []})
    os.mkfifo(folder / SQLITE_FILES[RECORDS_FILE])

    assert sqlite_files(folder) is None


def test_a_column_that_is_computed_is_refused(tmp_path: Path) -> None:
    """A file of some kilobytes could fill the disk."""
    path = tmp_path / "w.sqlite"
    with contextlib.closing(sqlite3.connect(path)) as database:
        database.execute("CREATE TABLE workload(id INTEGER PRIMARY KEY, shash TEXT, mod TEXT AS (hex(zeroblob(9))))")
        database.execute("INSERT INTO workload(shash) VALUES ('a')")
        database.commit()

    with pytest.raises(DataError, match="computed columns"):
        write_json_lines(WORKLOADS_FILE, str(path), str(tmp_path / "out.json"))


@pytest.mark.parametrize(("hole", "most"), [(0, 200_000), (100 << 20, 400_000)])
def test_a_small_file_does_not_become_a_large_one(
    hole: int, most: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sqlite_form, "TEXT_ANYWAY", 100_000, raising=False)
    monkeypatch.setattr(sqlite_form, "_EXPANSION", 2)
    rows: dict[str, list[tuple[Any, ...]]] = {WORKLOADS_FILE: [("1", "x" * 1000)] * 3}
    source = write(tmp_path / "db", rows) / SQLITE_FILES[WORKLOADS_FILE]
    write_json_lines(WORKLOADS_FILE, str(source), str(tmp_path / "sound"))
    # A tree of pages whose inner page names one leaf again and again: every visit yields its rows once more.
    source.write_bytes(repeated(source.read_bytes(), 300))
    os.truncate(source, source.stat().st_size + hole)

    with pytest.raises(DataError, match="holds far more than a database of its size"):
        write_json_lines(WORKLOADS_FILE, str(source), str(tmp_path / "bomb"))
    assert (tmp_path / "bomb").stat().st_size < most


def test_a_message_of_sqlite_that_is_no_text_is_a_sentence(tmp_path: Path) -> None:
    folder = write(tmp_path / "db", {WORKLOADS_FILE: [("1", "x")]})
    path = folder / SQLITE_FILES[WORKLOADS_FILE]
    sound = path.read_bytes()
    path.write_bytes(sound.replace(b"tableworkload", b"table\xf4orkload"))
    assert path.read_bytes() != sound

    with pytest.raises(DataError, match="cannot be read as a SQLite database"):
        write_json_lines(WORKLOADS_FILE, str(path), str(tmp_path / "out.json"))


def test_rows_that_are_not_in_the_file_yet_are_not_left_out_silently(database: Any, tmp_path: Path) -> None:
    folder = write(tmp_path / "db", as_rows(database))
    with contextlib.closing(sqlite3.connect(folder / SQLITE_FILES[RECORDS_FILE])) as writing:
        writing.execute("PRAGMA journal_mode=WAL")
        writing.execute("DELETE FROM tuning_record WHERE rowid = 1")
        writing.commit()
        with pytest.raises(DataError, match=r"was not closed: \S+-wal is still beside it\. End the search"):
            import_database(folder, tmp_path / "out", device={"device_id": "cpu0", "kind": "cpu"}, progress=False)
