"""Hostile submissions, and hostile tasks of a benchmark with hidden latencies (kinds 129 and 130)."""

from __future__ import annotations

import hashlib
import json
import os
import pickle
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

from scripts.bench.common.data import DEVICE
from scripts.bench.security import shards
from scripts.bench.security.attempt import Attempt, Expected, no_harm, says, writes
from scripts.bench.security.data import ESCAPES
from scripts.bench.security.exchange.databases import Harm, calling_module
from scripts.bench.security.exchange.logs import seen
from scripts.bench.security.models import RunsCode, deep
from scripts.bench.security.names import SCRIPT, reaches_terminal
from scripts.bench.security.place import Command, Place

FAMILY = "submissions, locks and networks"
SpoilFolder = Callable[[Path, Place], object]
GIB = 1 << 30
_KEYS = [("cpu0", "w1", f"{number:064x}") for number in range(4)]
_ABOUT = {"version": 1, "model": "Mine", "trained_on": "nothing"}
_SCORES = "device_id,program_id,score\n" + "".join(f"{d},{p},{n}\n" for n, (d, _, p) in enumerate(_KEYS))


def scored(spoil: SpoilFolder, *words: str) -> Callable[[Place], Command]:
    """Scores a submission that somebody has spoilt."""

    def make(place: Place) -> Command:
        kept, folder = place.folder / "kept.csv", place.folder / "mine"
        rows = [f"{device},{workload},{program},{n + 1}e-3" for n, (device, workload, program) in enumerate(_KEYS)]
        kept.write_text("\n".join(["device_id,workload_id,program_id,latency_s", *rows]) + "\n")
        folder.mkdir()
        (folder / "about.json").write_text(json.dumps(_ABOUT))
        (folder / "scores.csv").write_text(_SCORES)
        spoil(folder, place)
        return place.costhub("bench", "score", folder, "--latencies", kept, *words)

    return make


def content(name: str, text: str | bytes) -> SpoilFolder:
    """Another content of a file."""
    given = text.encode("utf-8", "surrogatepass") if isinstance(text, str) else text
    return lambda folder, place: (folder / name).write_bytes(given)


def about(**values: Any) -> SpoilFolder:
    """Another description."""
    return content("about.json", json.dumps({**_ABOUT, **values}))


def pipe(name: str) -> SpoilFolder:
    """A named pipe in the place of a file."""

    def spoil(folder: Path, place: Place) -> None:
        del place
        (folder / name).unlink()
        os.mkfifo(folder / name)

    return spoil


def link(name: str) -> SpoilFolder:
    """A link to the user's own file in the place of a file."""

    def spoil(folder: Path, place: Place) -> None:
        (folder / name).unlink()
        (folder / name).symlink_to(place.secret)

    return spoil


def holes(name: str, size: int, first: bytes = b"") -> SpoilFolder:
    """A file of holes: it takes no space."""

    def spoil(folder: Path, place: Place) -> None:
        del place
        with (folder / name).open("wb") as file:
            file.write(first)
            file.truncate(size)

    return spoil


def _rows(count: int) -> SpoilFolder:
    def spoil(folder: Path, place: Place) -> None:
        del place
        with (folder / "scores.csv").open("w") as file:
            file.write("device_id,program_id,score\n")
            file.writelines(f"c,{number},1\n" for number in range(count))

    return spoil


def _pickled(folder: Path, place: Place) -> None:
    for name in ("about.json", "scores.csv"):
        (folder / name).write_bytes(pickle.dumps(RunsCode(place.canary)))


def _parquet(folder: Path, place: Place) -> None:
    (folder / "scores.csv").write_bytes(shards.shard(place.data()).read_bytes())


def _file(folder: Path, place: Place) -> None:
    """A file in the place of the folder."""
    del place
    for path in folder.iterdir():
        path.unlink()
    folder.rmdir()
    folder.write_bytes(b"x")


