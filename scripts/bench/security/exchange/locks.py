"""Hostile lock files, and hostile leaderboards of a hub (kinds 131 and 132)."""

from __future__ import annotations

import json
import os
import shutil
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

from scripts.bench.security.attempt import Attempt, Expected, no_harm
from scripts.bench.security.data import ESCAPES
from scripts.bench.security.exchange.databases import Harm, secret_changed
from scripts.bench.security.exchange.submissions import FAMILY
from scripts.bench.security.models import deep
from scripts.bench.security.names import IMAGE, SCRIPT, in_file, reaches_terminal
from scripts.bench.security.place import GBT, Answer, Command, Place

MODEL = f"costhub/{GBT}"
PULL, CHECK, LOCK = "pull NAME --locked --lock-file FILE --out OUT", "lock --check --file FILE", "lock --file FILE"
_KEY = "sha256"


def revision(folder: Path) -> str:
    """What a lock file holds of a model: the hash of its manifest's files."""
    from costhub.hub.remote.manifest import read_manifest

    return read_manifest(folder).revision


def pin(place: Place, **values: Any) -> dict[str, Any]:
    """The pin of a model of the package, with other values."""
    folder = place.model(name="pinned")
    found = {"kind": "model", "name": GBT, "resolved": MODEL, _KEY: revision(folder)}
    shutil.rmtree(folder)
    return found | values


def locked(words: str, text: Callable[[Place], str]) -> Callable[[Place], Command]:
    """Runs a verb on a lock file; FILE is its path, NAME the locked model, OUT a path that is free."""

    def make(place: Place) -> Command:
        path = place.folder / "costhub.lock"
        path.write_text(text(place))
        names = {"FILE": path, "NAME": GBT, "OUT": place.folder / "out"}
        return place.costhub(*(names.get(word, word) for word in words.split()))

    return make


def pins(*values: dict[str, Any]) -> Callable[[Place], str]:
    """A lock file with a pin for each set of other values."""
    return lambda place: json.dumps({"version": 1, "pins": [pin(place, **each) for each in values]})


def _twice(place: Place) -> str:
    """Another model under the name of the first, as the last key of a pin that a reader sees."""
    sound = json.dumps(pin(place))
    return f'{{"version": 1, "pins": [{sound[:-1]}, "resolved": "costhub/nvidia-h200-mlp"}}]}}'


def _own_folder(place: Place) -> str:
    """The name leads to a folder beside the lock file, by a link whose name ends as a revision does."""
    folder = place.folder / "local" / "m"
    folder.parent.mkdir()
    shutil.move(place.model(), folder)
    (folder / "README.md").unlink()
    (folder / "manifest.json").unlink()
    from costhub.hub.remote.manifest import write_manifest

    write_manifest(folder)
    sha256 = revision(folder)
    (place.folder / f"local/m@{sha256[:16]}").symlink_to(folder)
    return json.dumps({"version": 1, "pins": [pin(place, resolved="local/m", **{_KEY: sha256})]})


def _other_digits(place: Place) -> str:
    """A hash that differs where an address does not show it."""
    found = pin(place)
    found[_KEY] = found[_KEY][:16] + "".join("1" if digit == "0" else "0" for digit in found[_KEY][16:])
    return json.dumps({"version": 1, "pins": [found]})


def _many(place: Place) -> str:
    given = [pin(place, name=f"a{n}", resolved=f"a/b{n}", commit=f"{n:040x}") for n in range(40)]
    return json.dumps({"version": 1, "pins": [{**each, "name": f"hf-hub:a/b{n}"} for n, each in enumerate(given)]})


def _odd_file(words: str, how: Callable[[Path, Place], object]) -> Callable[[Place], Command]:
    def make(place: Place) -> Command:
        path = place.folder / "costhub.lock"
        how(path, place)
        names = {"FILE": path, "NAME": GBT, "OUT": place.folder / "out"}
        return place.costhub(*(names.get(word, word) for word in words.split()))

    return make


def pulled(place: Place, answer: Answer) -> str:
    """A harm: a model was written."""
    out = (place.folder / "out").exists()
    return "a model was pulled" if out else reaches_terminal(place, answer)


