"""Hostile networks, device files, data and seeds, for compile, estimate and bench search (kinds 133 to 135)."""

from __future__ import annotations

import io
import json
import math
import os
import pickle
import zipfile
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

from scripts.bench.common.data import DEVICE
from scripts.bench.security import shards
from scripts.bench.security.attempt import Attempt, Expected, no_harm, writes
from scripts.bench.security.data import ESCAPES
from scripts.bench.security.exchange.databases import Harm, calling_module
from scripts.bench.security.exchange.earlier_results import SOFTMAX
from scripts.bench.security.exchange.submissions import FAMILY, GIB
from scripts.bench.security.imports import CIRCLE, exported
from scripts.bench.security.models import TERABYTE, RunsCode, deep
from scripts.bench.security.names import SCRIPT, reaches_terminal
from scripts.bench.security.place import Command, Place

MakeFile = Callable[[Path, Place], object]
_OUT = ("--model", "amd-epyc-zen5-2c", "--source", "model", "--pool", 4)


def compiled(name: str, write: MakeFile) -> Callable[[Place], Command]:
    """Compiles a file that somebody else has written."""

    def make(place: Place) -> Command:
        path = place.folder / name
        write(path, place)
        return place.costhub("compile", path, *_OUT, "--out", place.folder / "out")

    return make


def estimated(name: str, write: MakeFile) -> Callable[[Place], Command]:
    """Estimates a file that somebody else has written."""

    def make(place: Place) -> Command:
        path = place.folder / name
        write(path, place)
        return place.costhub("estimate", path, "--device", "amd-epyc-zen5-2c")

    return make


def _text(text: str) -> MakeFile:
    return lambda path, place: path.write_text(text.replace("CANARY", str(place.canary)), encoding="utf-8")


def _calling(path: Path, place: Place) -> None:
    """A workload that calls the system; made only when it is needed, since TVM makes it."""
    _text(calling_module())(path, place)


def _sparse(size: int, first: bytes = b"") -> MakeFile:
    def write(path: Path, place: Place) -> None:
        del place
        with path.open("wb") as file:
            file.write(first)
            file.truncate(size)

    return write


def _archive(add: Callable[[zipfile.ZipFile, str, Place], object], *, compress: bool = False) -> MakeFile:
    """An exported network to whose archive somebody has added something."""

    def write(path: Path, place: Place) -> None:
        how = zipfile.ZIP_DEFLATED if compress else zipfile.ZIP_STORED
        with zipfile.ZipFile(io.BytesIO(exported())) as old, zipfile.ZipFile(path, "w", how) as new:
            for entry in old.infolist():
                new.writestr(entry.filename, old.read(entry))
            add(new, old.namelist()[0].partition("/")[0], place)

    return write


def _zeros(archive: zipfile.ZipFile, folder: str, place: Place) -> None:
    """Two gigabytes in two megabytes."""
    del place
    with archive.open(f"{folder}/data/weights/weight_9", "w", force_zip64=True) as file:
        for _ in range(64):
            file.write(bytes(32 << 20))


def _named(archive: zipfile.ZipFile, folder: str, place: Place) -> None:
    for name in ("../canary", f"{folder}/../../canary", str(place.canary), f"{folder}/{ESCAPES}"):
        archive.writestr(name, b"x")


def _code(archive: zipfile.ZipFile, folder: str, place: Place) -> None:
    archive.writestr(f"{folder}/data/aotinductor/model/run.py", f"open({str(place.canary)!r}, 'w')")


def _sample_inputs(archive: zipfile.ZipFile, folder: str, place: Place) -> None:
    """A second file under the name of one that is there."""
    archive.writestr(f"{folder}/data/sample_inputs/model.pt", pickle.dumps(RunsCode(place.canary)))


def _no_space(name: str) -> MakeFile:
    def write(path: Path, place: Place) -> None:
        del place
        path.write_text(json.dumps({"root_index": 1, "nodes": [{"type": "None"}, {"type": name, "data": {}}]}))

    return write