_ODD = f"{ESCAPES}\u202e{SCRIPT}"
_NUMBERS = ("nan", "inf", "-inf", "1e400", "0x1p3", "1_000", "", " ", "1,5", "9" * 5000, "\u0661\ud800", "1\0")
_SUBMITTED: tuple[tuple[str, str, SpoilFolder, Expected, Harm], ...] = (
    ("129a", "columns of another file", content("scores.csv", "id,value\n1,2\n"), "refused", no_harm),
    ("129b", "a program twice", content("scores.csv", _SCORES + _SCORES.splitlines()[1] + "\n"), "refused", no_harm),
    ("129c", "a column twice", content("scores.csv", _SCORES.replace("score", "score,score", 1)), "refused", no_harm),
    ("129d", "a file of Parquet under the name scores.csv", _parquet, "refused", no_harm),
    ("129e", "six million rows", _rows(6_000_000), "refused", no_harm),
    ("129f", "scores.csv of 1 GiB of holes", holes("scores.csv", GIB), "refused", no_harm),
    ("129g", "scores.csv with a line of 1 GiB", holes("scores.csv", GIB, _SCORES.encode()), "refused", no_harm),
    ("129h", "a quoted text that never ends", content("scores.csv", _SCORES + '"' + "\n" * (50 << 20)), "refused",
     no_harm),
    ("129i", "scores.csv is a named pipe", pipe("scores.csv"), "refused", no_harm),
    ("129j", "about.json is a named pipe", pipe("about.json"), "refused", no_harm),
    ("129k", "scores.csv is a link to the user's own file", link("scores.csv"), "refused", seen),
    ("129l", "pickles under both names", _pickled, "refused", writes("canary")),
    ("129m", "about.json nested 100,000 deep", content("about.json", deep(100_000)), "refused", no_harm),
    ("129n", "a model whose name a terminal obeys", about(model=_ODD), "either", reaches_terminal),
    ("129o", "a model with half a letter as its name", about(model="\ud800"), "either", reaches_terminal),
    ("129p", "ids that a terminal obeys", content("scores.csv", _SCORES + f"{ESCAPES},\u202e{ESCAPES},1\n"), "refused",
     reaches_terminal),
    ("129q", "a file in the place of the folder", _file, "refused", no_harm),
)  # fmt: skip


def _claims(folder: Path, place: Place) -> None:
    """Figures of its own in the place of those that the scorer computes."""
    about(top_1=77.5, pairwise=77.5, top_5=77.5, by_workload={"top_1": [77.5]}, latencies_sha256="77.5")(folder, place)


def task(spoil: SpoilFolder, model: str = "amd-epyc-zen5-2c-gbt", *, sign: bool = True,
         **changes: Callable[[dict[str, Any]], object]) -> Callable[[Place], Command]:  # fmt: skip
    """Scores the programs of a task that somebody has spoilt.

    Args:
        spoil: What is done to its folder.
        model: The model that scores.
        sign: Whether `task.json` has the hash of the spoilt programs.
        changes: What is done to `task`, and to each of its `programs` and `workloads`, before they are written.
    """

    def make(place: Place) -> Command:
        data, folder = place.data(), place.folder / "task"
        folder.mkdir()
        names = ("device_id", "workload_id", "program_id", "target", "trace")
        programs = [{name: row[name] for name in names} for row in shards.read(data)]
        workloads = shards.read(data, "workloads")
        devices = {row["device_id"]: row for row in shards.read(data, "devices")}
        described = {"version": 1, "name": "task", "devices": {DEVICE: devices[DEVICE]}}
        for rows, name in ((programs, "programs"), (workloads, "workloads"), ([described], "task")):
            for row in rows if name in changes else ():
                changes[name](row)
        for rows, name in ((programs, "programs"), (workloads, "workloads")):
            lines = "".join(json.dumps(row, default=str) + "\n" for row in rows)
            (folder / f"{name}.jsonl").write_text(lines.replace("CANARY", str(place.canary)))
        (folder / "task.json").write_text("")
        spoil(folder, place)
        if not (folder / "task.json").read_bytes():
            described["programs_sha256"] = _hash(folder / "programs.jsonl") if sign else "0" * 64
            (folder / "task.json").write_text(json.dumps(described, default=str))
        return place.costhub("bench", "submit", folder, "--model", model, "--out", place.folder / "out")

    return make


def _hash(path: Path) -> str:
    if not path.is_file():
        return "0" * 64
    digest = hashlib.sha256()
    with path.open("rb") as file:
        while piece := file.read(1 << 24):
            digest.update(piece)
    return digest.hexdigest()


