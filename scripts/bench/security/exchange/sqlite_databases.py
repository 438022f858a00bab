"""Hostile MetaSchedule databases in SQLite (kind 127)."""

from __future__ import annotations

import contextlib
import json
import pickle
import sqlite3
from collections.abc import Callable, Iterator
from pathlib import Path

from scripts.bench.security.attempt import Attempt, Expected, lacks, no_harm
from scripts.bench.security.exchange.databases import IMPORT, Harm, SpoilDatabase, harmed, on_database, spoilt
from scripts.bench.security.exchange.logs import FAMILY, seen
from scripts.bench.security.imports import RECORDS, SOUND, WORKLOADS
from scripts.bench.security.models import RunsCode
from scripts.bench.security.names import reaches_terminal
from scripts.bench.security.place import Command, Place

SQLITE = {WORKLOADS: "database_workload.sqlite", RECORDS: "database_tuning_record.sqlite"}
TABLES = {
    WORKLOADS: ("workload", "shash text, mod text"),
    RECORDS: ("tuning_record", "workload_index int, trace text, run_secs text, target text, args_info text"),
}
Change = Callable[[sqlite3.Connection, sqlite3.Connection], object]
"""What is done to the tables of workloads and records."""


def as_sqlite(change: Change) -> SpoilDatabase:
    """The database as SQLite, after a change."""

    def spoil(folder: Path, lines: list[bytes], place: Place) -> None:
        del place
        records = [(number, *map(json.dumps, parts)) for number, parts in map(json.loads, lines)]
        rows = {WORKLOADS: [tuple(json.loads((folder / WORKLOADS).read_bytes()))], RECORDS: records}
        (folder / WORKLOADS).unlink()
        with contextlib.ExitStack() as held:
            tables = []
            for name, (table, columns) in TABLES.items():
                database = held.enter_context(contextlib.closing(sqlite3.connect(folder / SQLITE[name])))
                database.execute(f"CREATE TABLE {table}({columns})")
                marks = ", ".join("?" * len(rows[name][0]))
                database.executemany(f"INSERT INTO {table} VALUES ({marks})", rows[name])  # noqa: S608
                database.commit()
                tables.append(database)
            change(*tables)
            for database in tables:
                database.commit()

    return spoil


def _triggers(workloads: sqlite3.Connection, records: sqlite3.Connection) -> None:
    for database, table in ((workloads, "workload"), (records, "tuning_record")):
        database.execute(f"CREATE TRIGGER t AFTER INSERT ON {table} BEGIN DELETE FROM {table}; END")  # noqa: S608
        database.execute(f"CREATE VIEW v AS SELECT * FROM {table}")  # noqa: S608


def _endless_view(workloads: sqlite3.Connection, records: sqlite3.Connection) -> None:
    """The records are a view that computes for ever."""
    del workloads
    records.execute("DROP TABLE tuning_record")
    endless = "WITH RECURSIVE n(x) AS (SELECT 1 UNION ALL SELECT x + 1 FROM n) SELECT x FROM n"
    columns = "x AS workload_index, x AS trace, x AS run_secs, x AS target, x AS args_info"
    records.execute(f"CREATE VIEW tuning_record AS SELECT {columns} FROM ({endless})")  # noqa: S608


def _blob(size: int) -> Change:
    def change(workloads: sqlite3.Connection, records: sqlite3.Connection) -> None:
        del records
        workloads.execute("INSERT INTO workload VALUES ('x', zeroblob(?))", (size,))

    return change


def _many_rows(workloads: sqlite3.Connection, records: sqlite3.Connection) -> None:
    del workloads
    rows = ((b"\xff" if n % 2 else None, "[", "\x1b[2J", n, None) for n in range(500_000))
    records.executemany("INSERT INTO tuning_record VALUES (?, ?, ?, ?, ?)", rows)


def _schema(workloads: sqlite3.Connection, records: sqlite3.Connection) -> None:
    """The table of records is where the schema is."""
    del workloads
    records.execute("PRAGMA writable_schema = ON")
    records.execute("UPDATE sqlite_master SET rootpage = 1 WHERE name = 'tuning_record'")