_FILES: tuple[tuple[str, str, str, MakeFile, Expected, Harm], ...] = (
    ("133a", "2 GB in a compressed archive", "net.pt2", _archive(_zeros, compress=True), "refused", no_harm),
    ("133b", "names above the archive", "net.pt2", _archive(_named), "refused", writes("canary")),
    ("133c", "compiled code in the archive", "net.pt2", _archive(_code), "refused", writes("canary")),
    ("133d", "a file twice in the archive, one a pickle", "net.pt2", _archive(_sample_inputs), "refused",
     writes("canary")),
    ("133e", "1 TB of holes", "net.pt2", _sparse(TERABYTE, b"PK\3\4"), "refused", no_harm),
    ("133f", "a pickle", "net.pt2", lambda path, place: path.write_bytes(pickle.dumps(RunsCode(place.canary))),
     "refused", writes("canary")),
    ("133g", "a named pipe", "net.pt2", lambda path, place: os.mkfifo(path), "refused", no_harm),
    ("133h", "a named pipe", "w.json", lambda path, place: os.mkfifo(path), "refused", no_harm),
    ("133i", "1 TB of holes", "w.json", _sparse(TERABYTE), "refused", no_harm),
    ("133j", "1 GiB of holes behind a word of TVM", "w.json", _sparse(GIB, b'{"nodes":['), "refused", no_harm),
    ("133k", "nodes in a circle", "w.json", _text(CIRCLE), "refused", no_harm),
    ("133l", "nodes nested 100,000 deep", "w.json", _text('"nodes"' + deep(100_000)), "refused", no_harm),
    ("133m", "an object of a type that runs", "w.json", _no_space("ffi.Function"), "refused", no_harm),
    ("133n", "a link to /dev/zero", "w.json", lambda path, place: path.symlink_to("/dev/zero"), "refused", no_harm),
    ("133o", "an ONNX model", "net.onnx", lambda path, place: path.write_bytes(b"\x08\x07\x12" + bytes(99)), "refused",
     no_harm),
    ("133p", "a name that a terminal obeys", f"{ESCAPES}.pt2", _text("x"), "refused", reaches_terminal),
)  # fmt: skip


def device(**values: Any) -> str:
    """The file of a device, with other values."""
    row = {"device_id": "board", "kind": "cpu", "cores": 4, "simd_bits": 256, "peak_gflops": 100.0, "dram_gbs": 20.0}
    row |= {"l1d_bytes": 32768, "l2_bytes": 1 << 20, "l3_bytes": 1 << 24, "model_name": "x", "isa_features": ["avx2"]}
    row |= {"target": json.dumps({"kind": "llvm", "mtriple": "x86_64-linux-gnu", "num-cores": 4})}
    return json.dumps({**row, **values})


def described(words: str, write: str | MakeFile) -> Callable[[Place], Command]:
    """Runs a verb for a device that somebody else's file describes; DEVICE is the file."""

    def make(place: Place) -> Command:
        path = place.folder / "board.json"
        _text(write)(path, place) if isinstance(write, str) else write(path, place)
        names = {"DEVICE": path, "OUT": place.folder / "out"}
        return place.costhub(*(names.get(word, word) for word in words.split()))

    return make


def _target(**values: Any) -> str:
    return json.dumps({"kind": "llvm", "mtriple": "x86_64-linux-gnu", "num-cores": 4, **values})