def _nothing(folder: Path, place: Place) -> None:
    del folder, place


def _many_programs(folder: Path, place: Place) -> None:
    """A million programs, each with its own id and nothing else of its own."""
    del place
    path = folder / "programs.jsonl"
    row = json.loads(path.read_text().splitlines()[0]) | {"trace": "[[],[]]", "program_id": "XXXX"}
    line = json.dumps(row)
    with path.open("w") as file:
        file.writelines(line.replace("XXXX", str(number)) + "\n" for number in range(1_000_000))


_ANY = "any-cpu-conditioned"


def _of_device(**values: Any) -> Callable[[Place], Command]:
    """A task whose device has other values, for a model that scores by what a device can do."""
    return task(_nothing, _ANY, task=lambda described: described["devices"][DEVICE].update(values))


_AIMED = '[[["Split",["l0",-1,4611686018427387904],[true,true],["l1","l2"]]],[[0,[1,2]],[1000000,[0]]]]'
_TASKS: tuple[tuple[str, str, Callable[[Place], Command], Expected, Harm], ...] = (
    ("130a", "traces aimed at TVM", task(_nothing, programs=lambda row: row.update(trace=_AIMED)), "either", no_harm),
    ("130b", "workloads that call the system",
     task(_nothing, workloads=lambda row: row.update(module_json=calling_module())), "either", writes("canary")),
    ("130c", "a device whose cores are text", _of_device(cores="x", kind="cpu"), "either",
     no_harm),
    ("130d", "a device whose cores have 400 digits", _of_device(cores=10**400), "either",
     no_harm),
    ("130e", "a device whose figures are lists", _of_device(peak_gflops=[1], simd_bits={}),
     "either", no_harm),
    ("130f", "a device whose kind is a list", _of_device(kind=["cpu"], isa_features=7),
     "either", no_harm),
    ("130g", "task.json of 400 MB of brackets", task(content("task.json", b"[" + b"[]," * (130 << 20) + b"0]")),
     "refused", no_harm),
    ("130h", "programs.jsonl of 1 GiB of holes", task(holes("programs.jsonl", GIB)), "refused", no_harm),
    ("130i", "workloads.jsonl of 1 GiB of holes", task(holes("workloads.jsonl", GIB)), "refused", no_harm),
    ("130j", "a million programs", task(_many_programs), "either", no_harm),
    ("130k", "programs of another hash", task(_nothing, sign=False), "refused", no_harm),
    ("130l", "programs.jsonl is a named pipe", task(pipe("programs.jsonl")), "refused", no_harm),
    ("130m", "workloads.jsonl is a link to the user's own file", task(link("workloads.jsonl")), "refused", seen),
    ("130n", "names that a terminal obeys", task(_nothing, task=lambda t: t.update(name=_ODD)), "either",
     reaches_terminal),
    ("130o", "workloads whose names and networks are objects",
     task(_nothing, workloads=lambda row: row.update(name={"a": 1}, networks=[7], operator=[])), "either", no_harm),
    ("130p", "a target of a kind that TVM does not know",
     task(_nothing, programs=lambda row: row.update(target='{"kind": "\\u001b[2J"}')), "either", reaches_terminal),
)  # fmt: skip


def attempts() -> Iterator[Attempt]:
    """Kinds 129 and 130."""
    for kind, what, spoil, expected, harm in _SUBMITTED:
        yield Attempt(kind, FAMILY, f"bench score, {what}", scored(spoil), expected, harm=harm, limit_s=60,
                      quick=kind in ("129c", "129n"))  # fmt: skip
    for number, text in enumerate(_NUMBERS, start=1):
        made = scored(content("scores.csv", _SCORES.replace(",3\n", f",{text}\n")))
        right: Expected = "either" if text == "1_000" else "refused"
        what = f"bench score, the score {text[:12]!r}"
        yield Attempt(f"129r{number:02}", FAMILY, what, made, right, harm=reaches_terminal)
    what = "bench score --json, a submission that claims its own figures"
    yield Attempt("129s", FAMILY, what, scored(_claims, "--json"), "accepted", harm=says("77.5"))
    for kind, what, made, expected, harm in _TASKS:
        yield Attempt(kind, FAMILY, f"bench submit, a task with {what}", made, expected, harm=harm, limit_s=120)
