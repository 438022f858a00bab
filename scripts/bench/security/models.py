"""Hostile model folders: weights, JSON, names, pipes, links and sizes (kinds 1 to 14 and 23 to 27)."""

from __future__ import annotations

import json
import math
import os
import pickle
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

from costhub.hub.remote.manifest import MANIFEST, write_manifest
from scripts.bench.security.attempt import Attempt, holds, says, writes
from scripts.bench.security.place import GBT, MLP, SECRET, Answer, Command, Place

FAMILY = "models"
Spoil = Callable[[Path, Place], object]
TERABYTE = 1 << 40
WEIGHTS = "model.safetensors"


class RunsCode:
    """What a pickle holds that writes a file as soon as it is read."""

    def __init__(self, path: Path) -> None:
        self.path = path

    def __reduce__(self) -> tuple[Callable[..., Any], tuple[str, ...]]:
        return os.system, (f"touch {self.path}",)


def read_tensors(path: Path) -> tuple[dict[str, Any], bytearray]:
    """The header and the bytes of a file of tensors."""
    content = path.read_bytes()
    end = 8 + int.from_bytes(content[:8], "little")
    return json.loads(content[8:end]), bytearray(content[end:])


def write_tensors(path: Path, header: object, data: bytes) -> None:
    """Writes a file of tensors with any header."""
    text = header if isinstance(header, bytes) else json.dumps(header).encode()
    path.write_bytes(len(text).to_bytes(8, "little") + text + data)


def in_header(change: Callable[[dict[str, Any]], object]) -> Spoil:
    """Changes the header of the weights."""

    def spoil(folder: Path, place: Place) -> None:
        del place
        header, data = read_tensors(folder / WEIGHTS)
        change(header)
        write_tensors(folder / WEIGHTS, header, bytes(data))

    return spoil


def all_weights(value: float) -> Spoil:
    """Makes every weight the same number."""

    def spoil(folder: Path, place: Place) -> None:
        import numpy as np

        del place
        header, data = read_tensors(folder / WEIGHTS)
        for entry in (header[name] for name in header if name != "__metadata__"):
            start, end = entry["data_offsets"]
            if entry["dtype"] == "F32":
                data[start:end] = np.full(math.prod(entry["shape"]), value, "<f4").tobytes()
        write_tensors(folder / WEIGHTS, header, bytes(data))

    return spoil


def in_config(change: Callable[[dict[str, Any]], object], *, name: str = "config.json") -> Spoil:
    """Changes a JSON file of the folder."""

    def spoil(folder: Path, place: Place) -> None:
        del place
        content = json.loads((folder / name).read_text())
        change(content)
        (folder / name).write_text(json.dumps(content))

    return spoil


def text_of(name: str, make: Callable[[str], str]) -> Spoil:
    """Makes a text of the folder anew from the one there."""
    return lambda folder, place: (folder / name).write_text(make((folder / name).read_text()), encoding="utf-8")


def content_of(name: str, make: Callable[[Place], bytes]) -> Spoil:
    """Puts bytes in the place of a file."""
    return lambda folder, place: (folder / name).write_bytes(make(place))


def pipe(name: str) -> Spoil:
    """Puts a named pipe, for which nobody writes, in the place of a file."""

    def spoil(folder: Path, place: Place) -> None:
        del place
        (folder / name).unlink(missing_ok=True)
        os.mkfifo(folder / name)

    return spoil


def link(name: str, target: Callable[[Place], str | Path]) -> Spoil:
    """Puts a symbolic link in the place of a file."""

    def spoil(folder: Path, place: Place) -> None:
        (folder / name).unlink(missing_ok=True)
        (folder / name).symlink_to(target(place))

    return spoil


def sparse(name: str, size: int = TERABYTE, first: bytes = b"") -> Spoil:
    """A file of holes: it takes no space, and hours to read."""

    def spoil(folder: Path, place: Place) -> None:
        del place
        with (folder / name).open("wb") as file:
            file.write(first)
            file.truncate(size)

    return spoil


