"""Damages real MetaSchedule databases in every known way, and counts what `costhub doctor` finds and what it saves."""

from __future__ import annotations

import contextlib
import itertools
import json
import os
import random
import re
import tempfile
import time
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any

import click

from costhub.api.doctor import Diagnosis
from costhub.api.doctor import doctor as examine
from costhub.collector.run.database_outputs import is_of_this_machine
from costhub.dataset.doctor.database_rules import MOST_FINDINGS
from costhub.dataset.metaschedule.lines import WORKLOADS_FILE
from costhub.errors import DataError
from costhub.files import CACHE_VARIABLE
from scripts.bench.common import machine, options
from scripts.bench.common.rows import RowFile
from scripts.bench.data.doctor_damages import (
    ALONE,
    HARMLESS,
    QUICK,
    TOGETHER,
    Damage,
    Database,
    Entry,
    UnsuitableError,
    said,
)
from scripts.bench.data.doctor_folders import (
    SEARCHED,
    Content,
    RealDatabase,
    contents,
    loaded,
    read_database,
    real_databases,
    wrong_traces,
)
from scripts.bench.data.doctor_networks import Searches, is_wrong
from scripts.tables.data import doctor_table

NETWORK_TRIALS = 4
"""Of each kernel of the network."""
SMALL_NETWORK = "bert_tiny"
_LINE = re.compile(r"(?P<file>\S+) line (?P<number>\d+)")
_FIRST = re.compile(r"(.+):(\d+)")


@dataclass(frozen=True)
class Answer:
    """What the doctor says of a folder, and what it writes."""

    seconds: float = 0.0
    findings: Sequence[tuple[str, str, str]] = ()
    """(rule, where, severity)."""
    counts: Mapping[str, int] = field(default_factory=dict)
    """Rule -> number of findings."""
    copy: Counter[Content] = field(default_factory=Counter)
    """The records of the clean copy."""
    refused: str = ""
    """Why there are neither findings nor a copy; empty if there are."""


@dataclass(frozen=True)
class Whole:
    """An undamaged database, and what the doctor says of it."""

    source: RealDatabase
    copies: Mapping[int, Content]
    """Number of the line with a good record -> the record in the clean copy."""
    answer: Answer
    target: str = "{}"
    """The most common one, as TVM 0.27 writes it."""
    tvm_versions: Sequence[str] = ()
    wrong: Mapping[str, str | None] = field(default_factory=dict)
    """`wrong_traces` by hash of the workload; empty if this machine cannot run the programs."""
    loads: bool = True
    """Whether stock TVM loads the database itself."""

    def database(self, seed: str) -> Database:
        """The lines, to be damaged."""
        texts = Counter(self.source.records)
        usable = {number for number in self.copies if texts[self.source.records[number - 1]] == 1}
        workloads, records = lines_of(self.source)
        others = {where for rule, where, _ in self.answer.findings if rule in ("DB03", "DB12")}
        todays = {each.origin for each in workloads if f"{WORKLOADS_FILE} line {each.origin}" not in others}
        return Database(workloads, records, usable, json.loads(self.target), todays, random.Random(seed))


def lines_of(source: RealDatabase) -> tuple[list[Entry], list[Entry]]:
    """The workloads and the records of a database."""
    workloads, records = (
        [Entry(text, number) for number, text in enumerate(lines, 1)] for lines in (source.workloads, source.records)
    )
    return workloads, records


@contextlib.contextmanager
def empty_cache() -> Iterator[None]:
    """Lets the doctor know nothing of earlier examinations while the block runs."""
    before = os.environ.get(CACHE_VARIABLE)
    with tempfile.TemporaryDirectory(prefix="costhub-doctor-") as folder:
        os.environ[CACHE_VARIABLE] = folder
        try:
            yield
        finally:
            os.environ.pop(CACHE_VARIABLE)
            if before is not None:
                os.environ[CACHE_VARIABLE] = before


def treated(folder: Path, out: Path, *, run: bool = False) -> tuple[Answer, Diagnosis | None]:
    """Examines a folder and makes a clean copy of it.

    Args:
        folder: The folder.
        out: The copy.
        run: Also run the fastest program of each workload, and compare its outputs.
    """
    start = time.perf_counter()
    try:
        found = examine(folder, fix=out, run=1 if run else None, progress=False)
    except DataError as error:
        return Answer(time.perf_counter() - start, refused=str(error)), None
    seconds = time.perf_counter() - start
    findings = [(each.rule, each.where, each.severity) for each in found.findings]
    return Answer(seconds, findings, dict(found.examination.log.counts), Counter(contents(out))), found