_COMMIT = "0" * 40
_LOCKS: tuple[tuple[str, str, Callable[[Place], Command], Harm], ...] = (
    ("131a", "a named pipe", _odd_file(PULL, lambda path, place: os.mkfifo(path)), pulled),
    ("131b", "2 MB", locked(PULL, lambda place: " " * (2 << 20)), pulled),
    ("131c", "lists nested 100,000 deep", locked(PULL, lambda place: deep(100_000)), pulled),
    ("131d", "one name twice, with two models", locked(PULL, pins({"resolved": "costhub/x"}, {})), pulled),
    ("131e", "a key twice in a pin", locked(CHECK, _twice), no_harm),
    ("131f", "a model of the folder in the place of the hub's", locked(PULL, _own_folder), pulled),
    ("131g", "a hash that differs behind the digits of its address", locked(PULL, _other_digits), pulled),
    ("131h", "a path as the model", locked(PULL, pins({"resolved": "/etc/passwd"})), pulled),
    ("131i", "a path above as the model", locked(PULL, pins({"resolved": "../../m"})), pulled),
    ("131j", "an address of a hub as the model", locked(PULL, pins({"resolved": "hf-hub:a/b"})), pulled),
    ("131k", "a commit of another repository", locked(PULL, pins({"resolved": "a/b", "commit": _COMMIT})), pulled),
    ("131l", "names that a terminal obeys", locked(CHECK, pins({"name": ESCAPES, "resolved": ESCAPES})),
     reaches_terminal),
    ("131m", "names that turn the text around", locked(CHECK, pins({"name": "\u202egnp.exe"})), reaches_terminal),
    ("131n", "forty models of a hub that does not answer", locked(CHECK, _many), no_harm),
    ("131o", "a folder as the name", locked(LOCK, pins({"name": "/etc"})), no_harm),
    ("131p", "a link to the user's own file", _odd_file(LOCK, lambda path, place: path.symlink_to(place.secret)),
     secret_changed),
    ("131q", "a pickle", _odd_file(PULL, lambda path, place: path.write_bytes(b"\x80\x04cposix\nsystem\n.")), pulled),
)  # fmt: skip


def board(**values: Any) -> str:
    """A leaderboard with other values."""
    row = {"name": "mlp", "features": "f", "kind": "model", "seeds": 3, "top_1": 0.7, "top_1_se": 0.02}
    track = {"title": "CPU", "device": "acme", "split": "s", "asks": "a", "workloads": 40, "rows": [row]}
    return json.dumps({"version": 1, "origin": {"date": "2026"}, "tracks": [track], **values})


def _hub(how: str | Callable[[Path], object]) -> Callable[[Place], Command]:
    """Builds the page of a hub with a leaderboard."""

    def make(place: Place) -> Command:
        hub = place.folder / "hub"
        place.model(name="hub/models/a/m")
        path = hub / "benchmark.json"
        if isinstance(how, str):
            path.write_text(how, encoding="utf-8")
        else:
            how(path)
        return place.costhub("site", "--hub", hub, "--out", place.folder / "out")

    return make


def _rows(count: int, **values: Any) -> str:
    row = {"name": "m", "features": "f", "kind": "model", "seeds": 3, "top_1": 0.7, **values}
    track = {"title": "CPU", "device": "acme", "split": "s", "asks": "a", "workloads": 40, "rows": [row] * count}
    return board(tracks=[track])


_ODD = f"{IMAGE}{SCRIPT}{ESCAPES}\u202e"
_ORIGIN = {"results": "javascript:alert(1)", "command": _ODD, "machine": _ODD, "date": _ODD, "versions": _ODD}
_TRACK = {"title": _ODD, "device": _ODD, "split": _ODD, "asks": _ODD, "workloads": 1, "rows": []}


def shown(place: Place, answer: Answer) -> str:
    """A harm: the page holds HTML of the leaderboard, or a link of its own choice."""
    for text in (SCRIPT, IMAGE, 'href="javascript:', "\x1b"):
        if found := in_file(text, "out/index.html")(place, answer):
            return found
    return reaches_terminal(place, answer)


_BOARDS: tuple[tuple[str, str, Callable[[Place], Command], Expected], ...] = (
    ("132a", "names that are HTML", _hub(_rows(3, name=_ODD, features=_ODD)), "accepted"),
    ("132b", "tracks and an origin that are HTML", _hub(board(tracks=[_TRACK], origin=_ORIGIN)), "accepted"),
    ("132c", "figures that are NaN", _hub(_rows(1, top_1=float("nan"), top_1_se=float("inf"))), "accepted"),
    ("132d", "lists nested 100,000 deep", _hub(deep(100_000)), "accepted"),
    ("132e", "5,000 rows", _hub(_rows(5000)), "accepted"),
    ("132f", "a named pipe", _hub(os.mkfifo), "accepted"),
    ("132g", "a link to /dev/zero", _hub(lambda path: path.symlink_to("/dev/zero")), "accepted"),
    ("132h", "objects in the place of texts", _hub(_rows(1, name={"a": _ODD}, kind=[], seeds="3")), "accepted"),
    ("132i", "counts of 4,000 digits", _hub(_rows(1, seeds=10**4000, top_1=10**4000)), "accepted"),
    ("132j", "a replay of a strategy that is HTML",
     _hub(board(replay={"tracks": [{"device": _ODD, "workloads": 1, "programs": 1, "trials": 1, "rows": [
         {name: _ODD for name in ("strategy", "model", "model_name", "method")}
         | {"kind": "model", "seeds": 1, "score": 0.5, "trials_to_95": 1.0}]}]})), "accepted"),
)  # fmt: skip


def attempts() -> Iterator[Attempt]:
    """Kinds 131 and 132."""
    for kind, what, made, harm in _LOCKS:
        yield Attempt(kind, FAMILY, f"a lock file: {what}", made, harm=harm, limit_s=60, quick=kind == "131g")
    for kind, what, made, expected in _BOARDS:
        yield Attempt(kind, FAMILY, f"site of a hub whose leaderboard is {what}", made, expected, harm=shown)
