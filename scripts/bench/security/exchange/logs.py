"""Hostile logs of Ansor (kind 123)."""

from __future__ import annotations

import gzip
import json
import lzma
import os
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

from scripts.bench.security.attempt import Attempt, Expected, holds, lacks, says
from scripts.bench.security.data import ESCAPES
from scripts.bench.security.models import TERABYTE, deep
from scripts.bench.security.names import reaches_terminal
from scripts.bench.security.place import SECRET, Answer, Command, Place

FAMILY = "tuning folders and logs"
GPU = "nvidia-v100"
KEY = '["matmul_layer", 64, 32, 128]'
STEPS: list[list[Any]] = [
    ["CHW", 2, "local"],
    ["SP", 2, 0, 64, [2, 4, 2, 2], 1],
    ["SP", 2, 5, 128, [1, 8, 2, 2], 1],
    ["SP", 2, 10, 32, [4, 2], 1],
    ["RE", 2, [0, 5, 1, 6, 2, 7, 10, 11, 3, 8, 12, 4, 9]],
    ["FSP", 3, 0, 1, 3],
    ["FSP", 3, 4, 2, 3],
    ["RE", 3, [0, 4, 1, 5, 2, 6, 3, 7]],
    ["CA", 2, 3, 5],
    *(["CHR", 1, "shared", [2]], ["CA", 2, 3, 6], ["CHR", 0, "shared", [3]], ["CA", 1, 4, 6]),
    *(["FU", 5, [0, 1]], ["AN", 5, 0, 5], ["FU", 5, [1, 2]], ["AN", 5, 1, 4], ["FU", 5, [2, 3]], ["AN", 5, 2, 6]),
    *(["FU", 3, [0, 1]], ["SP", 3, 0, 48, [4], 1], ["AN", 3, 1, 2], ["FFSP", 3, 0, [2, 1], 1, 1], ["AN", 3, 1, 6]),
    *(["FU", 1, [0, 1]], ["SP", 1, 0, 48, [2], 1], ["AN", 1, 1, 2], ["FFSP", 1, 0, [2, 1], 1, 1], ["AN", 1, 1, 6]),
    ["PR", 3, 0, "auto_unroll_max_step$64"],
]
"""A tiled program of `KEY`, as Ansor writes it."""
SOUND = 4
"""Records of a log that are good ones."""
_NAN, _INFINITE = float("nan"), float("inf")
_PART = 1 << 28
"""Bytes that one compressed part of a bomb stands for."""
_HELD = "XXXX"
"""A text in a line that gives way to bytes which `json` does not write."""


def record(number: int = 0, *, key: Any = KEY, steps: Any = STEPS, costs: Any = None, error: Any = 0,
           when: Any = None) -> bytes:  # fmt: skip
    """A line of a log; every number is a measurement of its own."""
    times = [1e-3 + number * 1e-6] if costs is None else costs
    result = [times, error, 1.0, 1637575039 + number if when is None else when]
    return json.dumps({"i": [[key, "cuda"], [[], steps]], "r": result, "v": "v0.6"}).encode()


def good_lines() -> list[bytes]:
    """The good records of a log."""
    return [record(number) for number in range(SOUND)]


def imports(place: Place, path: Path, *words: str) -> Command:
    """Imports a log, or a folder of logs."""
    out = place.folder / "out"
    return place.costhub("import", "ansor", path, "--device", GPU, "--out", out, "--workers", 1, *words)


def log(lines: Callable[[], list[bytes]]) -> Callable[[Place], Command]:
    """Imports a log in which hostile lines come before the good ones."""

    def make(place: Place) -> Command:
        path = place.folder / "a.log"
        path.write_bytes(b"\n".join([*lines(), *good_lines()]) + b"\n")
        return imports(place, path)

    return make


def _nested() -> list[bytes]:
    text, place = deep(100_000).encode(), f'"{_HELD}"'.encode()
    parts = [record(9, steps=_HELD), record(9, key=_HELD), record(9, costs=_HELD), record(9, when=_HELD)]
    return [text, *(line.replace(place, text) for line in parts), record(9, key=deep(400))]


def _nested_at_the_limit() -> list[bytes]:
    """Every depth at which one part of Python still reads, or writes, and the next does not."""
    line, place = record(9, steps=_HELD), f'"{_HELD}"'.encode()
    return [line.replace(place, deep(depth).encode()) for depth in range(880, 1020)]