ESTIMATE = f"estimate {SOFTMAX} --device DEVICE"
NETWORK = "estimate bert_tiny --device DEVICE"
COMPILE = f"compile {SOFTMAX} --device DEVICE --source model --pool 4 --out OUT"
_TINY = 5e-324
_DEVICES: tuple[tuple[str, str, str, str | MakeFile, Expected], ...] = (
    ("134a", "a named pipe", ESTIMATE, lambda path, place: os.mkfifo(path), "refused"),
    ("134b", "a link to /dev/zero", ESTIMATE, lambda path, place: path.symlink_to("/dev/zero"), "refused"),
    ("134c", "lists nested 100,000 deep", ESTIMATE, deep(100_000), "refused"),
    ("134d", "cores of 400 digits", ESTIMATE, device(cores=10**400), "either"),
    ("134e", "caches of 400 digits", ESTIMATE, device(l2_bytes=10**400, simd_bits=10**400), "either"),
    ("134f", "figures next to zero", ESTIMATE, device(cores=_TINY, peak_gflops=_TINY, dram_gbs=_TINY), "either"),
    ("134g", "figures next to infinity", ESTIMATE, device(peak_gflops=1.7e308, dram_gbs=1.7e308), "either"),
    ("134h", "figures that are NaN", ESTIMATE, device(peak_gflops=math.nan), "refused"),
    ("134i", "texts that are objects", ESTIMATE, device(vendor={"a": 1}, microarchitecture=[1], driver=7), "either"),
    ("134j", "a kind that is HTML and escapes", ESTIMATE, device(kind=f"{SCRIPT}{ESCAPES}"), "either"),
    ("134k", "a name above the folder", COMPILE, device(device_id="../../x"), "refused"),
    ("134l", "a target that a terminal obeys", COMPILE, device(target=_target(mcpu=f"{ESCAPES}x")), "either"),
    ("134m", "a target with options of LLVM", COMPILE,
     device(target=_target(**{"cl-opt": ["-load=CANARY.so", "-print-after-all"]})), "either"),
    ("134n", "a target with a path as its machine", COMPILE, device(target=_target(mtriple="../../x-linux-gnu")),
     "either"),
    ("134r", "a target with a path as its machine", NETWORK, device(target=_target(mtriple="../../x-linux-gnu")),
     "either"),
    ("134s", "a target with options of LLVM", NETWORK, device(target=_target(**{"cl-opt": ["-load=CANARY.so"]})),
     "either"),
    ("134t", "a target that a terminal obeys", NETWORK, device(target=_target(mcpu=f"{ESCAPES}x")), "either"),
    ("134o", "10^9 cores", COMPILE, device(target=_target(**{"num-cores": 10**9})), "either"),
    ("134p", "cores of 400 digits in the target", COMPILE, device(target=_target(**{"num-cores": 10**400})), "either"),
    ("134q", "a target of many attributes", COMPILE, device(target=_target(mattr=["+x"] * 50_000)), "either"),
)  # fmt: skip


def _aimed(place: Place) -> Command:
    """Schedules that claim to be the fastest, with decisions that crash TVM or make programs of 2^40 loops."""
    folder = place.data()
    rows = shards.read(folder)
    for number, row in enumerate(rows):
        instructions, decisions = json.loads(row["trace"])
        odd: Any = ([1 << 40, 1 << 40], 10**9, -(10**9), [0, 0], [], None, "x", 1.5)[number % 8]
        row["trace"] = json.dumps([instructions, [[place, odd] for place, _ in decisions] + [[10**6, [1, 2]]]])
        row["run_s"] = [1e-12]
    shards.write(folder, rows)
    out = place.folder / "out"
    return place.costhub("compile", SOFTMAX, "--device", DEVICE, "--data", folder, "--pool", 4, "--out", out)


def _searched(place: Place) -> Command:
    """Replayed searches of workloads whose ids lead out of the folder of results."""
    folder = place.data()
    shards.rename(folder, "workloads", "workload_id", "../../../../canary")
    words = ("--strategy", "random", "--model", "none", "--data", folder, "--t4", place.folder / "out" / "t4")
    return place.costhub("bench", "search", *words, "--all")


def _seeded(seed: str) -> Callable[[Place], Command]:
    def make(place: Place) -> Command:
        return place.costhub("compile", SOFTMAX, *_OUT, "--seed", seed, "--out", place.folder / "out")

    return make


def attempts() -> Iterator[Attempt]:
    """Kinds 133 to 135."""
    for kind, what, name, write, expected, harm in _FILES:
        title = f"compile {Path(name).suffix}, {what}"
        quick = kind == "133f"
        yield Attempt(kind, FAMILY, title, compiled(name, write), expected, harm=harm, limit_s=120, quick=quick)
    made = estimated("w.json", _calling)
    what = "estimate .json, a workload that calls the system"
    yield Attempt("133q", FAMILY, what, made, "either", harm=writes("canary"), limit_s=60)
    for kind, what, words, text, expected in _DEVICES:
        harm = writes("canary") if kind == "134m" else reaches_terminal
        title = f"{words.split()[0]} --device FILE, {what}"
        yield Attempt(kind, FAMILY, title, described(words, text), expected, harm=harm, limit_s=120)
    what = "compile --data D, decisions aimed at TVM"
    yield Attempt("135a", FAMILY, what, _aimed, "either", harm=reaches_terminal, limit_s=120)
    what = "bench search --t4, workloads whose ids lead out of the folder"
    yield Attempt("135b", FAMILY, what, _searched, "either", harm=writes("canary"), limit_s=60)
    for letter, seed in zip("cde", ("-1", str(1 << 70), "9" * 5000), strict=True):
        title = f"compile --seed {seed[:24]}"
        yield Attempt(f"135{letter}", FAMILY, title, _seeded(seed), "either", harm=no_harm, limit_s=60)