_GARBLED = """
import random
from pathlib import Path
from costhub.dataset.metaschedule.sqlite_form import sqlite_as_json, sqlite_files
from costhub.errors import DataError
folder, rng = Path({folder!r}), random.Random(0)
files = sqlite_files(folder)
sound = {{path: path.read_bytes() for path in files.values()}}
refused = 0
for _ in range(60):
    for path, content in sound.items():
        spoilt = bytearray(content)
        for _ in range(rng.choice((1, 8, 200))):
            spoilt[rng.randrange(100, len(spoilt))] = rng.randrange(256)
        path.write_bytes(bytes(spoilt))
    try:
        with sqlite_as_json(files) as written:
            assert sum(path.stat().st_size for path in written.values()) < 100 << 20
    except DataError:
        refused += 1
print(f"60 read, {{refused}} of them refused")
"""


def _garbled(place: Place) -> Command:
    """Reads sixty databases with bytes that somebody has changed."""
    folder = spoilt(place, as_sqlite(lambda *_: None))
    return place.python(_GARBLED.format(folder=str(folder)), shown="read 60 garbled SQLite databases")


_PAGE = 4096
_LEVELS, _CHILDREN = 3, 400


def _circled(folder: Path, lines: list[bytes], place: Place) -> None:
    """Three levels of pages that each name one page 400 times: some 100 kB hold 300 GB of text."""
    as_sqlite(lambda workloads, _: workloads.execute("INSERT INTO workload VALUES ('1', ?)", ("x" * 3000,)))(
        folder, lines, place
    )
    path = folder / SQLITE[WORKLOADS]
    content = path.read_bytes()
    pages = [content[at : at + _PAGE] for at in range(0, len(content), _PAGE)]
    # Page 2 is the root of the only table. Its old content goes to the end, below the pages that name one another.
    leaf, first = len(pages) + _LEVELS, len(pages) + 1
    below = [*range(first, leaf), leaf]
    inner = [_inner_page(child) for child in below]
    path.write_bytes(
        b"".join([pages[0][:28], (leaf).to_bytes(4, "big"), pages[0][32:], inner[0], *pages[2:], *inner[1:], pages[1]])
    )


def _inner_page(child: int) -> bytes:
    """A page of SQLite without rows of its own, whose children are all one page."""
    cells = [child.to_bytes(4, "big") + bytes([0x80 | number >> 7, number & 127]) for number in range(_CHILDREN)]
    offsets, end = [], _PAGE
    for cell in cells:
        end -= len(cell)
        offsets.append(end.to_bytes(2, "big"))
    head = b"\x05" + bytes(2) + _CHILDREN.to_bytes(2, "big") + end.to_bytes(2, "big") + b"\0" + child.to_bytes(4, "big")
    return (head + b"".join(offsets)).ljust(end, b"\0") + b"".join(reversed(cells))


def _not_sqlite(folder: Path, lines: list[bytes], place: Place) -> None:
    del lines
    (folder / WORKLOADS).unlink()
    for name in SQLITE.values():
        (folder / name).write_bytes(pickle.dumps(RunsCode(place.canary)))


def _linked(folder: Path, lines: list[bytes], place: Place) -> None:
    del lines
    (folder / WORKLOADS).unlink()
    for name in SQLITE.values():
        (folder / name).symlink_to(place.secret)


_four = lacks(f"{SOUND} measurements of")
_TRIED: tuple[tuple[str, str, str, SpoilDatabase, Expected, Harm], ...] = (
    ("127a", "import, triggers and views beside the tables", IMPORT, as_sqlite(_triggers), "accepted", _four),
    ("127b", "import, records that are a view without end", IMPORT, as_sqlite(_endless_view), "refused", no_harm),
    ("127c", "import, a value of 70 MB", IMPORT, as_sqlite(_blob(70 << 20)), "either", no_harm),
    ("127d", "import, a value of 60 MB", IMPORT, as_sqlite(_blob(60 << 20)), "accepted", _four),
    ("127e", "doctor, 500,000 rows of nothing", "doctor DB", as_sqlite(_many_rows), "refused", reaches_terminal),
    ("127f", "import, a table that is the schema", IMPORT, as_sqlite(_schema), "either", no_harm),
    ("127g", "doctor, pickles under the names of SQLite files", "doctor DB", _not_sqlite, "refused", harmed),
    ("127h", "import, SQLite files that are links to the user's own", IMPORT, _linked, "refused", seen),
    ("127j", "import, pages that name one page again and again", IMPORT, _circled, "refused", no_harm),
)


def attempts() -> Iterator[Attempt]:
    """Kind 127."""
    for kind, what, words, spoil, expected, harm in _TRIED:
        yield Attempt(kind, FAMILY, what, on_database(words, spoil), expected, harm=harm, limit_s=180)
    yield Attempt("127i", FAMILY, "sixty garbled SQLite databases", _garbled, "accepted", limit_s=180)