def _keys() -> list[bytes]:
    texts = ['["d7b65649a4dd54becea0a52aabbc5af5"]', '"x"', "[]", "{}", "7", "[7]", '["__import__", "os"]']
    texts += ['["matmul_layer"]', '["matmul_layer", true, 1, 1]', '["matmul_layer", 1e3, 1, 1]']
    texts += ['["matmul_layer", -1, 1, 1]', '["matmul_layer", "64", 32, 128]', '["matmul_layer", [1], 1, 1]']
    texts += [f'["matmul_layer", 64, 32, {"9" * 4000}]', f'["matmul_layer", 64, 32, {"9" * 10**5}]']
    return [record(9, key=key) for key in (*texts, "x" * 10**5, 7, None, ["x"], {"a": 1})]


def _numbers() -> list[bytes]:
    place = f'"{_HELD}"'.encode()
    steps = [["SP", 2, 0, _HELD, [2, 4, 2, 2], 1] if step[:2] == ["SP", 2] else step for step in STEPS]
    lines = [record(9, costs=[_HELD]), record(9, error=_HELD), record(9, when=_HELD), record(9, steps=steps)]
    # Python reads up to 4,300 digits.
    lines += [record(9, key='["matmul_layer", XXXX, 1, 1]')]
    texts = [b"9" * count for count in (4000, 4301, 10**6 - 10**3)]
    return [line.replace(place, text).replace(_HELD.encode(), text) for line in lines for text in texts]


def _times() -> list[bytes]:
    costs: list[Any] = [
        [_NAN],
        [-1.0],
        [_INFINITE],
        [0],
        [True],
        ["1"],
        [],
        {},
        [1e-3, _NAN],
        [1e300],
        [[1]],
        {"a": 1},
        1e-3,
    ]
    errors: list[Any] = [-1, 99, 1.5, True, None, "0", [], 10**30]
    return [record(9, costs=each) for each in costs] + [record(9, error=each) for each in errors]


def _dates() -> list[bytes]:
    dates: list[Any] = [_NAN, 1e300, -1e300, 253402300799, -62135596800, "x", [], 10**18, {}, True, -1, 1e-320]
    return [record(100 + number, when=when) for number, when in enumerate(dates)]


def _steps() -> list[bytes]:
    found: list[Any] = [[], [[]], [["SP"]], ["SP"], [{}], [None], 7, "x", {}]
    found += [STEPS[:-1], [*STEPS, STEPS[-1]], STEPS[::-1]]
    for place, new in (
        (1, ["SP", 2, 0, 1 << 62, [1 << 61, 1, 1, 1], 1]),
        (1, ["SP", 2, 0, 64, [0, 4, 2, 2], 1]),
        (1, ["SP", 2, 0, 64, [-2, -4, 2, 2], 1]),
        (1, ["SP", 2, 0, 64, [1] * 100_000, 1]),
        (1, ["SP", 2, 0, -64, [2, 4, 2, 2], 1]),
        (1, ["SP", 2, 0, 64, [1 << 4000] * 4, 1]),
        (4, ["RE", 2, list(range(100_000))]),
        (10, ["CA", 2, 3, 1 << 40]),
        (9, ["CHR", 1 << 40, "shared", [2]]),
        (-1, ["PR", 3, 0, f"auto_unroll_max_step${1 << 62}"]),
        (-1, ["PR", 3, 0, "auto_unroll_max_step$x"]),
        (-1, ["PR", 3, 0, "pragma_import_llvm"]),
    ):
        changed = list(STEPS)
        changed[place] = new
        found.append(changed)
    return [record(9, steps=each) for each in found]


def _vast() -> list[bytes]:
    """Programs of 2^60 steps, and convolutions whose windows do not fit their images."""
    size = 1 << 20
    steps = json.loads(json.dumps(STEPS))
    for place, (extent, lengths) in {
        1: (size, [2, 4, 2, 2]),
        2: (size, [1, 8, 2, 2]),
        3: (size, [4, 2]),
    }.items():
        steps[place][3:5] = [extent, lengths]
    keys = [json.dumps(["conv2d_layer", *[size] * 8, "SAME"]), json.dumps(["conv2d_layer", *[1] * 5, size, 1, 1, 0])]
    keys.append(json.dumps(["depthwise_conv2d_layer", 1, size, size, size, size, size, size, size]))
    keys.append(json.dumps(["batch_matmul_layer", *[size] * 5]))
    return [record(9, key=json.dumps(["matmul_layer", *[size] * 3]), steps=steps), *(record(9, key=k) for k in keys)]


def _escapes() -> list[bytes]:
    both = f"{ESCAPES}\u202e\u009b31m"
    lines = [record(9, key=json.dumps([both, 1])), record(9, key=json.dumps(["matmul_layer", both, 1, 1]))]
    lines += [record(9, costs=[both]), record(9, steps=[["PR", 3, 0, both]]), both.encode()]
    return [*lines, json.dumps({"i": [[both, both], [[], []]], "r": both, "v": both}).encode()]