def sealed(spoil: Spoil) -> Spoil:
    """The same, with the manifest of a forger who has computed every hash again."""

    def both(folder: Path, place: Place) -> None:
        spoil(folder, place)
        write_manifest(folder)

    return both


def without_manifest(spoil: Spoil) -> Spoil:
    """The same in a folder that has no manifest."""

    def both(folder: Path, place: Place) -> None:
        (folder / MANIFEST).unlink()
        spoil(folder, place)

    return both


def verb(words: str, spoil: Spoil, *, base: str = GBT) -> Callable[[Place], Command]:
    """Makes a hostile model and runs a verb on it.

    Args:
        words: The verb with its options; M is the model, D a sound data folder, OUT a path that is free.
        spoil: What makes the model hostile.
        base: The embedded model that it begins as.
    """

    def make(place: Place) -> Command:
        folder = place.model(base)
        spoil(folder, place)
        names = {"M": folder, "D": place.data() if " D" in words else "", "OUT": place.folder / "out"}
        return place.costhub(*(names.get(word, word) for word in words.split()))

    return make


def copies_secret(place: Place, answer: Answer) -> str:
    """A harm: the user's own file is in what a stranger's folder made."""
    told = SECRET.decode() in answer.out + answer.err
    out = place.folder / "out"
    copied = told or (out.exists() and holds(out, SECRET)) or holds(place.folder / "cache", SECRET)
    return "the user's own file was copied" if copied else ""


def deep(depth: int) -> str:
    """JSON that nests so deep."""
    return "[" * depth + "]" * depth


EVALUATE = "evaluate M --data D --all"
_HEADERS: tuple[tuple[str, str, Spoil], ...] = (
    ("1", "a pickle under the name model.safetensors", content_of(WEIGHTS, lambda p: pickle.dumps(RunsCode(p.canary)))),
    ("2", "weights cut short", lambda f, p: os.truncate(f / WEIGHTS, 700_000)),
    ("3", "a header of 2^60 bytes", content_of(WEIGHTS, lambda p: (1 << 60).to_bytes(8, "little") + b"{" * 99)),
    ("4", "a tensor of a type that no model has", in_header(lambda h: h[_first(h)].update(dtype="BOOL"))),
    ("5", "weights that are NaN", all_weights(math.nan)),
    ("6", "weights of 3e38, whose sums overflow", all_weights(3e38)),
)
_JSON: tuple[tuple[str, str, Spoil], ...] = (
    ("7a", "a key twice in config.json", text_of("config.json", lambda t: t.replace("{", '{"arch": "mlp",', 1))),
    ("7b", "auto_map in config.json, which other libraries run", in_config(lambda c: c.update(auto_map={"a": "x.y"}))),
    ("7c", "config.json nested 100,000 deep", text_of("config.json", lambda t: deep(100_000))),
    (
        "7d",
        "a number of a million digits in config.json",
        text_of("config.json", lambda t: '{"seed":' + "9" * 10**6 + "}"),
    ),
    ("8a", "an architecture of another model's", in_config(lambda c: c.update(arch="treegru"))),
    ("8b", "os.system as the architecture", in_config(lambda c: c.update(arch="os.system"))),
    ("8c", "../../x as the architecture", in_config(lambda c: c.update(arch="../../x"))),
    ("9a", "options that ask for 10^9 hidden columns", in_config(lambda c: c["options"].update(hidden=10**9))),
    ("9b", "rows of 10^9 columns", in_config(lambda c: c["options"].update(columns=10**9))),
)
_OUTSIDE = {"../../../etc/passwd": {"sha256": "0" * 64, "size": 1}}
_FILES: tuple[tuple[str, str, Spoil], ...] = (
    ("10a", "config.json is a named pipe", pipe("config.json")),
    ("10b", "model.ubj is a named pipe", pipe("model.ubj")),
    ("10c", "manifest.json is a named pipe", pipe("manifest.json")),
    ("10d", "evaluation.json is a named pipe", pipe("evaluation.json")),
    ("10e", "README.md is a named pipe", pipe("README.md")),
    ("11a", "model.ubj of 1 TB", sparse("model.ubj", first=b"{")),
    ("11b", "a further file of 1 TB", sparse("more.json", first=b"{")),
    ("12a", "model.ubj is a link to the user's own file", link("model.ubj", lambda p: p.secret)),
    ("12b", "extra.json is a link to the user's own file", link("extra.json", lambda p: p.secret)),
    ("12c", "config.json is a link to /dev/zero", link("config.json", lambda p: "/dev/zero")),
    ("13a", "CONFIG.json beside config.json", sealed(content_of("CONFIG.json", lambda p: b"{}"))),
    (
        "14",
        "../../../etc/passwd in the manifest",
        in_config(lambda c: c["files"].update(_OUTSIDE), name="manifest.json"),
    ),
)


