"""Hostile trees: XGBoost's binary JSON, garbled and with children, features and numbers out of range (15 to 22)."""

from __future__ import annotations

import json
import pickle
import struct
from collections.abc import Callable, Iterator
from pathlib import Path

from scripts.bench.security.attempt import Attempt, says
from scripts.bench.security.models import EVALUATE, RunsCode, Spoil, content_of, sealed, verb
from scripts.bench.security.place import Command, Place

FAMILY = "trees"
WEIGHTS = "model.ubj"
ROOT_PARENT = 2**31 - 1
FAR = 2_000_000_000


def typed(content: bytes, key: str) -> tuple[int, int]:
    """Where the numbers of the first typed array of that name begin, and how many there are."""
    at = content.index(struct.pack(">cq", b"L", len(key)) + key.encode() + b"[$")
    at += 9 + len(key) + 2
    count = struct.unpack(">q", content[at + 3 : at + 11])[0]
    return at + 11, count


def overwrite(key: str, number: int, value: float, *, form: str = ">i") -> Spoil:
    """Overwrites one number of an array of the first tree."""

    def spoil(folder: Path, place: Place) -> None:
        del place
        content = bytearray((folder / WEIGHTS).read_bytes())
        start, count = typed(bytes(content), key)
        size = struct.calcsize(form)
        at = start + size * (number % count)
        content[at : at + size] = struct.pack(form, value)
        (folder / WEIGHTS).write_bytes(content)

    return spoil


def everywhere(old: bytes, new: bytes) -> Spoil:
    """Replaces bytes throughout the file."""
    return lambda folder, place: (folder / WEIGHTS).write_bytes((folder / WEIGHTS).read_bytes().replace(old, new))


def chain(*spoils: Spoil) -> Spoil:
    """One after the other."""

    def spoil(folder: Path, place: Place) -> None:
        for each in spoils:
            each(folder, place)

    return spoil


def all_thresholds(value: float) -> Spoil:
    """Makes every threshold of the first tree the same number."""

    def spoil(folder: Path, place: Place) -> None:
        del place
        content = bytearray((folder / WEIGHTS).read_bytes())
        start, count = typed(bytes(content), "split_conditions")
        content[start : start + 4 * count] = struct.pack(">f", value) * count
        (folder / WEIGHTS).write_bytes(content)

    return spoil


def _garble(folder: Path, place: Place) -> None:
    import numpy as np

    del place
    content = bytearray((folder / WEIGHTS).read_bytes())
    rng = np.random.default_rng(0)
    for at in rng.integers(300, len(content), 20_000):
        content[at] = int(rng.integers(256))
    (folder / WEIGHTS).write_bytes(content)


NESTED = b"{" + struct.pack(">cq", b"L", 7) + b"learner" + b"[" * 2_000_000
OUT_OF_RANGE: tuple[tuple[str, str, Spoil], ...] = (
    ("a", "a left child far out of range", overwrite("left_children", 0, FAR)),
    ("b", "a right child far out of range", overwrite("right_children", 0, FAR)),
    ("c", "a feature far out of range", overwrite("split_indices", 0, FAR)),
    ("d", "a negative child", overwrite("left_children", 0, -7)),
    ("e", "two nodes that are each other's children", overwrite("left_children", 1, 0)),
    ("f", "a root that is its own child", overwrite("left_children", 0, 0)),
)
_GARBLED: tuple[tuple[str, str, Spoil], ...] = (
    ("15a", "20,000 bytes garbled", _garble),
    ("15b", "cut short", lambda f, p: (f / WEIGHTS).write_bytes((f / WEIGHTS).read_bytes()[:1_000_000])),
    ("15c", "a pickle under the name model.ubj", content_of(WEIGHTS, lambda p: pickle.dumps(RunsCode(p.canary)))),
    ("16a", "two million nested arrays", content_of(WEIGHTS, lambda p: NESTED)),
    ("16b", "a parent out of range", overwrite("parents", 1, FAR)),
    ("22a", "thresholds that are NaN", all_thresholds(float("nan"))),
)
_PREDICT = """
import numpy as np
from costhub import load_model
model = load_model({folder!r})[0]
rows = np.random.default_rng(0).random((64, {columns})).astype("float32")
print(model.predict(rows, np.full(16, 4)))
"""


def _evaluated(spoil: Spoil) -> Callable[[Place], Command]:
    return verb(EVALUATE, sealed(spoil))


def attempts() -> Iterator[Attempt]:
    """Kinds 15 to 22."""
    for kind, what, spoil in _GARBLED:
        yield Attempt(kind, FAMILY, f"check, {what}", verb("check M", sealed(spoil)), harm=says("sound gbt"))
    for letter, what, spoil in OUT_OF_RANGE:
        quick = letter == "a"
        yield Attempt(f"17{letter}", FAMILY, f"check, {what}", verb("check M", sealed(spoil)), quick=quick)
    for letter, what, spoil in OUT_OF_RANGE:
        yield Attempt(f"18{letter}", FAMILY, f"load and predict, {what}", _predicted(spoil))
    for letter, what, spoil in OUT_OF_RANGE:
        quick = letter == "a"
        yield Attempt(f"19{letter}", FAMILY, f"evaluate, {what}", verb(EVALUATE, sealed(spoil)), quick=quick)
    spoil = OUT_OF_RANGE[0][2]
    words = "tune matmul.256x256x256 --trials 4 --model ./m/ --out OUT"
    yield Attempt("20", FAMILY, "tune, a left child far out of range", verb(words, sealed(spoil)), limit_s=90)
    yield Attempt("21", FAMILY, "publish, a left child far out of range", _published(spoil))
    yield Attempt("22b", FAMILY, "evaluate, thresholds that are NaN", verb(EVALUATE, sealed(_GARBLED[-1][2])))


def _predicted(spoil: Spoil) -> Callable[[Place], Command]:
    def make(place: Place) -> Command:
        folder = place.model()
        sealed(spoil)(folder, place)
        columns = json.loads((folder / "config.json").read_text())["options"]["columns"]
        return place.python(_PREDICT.format(folder=str(folder), columns=columns), shown="load_model(M).predict(rows)")

    return make


def _published(spoil: Spoil) -> Callable[[Place], Command]:
    def make(place: Place) -> Command:
        sealed(spoil)(place.model(), place)
        (place.folder / "hub").mkdir()
        return place.costhub("publish", "m", "--to", place.folder / "hub", "--as", "a/m", "--yes")

    return make
