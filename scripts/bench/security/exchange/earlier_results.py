"""Hostile folders of earlier results, into which tune and compile write (kind 128)."""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

from scripts.bench.security.attempt import Attempt, Expected, no_harm
from scripts.bench.security.data import ESCAPES
from scripts.bench.security.exchange.databases import Harm, harmed, secret_changed, with_calling_layout, with_record
from scripts.bench.security.exchange.logs import FAMILY
from scripts.bench.security.imports import CIRCLE, RECORDS, WORKLOADS, database, workload_line
from scripts.bench.security.models import TERABYTE, deep
from scripts.bench.security.names import SCRIPT, in_reports, reaches_terminal
from scripts.bench.security.place import Answer, Command, Place

SpoilResults = Callable[[Path, list[bytes], Place], list[bytes] | None]
SOFTMAX = "softmax.64x1000"
TUNE = f"tune {SOFTMAX} --trials 2 --model amd-epyc-zen5-2c --out OUT"
COMPILE = f"compile {SOFTMAX} --model amd-epyc-zen5-2c --source model --pool 4 --out OUT"


def into(words: str, spoil: SpoilResults) -> Callable[[Place], Command]:
    """Runs a verb that goes on in a folder with a sound database, after somebody has spoilt the folder."""

    def make(place: Place) -> Command:
        out = place.folder / "out"
        lines = spoil(out, database(out, place.data()), place)
        if lines is not None:
            (out / RECORDS).write_bytes(b"".join(line + b"\n" for line in lines))
        return place.costhub(*(out if word == "OUT" else word for word in words.split()))

    return make


def without_database(spoil: Callable[[Path, Place], object]) -> SpoilResults:
    """The folder holds no database, but what `spoil` writes."""

    def spoilt(out: Path, lines: list[bytes], place: Place) -> None:
        del lines
        (out / WORKLOADS).unlink()
        spoil(out, place)

    return spoilt


def page_obeys(place: Place, answer: Answer) -> str:
    """A harm: a script is in a report, or an escape is in what the terminal gets."""
    return in_reports(SCRIPT)(place, answer) or reaches_terminal(place, answer)


def _line(line: bytes) -> SpoilResults:
    return lambda out, lines, place: [lines[0], line, *lines[1:]]


def _decisions(decisions: list[Any]) -> SpoilResults:
    """A record whose trace has such decisions, some of which crash TVM."""

    def spoil(out: Path, lines: list[bytes], place: Place) -> list[bytes]:
        del out, place
        instructions, _ = json.loads(lines[0])[1][0]
        return [*lines, with_record(lines[0], trace=[instructions, decisions])]

    return spoil


def _other(**parts: Any) -> SpoilResults:
    """One more record, with another trace or target."""
    return lambda out, lines, place: [*lines, with_record(lines[0], **parts)]


def _pipe(name: str) -> SpoilResults:
    def spoil(out: Path, lines: list[bytes], place: Place) -> list[bytes] | None:
        del place
        (out / name).unlink(missing_ok=True)
        os.mkfifo(out / name)
        return None if name == RECORDS else lines

    return spoil


def _link(name: str, target: str = "") -> SpoilResults:
    """A link in the place of a file; to the user's own file by default."""

    def spoil(out: Path, lines: list[bytes], place: Place) -> list[bytes] | None:
        (out / name).parent.mkdir(exist_ok=True)
        (out / name).unlink(missing_ok=True)
        (out / name).symlink_to(target or place.secret)
        return None if name == RECORDS else lines

    return spoil


def _linked_pictures(out: Path, lines: list[bytes], place: Place) -> list[bytes]:
    """The folder of the pictures is a link to a folder of the user's."""
    (out / "plots").symlink_to(place.secret.parent)
    return lines


def picture_elsewhere(place: Place, answer: Answer) -> str:
    """A harm: pictures are in a folder of the user's."""
    found = list(place.secret.parent.glob("*.svg"))
    return f"{found[0].name} was written elsewhere" if found else secret_changed(place, answer)