def _two_configs(folder: Path, place: Place) -> None:
    sealed(content_of("CONFIG.json", lambda place: b"{}"))(folder, place)
    (place.folder / "out").mkdir()


_OTHER_VERBS: tuple[tuple[str, str, str, Spoil], ...] = (
    ("13b", "publish, CONFIG.json beside config.json", "publish M --to OUT --as a/m --yes",
     _two_configs),
    ("23a", "evaluate, manifest.json is a named pipe", EVALUATE, pipe("manifest.json")),
    ("23b", "pull, manifest.json is a named pipe", "pull local-dir:m --out OUT", pipe("manifest.json")),
    ("24", "card, README.md is a named pipe", "card M", pipe("README.md")),
    ("25", "pull, extra.json is a link to the user's own file", "pull local-dir:m --out OUT",
     without_manifest(link("extra.json", lambda p: p.secret))),
    ("26", "pull, a file of 1 TB", "pull local-dir:m --out OUT", without_manifest(sparse("model.ubj", first=b"{"))),
    ("27a", "evaluate, config.json is a named pipe", EVALUATE, pipe("config.json")),
    ("27b", "evaluate, config.json is a link to /dev/zero", EVALUATE, link("config.json", lambda p: "/dev/zero")),
    ("27c", "evaluate, model.ubj is a named pipe", EVALUATE, pipe("model.ubj")),
    ("27d", "evaluate, model.ubj is a link to the user's own file", EVALUATE, link("model.ubj", lambda p: p.secret)),
    ("27e", "evaluate, config.json nested 100,000 deep", EVALUATE, text_of("config.json", lambda t: deep(100_000))),
)  # fmt: skip
_QUICK = {"1", "6", "10c", "12b", "25"}


def attempts() -> Iterator[Attempt]:
    """Kinds 1 to 14 and 23 to 27."""
    for kind, what, spoil in _HEADERS:
        harm = writes("canary") if kind == "1" else says("sound mlp")
        yield _attempt(kind, f"check, {what}", verb("check M", sealed(spoil), base=MLP), harm)
    for kind, what, spoil in _JSON:
        base = GBT if "columns" in what and kind == "9b" else MLP
        yield _attempt(kind, f"check, {what}", verb("check M", sealed(spoil), base=base))
    for kind, what, spoil in _FILES:
        yield _attempt(kind, f"check, {what}", verb("check M", spoil), copies_secret)
    for kind, what, words, spoil in _OTHER_VERBS:
        yield _attempt(kind, what, verb(words, spoil), copies_secret)


def _attempt(kind: str, what: str, make: Any, harm: Any = copies_secret) -> Attempt:
    return Attempt(kind, FAMILY, what, make, harm=harm, quick=kind in _QUICK)


def _first(header: dict[str, Any]) -> str:
    return next(name for name in header if name != "__metadata__")