_LINES: tuple[tuple[str, str, Callable[[], list[bytes]], Expected, str], ...] = (
    ("123a", "a line of 200 MB", lambda: [b"x" * (200 << 20)], "accepted", "4 measurements of"),
    ("123b", "lists nested 100,000 deep", _nested, "accepted", "4 measurements of"),
    ("123c", "lists of every depth about the limit of Python", _nested_at_the_limit, "accepted", "4 measurements of"),
    ("123d", "keys that are hashes, code or no keys", _keys, "accepted", "4 measurements of"),
    ("123e", "whole numbers of a million digits", _numbers, "accepted", "5 measurements of"),
    ("123f", "times that are NaN, negative or text", _times, "accepted", "4 measurements of"),
    ("123g", "dates that no calendar has", _dates, "accepted", "16 measurements of"),
    ("123h", "steps that lead nowhere", _steps, "accepted", "4 measurements of"),
    ("123i", "programs of 2^60 steps", _vast, "accepted", ""),
    ("123j", "texts that a terminal obeys", _escapes, "accepted", "4 measurements of"),
)


def _bomb(name: str, letter: bytes, parts: int) -> Callable[[Place], Command]:
    """A compressed log that stands for far more than any log: one part, again and again."""

    def make(place: Place) -> Command:
        path = place.folder / name
        text = letter * _PART
        part = gzip.compress(text, 9) if path.suffix == ".gz" else lzma.compress(text, preset=1)
        with path.open("wb") as file:
            for _ in range(parts):
                file.write(part)
        return imports(place, path)

    return make


def _empty_streams(place: Place) -> Command:
    """An archive whose streams hold nothing: each takes 32 bytes, and longer to read than text."""
    path, part = place.folder / "a.log.xz", lzma.compress(b"") * (1 << 15)
    with path.open("wb") as file:
        for _ in range(100):
            file.write(part)
    return imports(place, path)


def _sparse(size: int) -> Callable[[Place], Command]:
    def make(place: Place) -> Command:
        path = place.folder / "a.log"
        with path.open("wb") as file:
            file.truncate(size)
        return imports(place, path)

    return make


def _linked(target: str) -> Callable[[Place], Command]:
    def make(place: Place) -> Command:
        path = place.folder / "a.log"
        path.symlink_to(target)
        return imports(place, path)

    return make


def _odd_folder(place: Place) -> Command:
    """A folder of good records beside everything that is no plain file."""
    folder = place.folder / "logs"
    folder.mkdir()
    (folder / "good.json").write_bytes(b"\n".join(good_lines()))
    os.mkfifo(folder / "pipe.json")
    (folder / "folder.json").mkdir()
    (folder / "loop").symlink_to(folder)
    (folder / "zero.log").symlink_to("/dev/zero")
    (folder / "secret.txt").symlink_to(place.secret)
    (folder / f"{ESCAPES}.json").write_bytes(b"x")
    (folder / "a\nb.json").write_bytes(b"x")
    return imports(place, folder)


def seen(place: Place, answer: Answer) -> str:
    """A harm: the user's own file is in the answer, or in what was written."""
    told = says(SECRET.decode())(place, answer)
    kept = [name for name in ("out", "cache", "clean") if holds(place.folder / name, SECRET)]
    return told or (f"{kept[0]} holds the user's own file" if kept else "") or reaches_terminal(place, answer)


def attempts() -> Iterator[Attempt]:
    """Kind 123."""
    for kind, what, lines, expected, told in _LINES:
        harm = reaches_terminal if kind == "123j" else lacks(told)
        yield Attempt(kind, FAMILY, f"import ansor, {what}", log(lines), expected, harm=harm, limit_s=120,
                      most_mb=1500, quick=kind == "123f")  # fmt: skip
    for kind, what, made in (
        ("123k", "20 GB of line breaks in 20 MB of gzip", _bomb("a.log.gz", b"\n", 80)),
        ("123l", "200 GB of zeros in 30 MB of xz", _bomb("a.log.xz", b"\0", 800)),
        ("123m", "a file of holes of 60 GB", _sparse(60 << 30)),
        ("123n", "a file of holes of 1 TB", _sparse(TERABYTE)),
        ("123o", "a link to /dev/zero", _linked("/dev/zero")),
        ("123q", "three million empty streams in 100 MB of xz", _empty_streams),
    ):
        yield Attempt(kind, FAMILY, f"import ansor, {what}", made, limit_s=60, most_mb=1000)
    what = "import ansor, pipes, devices, links and a loop beside a good log"
    yield Attempt("123p", FAMILY, what, _odd_folder, "accepted", harm=seen, limit_s=60)