def _circle(out: Path, lines: list[bytes], place: Place) -> list[bytes]:
    """A second workload whose nodes name one another in a circle."""
    del place
    with (out / WORKLOADS).open("ab") as file:
        file.write(workload_line(CIRCLE.encode()) + b"\n")
    return lines


def _sparse(out: Path, lines: list[bytes], place: Place) -> None:
    del lines, place
    with (out / RECORDS).open("wb") as file:
        file.truncate(TERABYTE)


def tuned(**values: Any) -> SpoilResults:
    """A report of an earlier search, with other values."""

    def spoil(out: Path, lines: list[bytes], place: Place) -> list[bytes]:
        del place
        row = {"workload": "w", "trials": 1, "failures": 0, "seconds": 1.0, "untuned_us": 9.0, "best_us": 5.0}
        row |= {"curve": [[1, 1.0, 5.0]]}
        report = {"version": 1, "device": "cpu0", "model": "m", "method": "frozen", "database": "out"}
        whole = {**report, "workloads": [row], "networks": [], "created": "2026-01-01T00:00:00+00:00", **values}
        (out / "report.json").write_text(json.dumps(whole))
        return lines

    return spoil


def _compiled(**values: Any) -> SpoilResults:
    """A report of an earlier compilation, with other values."""

    def write(out: Path, place: Place) -> None:
        text = json.dumps({"costhub": "compile report", "version": 1, "workloads": [], "networks": [], **values})
        (out / "report.json").write_text(text.replace("SECRET", str(place.secret)))

    return without_database(write)


def _library(name: Any) -> SpoilResults:
    return _compiled(workloads=[{"workload": "w", "library": name}])