def examined(source: RealDatabase, place: Path) -> Whole | None:
    """Examines an undamaged database; None if it has no good record.

    Args:
        source: The database.
        place: A new folder for files.
    """
    folder = Database(*lines_of(source)).write(place / "whole")
    answer, found = treated(folder, place / "copy")
    if found is None:
        return None
    good, written = found.examination.records, contents(place / "copy")
    copies = {record.line: content for record, content in zip(good, written, strict=True)}
    [(target, _)] = found.examination.targets.most_common(1)
    return Whole(
        source,
        copies,
        answer,
        target,
        sorted(found.manifest()["tvm_versions"]),
        wrong_traces(place / "copy") if is_of_this_machine(target) else {},
        isinstance(loaded(folder), int),
    )


def a_wrong_program(db: Database, whole: Whole) -> None:
    """A program computes something else than its workload."""

    def wrong(place: int) -> str | None:
        return whole.wrong.get(whole.copies[db.records[place].origin or 0][0])

    places = [place for place in db.untouched if wrong(place)]
    if not places:
        raise UnsuitableError
    place = db.rng.choice(places)
    number, (_, _, target, arguments) = json.loads(db.records[place].text)
    # The fastest of its workload, so that it is one of those that run.
    line = [number, [json.loads(wrong(place) or ""), [1e-9], target, arguments]]
    db.records.insert(place, Entry(json.dumps(line).encode(), None, ("DB07",)))


def judged(db: Database, whole: Whole, answer: Answer) -> dict[str, Any]:
    """What of the damages was found, how many good records were lost, and how many damaged ones are in the copy."""
    expected = {f"{rule} {where}" for rule, where in db.expected()} | db.elsewhere
    seen = {f"{rule} {where}" for rule, where, _ in answer.findings}
    seen |= {rule for rule, count in answer.counts.items() if count > whole.answer.counts.get(rule, 0)}
    kept = [each.origin for each in db.records if each.origin is not None]
    wanted = Counter(whole.copies[origin] for origin in kept if origin in whole.copies)
    if db.missing is not None:  # without the other file, no line is worth anything
        expected, wanted = {db.missing}, Counter()
        seen = expected if db.missing in answer.refused else set()
    return {
        "expected": len(expected),
        "missed": sorted(expected - seen),
        "lost": (wanted - answer.copy).total(),
        "left": (answer.copy - wanted).total() - db.stays,
        "false_alarms": false_alarms(db, whole, answer),
    }


def false_alarms(db: Database, whole: Whole, answer: Answer) -> list[str]:
    """Errors and warnings at undamaged lines, if the doctor has none there in the undamaged database."""
    before = {(rule, where) for rule, where, _ in whole.answer.findings}
    found = []
    for rule, where, severity in answer.findings:
        match = _LINE.fullmatch(where)
        # Of more findings than that, the places of some are unknown.
        if match is None or severity == "note" or whole.answer.counts.get(rule, 0) > MOST_FINDINGS:
            continue
        name = match["file"].removesuffix(".gz")
        entry = (db.workloads if name == WORKLOADS_FILE else db.records)[int(match["number"]) - 1]
        is_new = (rule, f"{name} line {entry.origin}") not in before
        if entry.origin is not None and rule not in entry.rules and is_new:
            found.append(f"{rule} {where}")
    return found


def tried(whole: Whole, damages: Sequence[Damage], place: Path, *, run: bool = False) -> dict[str, Any] | None:
    """Damages a database, examines it and judges the answer; None if none of the damages can be done to it.

    Args:
        whole: The undamaged database.
        damages: What is done to it, in this order.
        place: A new folder for files.
        run: Add a program that computes something else, and run programs.
    """
    steps: list[Damage] = [*damages, *([partial(a_wrong_program, whole=whole)] if run else [])]
    db, done = whole.database(f"{whole.source.name} {damages[0].__name__ if damages else 'run'}"), 0
    for step in steps:
        with contextlib.suppress(UnsuitableError):
            step(db)
            done += 1
    if not done:
        return None
    folder = db.write(place / "damaged")
    answer, found = treated(folder, place / "clean", run=run)
    row = judged(db, whole, answer) | {"damages": done, "seconds": round(answer.seconds, 2)}
    row["loads"] = found is None or loaded(place / "clean") == answer.copy.total()
    # TVM reads no gzip. What it makes of a folder that it could not load before says nothing.
    return row | ({"stock": loaded(folder)} if whole.loads and db.packed is None else {})


def rows_of(whole: Whole, damages: Sequence[Damage], place: Path, *, run: bool) -> Iterator[dict[str, Any]]:
    """A row for each damage, and one for all at once; only that one replays the undamaged schedules again."""
    run = run and any(whole.wrong.values())
    for number, damage in enumerate(damages):
        if row := tried(whole, [damage], place / str(number)):
            yield {"damage": said(damage), **row, "harmless": damage in HARMLESS}
    if run and (row := tried(whole, (), place / "run", run=True)):
        yield {"damage": said(a_wrong_program), **row, "harmless": False}
    with empty_cache():
        if row := tried(whole, [damage for damage in damages if damage in TOGETHER], place / "all", run=run):
            yield {"damage": "all", **row, "harmless": False}


