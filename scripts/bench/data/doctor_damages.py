"""Damages to MetaSchedule databases: what crashes, full disks, editors and hands do to their lines."""

from __future__ import annotations

import codecs
import gzip
import json
import math
import random
import zlib
from collections import Counter
from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from costhub.dataset.metaschedule.lines import FAILED_FROM_S, RECORDS_FILE, WORKLOADS_FILE

FAR = 1_000_000
"""More than any database has of workloads, instructions or choices."""
SPARED = 4
"""However many damages are done at once, one good record in so many stays as it is."""
_BLOCKS = ("GetSBlock", "GetBlock")
_ATTRIBUTES = ("host", "num-cores", "mcpu", "model", "arch", "tag")
"""Of targets; those first whose loss changes least of what TVM does with a schedule."""


class UnsuitableError(Exception):
    """A database has nothing that could be damaged in this way."""


@dataclass
class Entry:
    """A line of a file."""

    text: bytes
    origin: int | None = None
    """Its number in the undamaged file, from 1; None once it is damaged, and for a line that a damage added."""
    rules: tuple[str, ...] = ()
    """The rules that the doctor must find broken here."""


@dataclass
class Database:
    """The lines of a database, which damages change."""

    workloads: list[Entry]
    records: list[Entry]
    usable: Collection[int | None] = ()
    """Numbers of the lines with good records that the database holds once."""
    target: Mapping[str, Any] = field(default_factory=dict)
    """That of the records, as TVM 0.27 writes it."""
    todays: Collection[int | None] = ()
    """Numbers of the lines with workloads in the form of TVM 0.27."""
    rng: random.Random = field(default_factory=random.Random)
    elsewhere: set[str] = field(default_factory=set)
    """Rules that the doctor must find broken, wherever it says so."""
    stays: int = 0
    """How many changed records a clean copy holds: they can be used, and nothing shows that they are wrong."""
    start: bytes = b""
    newline: bytes = b"\n"
    is_ended: bool = True
    """Whether a line break follows the last record."""
    packed: bytes | None = None
    """The file of records as gzip; None if it is plain."""
    missing: str | None = None
    """The file that is not there."""

    @property
    def untouched(self) -> list[int]:
        """Places of the good records that no damage has touched."""
        return [place for place, each in enumerate(self.records) if each.origin in self.usable]

    @property
    def numbered(self) -> list[Entry]:
        """The workloads by the numbers that records give them: blank lines do not count."""
        return [each for each in self.workloads if each.text.strip()]

    def victim(self, fits: Callable[[Any], bool] = lambda _: True) -> int:
        """The place of a random good record.

        Args:
            fits: Whether the record will do, given the JSON values of its line.

        Raises:
            UnsuitableError: There is none, or too few would be left.
        """
        left = self.untouched
        if len(left) > max(1, len(self.usable) // SPARED):
            for place in self.rng.sample(left, len(left)):
                if fits(json.loads(self.records[place].text)):
                    return place
        raise UnsuitableError

    def spoil(self, place: int, text: bytes, *rules: str) -> None:
        """Puts another text in the place of a record."""
        self.records[place] = Entry(text, None, rules)

    def change(self, place: int, *rules: str, **parts: Any) -> None:
        """Puts other values into a record: its workload, trace, run_secs, target or arguments."""
        number, record = json.loads(self.records[place].text)
        for index, name in enumerate(("trace", "run_secs", "target", "arguments")):
            record[index] = parts.get(name, record[index])
        self.spoil(place, json.dumps([parts.get("workload", number), record]).encode(), *rules)

    def expected(self) -> set[tuple[str, str]]:
        """The rules that the doctor must find broken, and where."""
        records = RECORDS_FILE if self.packed is None else f"{RECORDS_FILE}.gz"
        return {
            (rule, f"{name} line {number}")
            for name, entries in ((WORKLOADS_FILE, self.workloads), (records, self.records))
            for number, each in enumerate(entries, 1)
            for rule in each.rules
        }

    def write(self, folder: Path) -> Path:
        """Writes the files into a new folder."""
        folder.mkdir(parents=True)
        for name, entries in ((WORKLOADS_FILE, self.workloads), (RECORDS_FILE, self.records)):
            if name == self.missing:
                continue
            if name == RECORDS_FILE and self.packed is not None:
                (folder / f"{name}.gz").write_bytes(self.packed)
                continue
            is_ended = self.is_ended or name == WORKLOADS_FILE
            text = self.newline.join(each.text for each in entries)
            (folder / name).write_bytes(self.start + text + (self.newline if is_ended and entries else b""))
        return folder


def cut_off_at_the_end(db: Database) -> None:
    """The last record is cut off, without a line break."""
    db.spoil(len(db.records) - 1, db.records[-1].text[:-9], "DB01")
    db.is_ended = False
    db.elsewhere.add("DB13")


def workload_cut_off(db: Database) -> None:
    """A workload is cut off."""
    number = _expendable(db)
    entry = db.numbered[number]
    entry.text, entry.origin, entry.rules = entry.text[:-200], None, ("DB03",)
    for each in _of_workload(db, number):
        each.origin = None


def workloads_cut_short(db: Database) -> None:
    """The last workload with records is missing."""
    number = _expendable(db, max(_numbers(db), default=0))
    del db.workloads[db.workloads.index(db.numbered[number]) :]
    for each in _of_workload(db, number):
        each.origin, each.rules = None, ("DB04",)


def workload_twice(db: Database) -> None:
    """A workload is on two lines, and half of its records name the second."""
    numbered = db.numbered
    number = db.rng.choice(sorted(_numbers(db)))
    db.workloads.append(Entry(numbered[number].text, None, ("DB09",)))
    for each in _of_workload(db, number)[::2]:
        _, _, rest = each.text.partition(b",")
        each.text = b"[%d,%s" % (len(numbered), rest)


def workload_of_another_hash(db: Database) -> None:
    """A workload has the hash of another."""
    todays = [each for each in db.numbered if each.origin in db.todays]
    if not todays:
        raise UnsuitableError
    entry = db.rng.choice(todays)
    entry.text = json.dumps(["12345", json.loads(entry.text)[1]]).encode()
    entry.rules = ("DB08",)


def blank_among_workloads(db: Database) -> None:
    """A blank line is among the workloads."""
    db.workloads.insert(db.rng.randrange(len(db.workloads)), Entry(b"", None, ("DB02",)))


def blank(db: Database) -> None:
    """A blank line is among the records."""
    db.records.insert(db.rng.randrange(len(db.records)), Entry(b"  ", None, ("DB02",)))


def cut_off(db: Database) -> None:
    """A record is cut off in the middle of the file."""
    place = db.victim()
    text = db.records[place].text
    db.spoil(place, text[: len(text) // 2], "DB01")


def joined(db: Database) -> None:
    """Two records are on one line."""
    untouched = set(db.untouched)
    first = [place for place in sorted(untouched) if place + 1 in untouched]
    if not first or len(untouched) < SPARED:
        raise UnsuitableError
    place = db.rng.choice(first)
    db.spoil(place, db.records[place].text + db.records.pop(place + 1).text, "DB01")


def one_byte(db: Database) -> None:
    """One bracket of a record is another character."""
    place = db.victim()
    text = db.records[place].text
    places = [at for at in range(len(text) // 2, len(text)) if text[at : at + 1] == b"["]
    spoilt = (text[:at] + b"(" + text[at + 1 :] for at in places)
    # Inside a string, a bracket may be any character.
    db.spoil(place, next(each for each in spoilt if _parsed(each) is None), "DB01")


def zeros(db: Database) -> None:
    """Half of a record is zeros, as a power cut leaves them."""
    place = db.victim()
    text = db.records[place].text
    half = len(text) // 2
    db.spoil(place, text[:half] + bytes(len(text) - half), "DB01")


def another_encoding(db: Database) -> None:
    """A record is in UTF-16."""
    place = db.victim()
    db.spoil(place, db.records[place].text.decode().encode("utf-16-be").replace(b"\n", b""), "DB01")


def another_object(db: Database) -> None:
    """A line is JSON, but no record."""
    db.spoil(db.victim(), b'{"workload": 0}', "DB01")


def a_part_less(db: Database) -> None:
    """A record lacks its target."""
    place = db.victim()
    number, (trace, run_secs, _, arguments) = json.loads(db.records[place].text)
    db.spoil(place, json.dumps([number, [trace, run_secs, arguments]]).encode(), "DB01")


def below_zero(db: Database) -> None:
    """A time is negative."""
    db.change(db.victim(), "DB01", run_secs=[-1e-3])


def no_number(db: Database) -> None:
    """A time is not a number (NaN)."""
    db.change(db.victim(), "DB01", run_secs=[math.nan])


def a_failure(db: Database) -> None:
    """A time is that of a program that failed (1e10 s)."""
    db.change(db.victim(lambda line: max(line[1][1] or [FAILED_FROM_S]) < FAILED_FROM_S), "DB17", run_secs=[1e10])
    db.stays += 1


def no_such_workload(db: Database) -> None:
    """A record has the number of no workload."""
    db.change(db.victim(), "DB04", workload=FAR)


def other_arguments(db: Database) -> None:
    """A record has the arguments of no workload."""
    db.change(db.victim(), "DB05", arguments=[["TENSOR", "float32", [5, 5]]] * 3)


def another_workload(db: Database) -> None:
    """A record has the number of another workload."""
    lines = [json.loads(db.records[place].text) for place in db.untouched]
    sizes = {number: _sizes(arguments) for number, (*_, arguments) in lines}
    place = db.victim(lambda line: bool(line[1][3]) and any(_sizes(line[1][3]) != each for each in sizes.values()))
    own = _sizes(json.loads(db.records[place].text)[1][3])
    others = sorted(number for number, each in sizes.items() if each != own)
    db.change(place, "DB05", workload=db.rng.choice(others))


def an_unknown_instruction(db: Database) -> None:
    """A schedule has an instruction that TVM does not know."""
    place = db.victim(lambda line: bool(line[1][0][0]))
    instructions, decisions = _trace(db, place)
    instructions[0][0] = "Levitate"
    db.change(place, "DB06", trace=[instructions, decisions])


def a_block_that_is_not_there(db: Database) -> None:
    """A schedule names a block that its workload lacks."""
    place = db.victim(lambda line: any(each[0] in _BLOCKS for each in line[1][0][0]))
    instructions, decisions = _trace(db, place)
    next(each for each in instructions if each[0] in _BLOCKS)[2][0] = "gone"
    db.change(place, "DB06", trace=[instructions, decisions])


def a_decision_of_no_instruction(db: Database) -> None:
    """A schedule has a decision for no instruction."""
    place = db.victim()
    instructions, decisions = _trace(db, place)
    db.change(place, "DB06", trace=[instructions, [*decisions, [FAR, [1, 1]]]])


def a_choice_that_is_none(db: Database) -> None:
    """A decision is a choice that there is not."""
    _decide(db, "SampleCategorical", lambda _: FAR)


def a_place_that_is_none(db: Database) -> None:
    """A decision is a loop that there is not."""
    _decide(db, "SampleComputeLocation", lambda _: FAR)


def a_tile_of_zero(db: Database) -> None:
    """A decision is a tile of size 0."""
    _decide(db, "SamplePerfectTile", lambda tile: [*tile[:-1], 0])


def a_tile_that_does_not_divide(db: Database) -> None:
    """A decision is a tile whose size does not divide the loop's."""

    def other(tile: list[int]) -> list[int]:
        extent = math.prod(tile)
        return [*tile[:-1], next(each for each in range(2, extent + 2) if extent % each)]

    _decide(db, "SamplePerfectTile", other)


def no_target(db: Database) -> None:
    """A record is for a kind of target that TVM does not know."""
    db.change(db.victim(), "DB06", target={"kind": "abacus"})


def another_target(db: Database) -> None:
    """A record is for another target."""
    lost = next((name for name in _ATTRIBUTES if name in db.target), None)
    if lost is None:
        raise UnsuitableError
    db.change(db.victim(), target={name: value for name, value in db.target.items() if name != lost})
    db.elsewhere.add("DB11")
    db.stays += 1


def copied(db: Database) -> None:
    """A record is on two lines."""
    place = db.rng.choice(db.untouched)
    db.records.insert(place + 1, Entry(db.records[place].text, None, ("DB10",)))


def byte_order_marks(db: Database) -> None:
    """A byte order mark is before both files."""
    db.start = codecs.BOM_UTF8
    db.elsewhere.add("DB20")


def windows_line_ends(db: Database) -> None:
    """Lines end as on Windows."""
    db.newline = b"\r\n"


def gzip_cut_off(db: Database) -> None:
    """The compressed file of records lacks its last third."""
    whole = gzip.compress(b"".join(each.text + b"\n" for each in db.records), mtime=0)
    packed = whole[: len(whole) * 2 // 3]
    readable = zlib.decompressobj(zlib.MAX_WBITS | 16).decompress(packed).count(b"\n")
    if not 0 < readable < len(db.records):
        raise UnsuitableError
    db.packed = packed
    db.records[readable:] = [Entry(each.text) for each in db.records[readable:]]
    db.records[readable].rules = ("DB01",)


def no_workloads(db: Database) -> None:
    """The file of workloads is missing."""
    db.missing = WORKLOADS_FILE


def no_records(db: Database) -> None:
    """The file of records is missing."""
    db.missing = RECORDS_FILE


Damage = Callable[[Database], None]

TOGETHER: tuple[Damage, ...] = (
    # The ends of files and whole workloads come first: the others choose among what they leave.
    *(cut_off_at_the_end, workload_cut_off, workload_twice, workload_of_another_hash),
    *(blank_among_workloads, blank, cut_off, joined, one_byte, zeros, another_encoding, another_object, a_part_less),
    *(below_zero, no_number, a_failure, no_such_workload, other_arguments, another_workload),
    *(an_unknown_instruction, a_block_that_is_not_there, a_decision_of_no_instruction, a_choice_that_is_none),
    *(a_place_that_is_none, a_tile_of_zero, a_tile_that_does_not_divide, no_target, another_target, copied),
    *(byte_order_marks, windows_line_ends),
)
ALONE: tuple[Damage, ...] = (workloads_cut_short, gzip_cut_off, no_workloads, no_records)
"""Damages that leave too little for others, or give the number of a workload away."""
HARMLESS = (windows_line_ends,)
"""TVM reads such files, so the doctor need not say anything; only the copy counts."""
QUICK = (cut_off_at_the_end, workload_cut_off, blank, an_unknown_instruction, a_tile_that_does_not_divide)


def said(damage: Callable[..., None]) -> str:
    """What a damage is, in words.

    Example:
        >>> said(copied)
        'A record is on two lines'
    """
    return (damage.__doc__ or "").strip().rstrip(".")


def _parsed(text: bytes) -> Any:
    try:
        return json.loads(text)
    except ValueError:
        return None


def _sizes(arguments: Any) -> list[tuple[str, int]]:
    """Types and numbers of elements: a schedule may change the shapes of constant arguments."""
    return [(dtype, math.prod(shape)) for _, dtype, shape in arguments or ()]


def _trace(db: Database, place: int) -> Any:
    return json.loads(db.records[place].text)[1][0]


def _decide(db: Database, kind: str, other: Callable[[Any], Any]) -> None:
    """Changes one of a record's decisions for instructions of a kind."""

    def places(trace: Any) -> list[int]:
        instructions, decisions = trace
        return [place for place, (number, _) in enumerate(decisions) if instructions[number][0] == kind]

    place = db.victim(lambda line: bool(places(line[1][0])))
    trace = _trace(db, place)
    decision = trace[1][db.rng.choice(places(trace))]
    decision[1] = other(decision[1])
    db.change(place, "DB06", trace=trace)


def _numbers(db: Database) -> Counter[int]:
    """Number of a workload -> how many of its good records no damage has touched."""
    return Counter(json.loads(db.records[place].text)[0] for place in db.untouched)


def _expendable(db: Database, number: int | None = None) -> int:
    """A workload, or this one, with at most half of the good records that are left."""
    counts = _numbers(db)
    found = [each for each in sorted(counts) if 2 * counts[each] <= counts.total() and number in (None, each)]
    if not found:
        raise UnsuitableError
    return db.rng.choice(found)


def _of_workload(db: Database, number: int) -> list[Entry]:
    """The undamaged records of a workload, good or not."""
    start = b"[%d," % number
    return [each for each in db.records if each.origin is not None and each.text.startswith(start)]