_HOSTILE = f"{ESCAPES}{SCRIPT}"
_NAMED = {name: _HOSTILE for name in ("device", "model", "method", "command", "model_reason", "machine")}
_ROW = {"workload": _HOSTILE, "trials": 1, "failures": 0, "seconds": 1.0, "untuned_us": 9.0, "best_us": 5.0}
_NETWORK = {"network": _HOSTILE, "error": _HOSTILE, "library": _HOSTILE}
_POSTPROC: list[Any] = [[["EnterPostproc", [CIRCLE], [], []]], []]
_LOOPS: list[Any] = [["AddUnitLoop", ["b0"], [], [f"l{number}"]] for number in range(20_000)]
_ENDLESS: list[Any] = [[["GetSBlock", [], ["T_softmax_norm", "main"], ["b0"]], *_LOOPS], []]
_OPTIONS = {"kind": "llvm", "num-cores": 2, "cl-opt": ["-print-after-all"]}
_OBEYED = {"kind": "llvm", "mtriple": "aarch64-linux-gnu", "mcpu": ESCAPES, "num-cores": 2}
_TUNED: tuple[tuple[str, str, SpoilResults, Expected, Harm], ...] = (
    ("128a", "a decision of no instruction", _decisions([[10**6, [1, 2]]]), "either", no_harm),
    ("128b", "tiles of size 0", _decisions([[n, [0, 0, 0, 0]] for n in range(12)]), "either", no_harm),
    ("128c", "a choice among none", _decisions([[n, 10**9] for n in range(40)]), "either", no_harm),
    ("128d", "a blank line among the records", _line(b""), "either", no_harm),
    ("128e", "a line that is JSON and no record", _line(b"{}"), "either", no_harm),
    ("128f", "a record of a workload that is not there", _line(b"[9, [[[], []], [1.0], {}, []]]"), "either", no_harm),
    ("128g", "a line nested 100,000 deep", _line(deep(100_000).encode()), "either", no_harm),
    ("128h", "records that are a named pipe", _pipe(RECORDS), "refused", no_harm),
    ("128i", "workloads that are a named pipe", _pipe(WORKLOADS), "refused", no_harm),
    ("128j", "records of 1 TB of holes", _sparse, "refused", no_harm),
    ("128k", "records that are a link to the user's own file", _link(RECORDS), "refused", secret_changed),
    ("128l", "workloads that are a link to the user's own file", _link(WORKLOADS), "refused", secret_changed),
    ("128m", "records that are a link to /dev/zero", _link(RECORDS, "/dev/zero"), "refused", no_harm),
    ("128n", "a lock that is a link to the user's own file", _link(".lock"), "refused", secret_changed),
    ("128o", "a report that is a named pipe", _pipe("report.json"), "refused", no_harm),
    ("128p", "a report that is a link to /dev/zero", _link("report.json", "/dev/zero"), "refused", no_harm),
    ("128q", "a report whose texts a terminal or a browser obeys", tuned(**_NAMED), "either", page_obeys),
    ("128r", "a report whose kernels a browser obeys",
     tuned(workloads=[{**_ROW, "curve": [[1, 1.0, 5.0]]}], networks=[_NETWORK]), "either", page_obeys),
    ("128aa", "a workload whose nodes name one another in a circle", _circle, "either", no_harm),
    ("128s", "a report whose page is a link to the user's own file", _link("report.html"), "either", secret_changed),
    ("128ab", "a schedule about itself, in a circle", _other(trace=_POSTPROC), "refused", no_harm),
    ("128ac", "a schedule of 20,000 loops of one step", _other(trace=_ENDLESS), "either", no_harm),
    ("128ad", "a record whose target has options of LLVM", _other(target=_OPTIONS), "refused", no_harm),
    ("128ae", "a record whose target hides its options of LLVM in the text of its host",
     _other(target={"kind": "llvm", "host": json.dumps(_OPTIONS)}), "refused", no_harm),
    ("128af", "a record whose target a terminal obeys", _other(target=_OBEYED), "refused", reaches_terminal),
    ("128ag", "an unfinished report that is a link to the user's own file", _link("report.md.part"), "either",
     secret_changed),
    ("128ah", "an unfinished report that is a named pipe", _pipe("report.md.part"), "either", no_harm),
    ("128ai", "a picture that is a link to the user's own file", _link("plots/kernels.svg"), "either", secret_changed),
    ("128aj", "pictures whose folder is a link to a folder of the user's", _linked_pictures, "refused",
     picture_elsewhere),
    ("128ak", "a schedule with a layout whose padding calls the system", with_calling_layout, "refused", harmed),
)  # fmt: skip
_COMPILED: tuple[tuple[str, str, SpoilResults, Expected, Harm], ...] = (
    ("128t", "a report whose workloads are numbers", _compiled(workloads=[1, None, "x"]), "either", no_harm),
    ("128u", "a report without lists", _compiled(workloads=None, networks=7), "either", no_harm),
    ("128v", "a report whose library is the user's own file", _library("SECRET"), "either", secret_changed),
    ("128w", "a report whose library is the folder above", _library("x/.."), "either", no_harm),
    ("128x", "a report whose library is no text", _library([7]), "either", no_harm),
    ("128y", "a report whose library has a NUL", _library("a\0b"), "either", no_harm),
    ("128z", "a library that is a link to the user's own file",
     without_database(lambda out, place: (out / f"{SOFTMAX}.so").symlink_to(place.secret)), "either", secret_changed),
)  # fmt: skip


def attempts() -> Iterator[Attempt]:
    """Kind 128."""
    for words, tried in ((TUNE, _TUNED), (COMPILE, _COMPILED)):
        for kind, what, spoil, expected, harm in tried:
            verb = words.split()[0]
            yield Attempt(kind, FAMILY, f"{verb} --out, {what}", into(words, spoil), expected, harm=harm,
                          limit_s=240 if kind == "128ac" else 120)  # fmt: skip