def folder_row(whole: Whole) -> dict[str, Any]:
    """What the table says of an undamaged database."""
    return {
        "folder": whole.source.name,
        "kind": json.loads(whole.target)["kind"],
        "tvm_versions": whole.tvm_versions,
        "workloads": len(whole.source.workloads),
        "lines": whole.source.lines,
        "taken": len(whole.source.records),
        "good": len(whole.copies),
        "findings": dict(whole.answer.counts),
        "seconds": round(whole.answer.seconds, 2),
        "loads": whole.loads,
    }


def of_others(folders: Sequence[str], work: Path) -> Iterator[RealDatabase]:
    """The databases in folders."""
    for text in folders:
        match = _FIRST.fullmatch(text)
        folder, most_records = (match[1], int(match[2])) if match else (text, None)
        yield from real_databases(Path(folder), work, most_records)


def whole_row(source: RealDatabase, place: Path, *, quick: bool, run: bool) -> dict[str, Any] | None:
    """What the tables say of a database, with its damages as `tries`; None if it has no good record.

    Args:
        source: The database.
        place: A new folder for files.
        quick: A few damages only.
        run: Also run programs.
    """
    with empty_cache():
        whole = examined(source, place / "whole")
        if whole is None:
            click.echo(f"{source.name} has no good record.")
            return None
        tries = []
        for row in rows_of(whole, QUICK if quick else TOGETHER + ALONE, place / "damaged", run=run):
            click.echo(f"{source.name}: {json.dumps(row)}")
            tries.append({"folder": source.name, **row})
    return {**folder_row(whole), "tries": tries}


def failures(result: Mapping[str, Any]) -> list[str]:
    """Each attempt in which a damage was missed, a record lost or kept, or an answer wrong.

    Args:
        result: What the benchmark writes.
    """
    wrongs = ("missed", "lost", "left", "false_alarms")
    bad = [row for row in result["rows"] if any(row[key] for key in wrongs) or not row["loads"]]
    told = [f"{row['folder']}: {row['damage']}" for row in bad]
    return told + [row["what"] for row in (*result.get("coverage", ()), *result.get("merges", ())) if is_wrong(row)]


@click.command()
@click.option(
    "--folders", multiple=True, help="Looks for databases in and below it; FOLDER:N takes the first N records of each."
)
@click.option("--searches", default=2, type=click.IntRange(0, len(SEARCHED)), help="Small searches to make here.")
@options.trials(16)
@click.option("--network", default="resnet18", show_default=True, help="A network to search as well; '' for none.")
@click.option("--kept", type=options.PATH, help=f"Where the searches' folders are kept. {options.RESUMED}")
@click.option("--run", is_flag=True, help="Also run programs, and compare their outputs.")
@options.quick("One search, a small network, a few damages.")
@options.rows_file()
@options.json_file()
def main(
    folders: tuple[str, ...],
    searches: int,
    trials: int,
    network: str,
    kept: Path | None,
    run: bool,
    quick: bool,
    rows_path: Path | None,
    path: Path | None,
) -> None:
    """Damages databases in one way at a time and in all at once; fails if a damage is missed or a good record lost."""
    if quick:
        folders, searches, trials, network = (), 1, 8, SMALL_NETWORK
    if not folders and not searches and not network:
        raise click.UsageError("Name a folder (--folders), or let it make searches (--searches, --network).")
    done = RowFile(rows_path, ("folder",), quick=quick, run=run, trials=trials, asked=list(folders))
    with tempfile.TemporaryDirectory(prefix="costhub-doctor-") as folder:
        work = Path(folder)
        made = Searches(kept or work / "searches", searches, trials, network, 1 if quick else NETWORK_TRIALS)
        left = (read_database(make()) for name, make in made.folders().items() if (name,) not in done)
        for number, source in enumerate(itertools.chain(of_others(folders, work), left)):
            if (source.name,) not in done and (row := whole_row(source, work / str(number), quick=quick, run=run)):
                done.add(row)
        with empty_cache():
            answers = made.answers(work / "answers")
    rows = [row for folder in done for row in folder["tries"]]
    result = {
        "folders": [{k: v for k, v in folder.items() if k not in ("tries", *done.settings)} for folder in done],
        "rows": rows,
    } | answers
    click.echo(doctor_table(result))
    machine.write_result(path, result)
    if wrong := failures(result):
        raise click.ClickException(f"{len(wrong)} answers were wrong: {'; '.join(wrong)}.")
