"""Hostile results of searches, and hostile folders in the place of the page that shows them (kind 136)."""

from __future__ import annotations

import json
import math
import os
import pickle
from collections.abc import Callable, Iterator
from functools import cache
from pathlib import Path
from typing import Any

from costhub.cards.site.site_page import MARK
from costhub.hub.benchmark import BENCHMARK
from costhub.hub.catalogue.hubs import EMBEDDED
from costhub.hub.searches import RESULT, RESULT_VERSION
from costhub.search.replay.judge import ReplaySettings
from scripts.bench.security.attempt import Attempt, Expected
from scripts.bench.security.data import ESCAPES
from scripts.bench.security.exchange.databases import Harm, secret_changed
from scripts.bench.security.exchange.locks import shown
from scripts.bench.security.exchange.submissions import FAMILY
from scripts.bench.security.models import TERABYTE, RunsCode, deep
from scripts.bench.security.names import IMAGE, SCRIPT
from scripts.bench.security.place import Answer, Command, Place

SpoilResult = Callable[[Path, Place], object]
_HTML = f"{IMAGE}{SCRIPT}{ESCAPES}\u202e"
_USUAL = ReplaySettings()


@cache
def _track() -> dict[str, Any]:
    """A track of the package's leaderboard: a result is compared with the searches there."""
    tracks: list[dict[str, Any]] = json.loads((EMBEDDED / BENCHMARK).read_text())["replay"]["tracks"]
    return tracks[0]


def result(**values: Any) -> dict[str, Any]:
    """A sound result of searches on the leaderboard's workloads, with other values."""
    track = _track()
    device = {"device": track["device"], "score": 0.5, "error": 0.01, "near": 9.0}
    device |= {name: track[name] for name in ("programs", "trials")}
    rows = [{"device": track["device"], "workload_id": each, "score": 0.5} for each in track["workload_ids"]]
    found = {"costhub": RESULT, "version": RESULT_VERSION, "strategy": "mine", "model": "m", "method": "frozen"}
    return {**found, "batch": _USUAL.batch, "seeds": _USUAL.seeds, "devices": [device], "rows": rows, **values}


def of_device(**values: Any) -> dict[str, Any]:
    """A result whose device has other values."""
    sound = result()
    return {**sound, "devices": [{**sound["devices"][0], **values}]}


def of_rows(**values: Any) -> dict[str, Any]:
    """A result whose rows have other values."""
    sound = result()
    return {**sound, "rows": [{**row, **values} for row in sound["rows"]]}


def site(name: str, write: str | dict[str, Any] | SpoilResult) -> Callable[[Place], Command]:
    """Builds the page of the package's hub with a result that somebody else has sent."""

    def make(place: Place) -> Command:
        path = place.folder / name
        if callable(write):
            write(path, place)
        else:
            path.write_text(write if isinstance(write, str) else json.dumps(write), encoding="utf-8")
        return place.costhub("site", "--searches", path, "--out", place.folder / "out")

    return make


def _holes(path: Path, place: Place) -> None:
    del place
    with path.open("wb") as file:
        file.truncate(TERABYTE)


def _into(spoil: Callable[[Path, Place], object]) -> Callable[[Place], Command]:
    """Builds the page in a folder that somebody has filled."""

    def make(place: Place) -> Command:
        (place.folder / "out").mkdir()
        spoil(place.folder / "out", place)
        return place.costhub("site", "--out", place.folder / "out")

    return make


def _page(make: SpoilResult) -> Callable[[Path, Place], object]:
    return lambda out, place: make(out / "index.html", place)


def _beside(out: Path, place: Place) -> None:
    """An earlier page, whose pictures lie in a folder of the user's."""
    (out / "index.html").write_text(MARK)
    (out / "pictures").symlink_to(place.secret.parent)


def kept(place: Place, answer: Answer) -> str:
    """A harm: the user's own folder has lost or gained a file, or its file was changed."""
    names = sorted(path.name for path in place.secret.parent.iterdir())
    others = [name for name in names if name.endswith(".png")]
    return f"{others[0]} was written elsewhere" if others else secret_changed(place, answer)


_RESULTS: tuple[tuple[str, str, str, str | dict[str, Any] | SpoilResult, Expected], ...] = (
    ("136a", "a named pipe", "r.json", lambda path, place: os.mkfifo(path), "refused"),
    ("136b", "a link to /dev/zero", "r.json", lambda path, place: path.symlink_to("/dev/zero"), "refused"),
    ("136c", "1 TB of holes", "r.json", _holes, "refused"),
    ("136d", "a pickle", "r.json", lambda path, place: path.write_bytes(pickle.dumps(RunsCode(place.canary))),
     "refused"),
    ("136e", "lists nested 100,000 deep", "r.json", deep(100_000), "refused"),
    ("136f", "names that are HTML", "r.json", result(strategy=_HTML, model=_HTML, method=_HTML), "accepted"),
    ("136g", "half a letter in its names", "r.json", result(strategy="\ud800", model="\udfff"), "either"),
    ("136h", "a file whose name is HTML", f"{IMAGE}{ESCAPES}.json", result(), "accepted"),
    ("136i", "a device that a terminal obeys", "r.json",
     {**of_device(device=_HTML), "rows": of_rows(device=_HTML)["rows"]}, "refused"),
    ("136j", "workloads that are not the leaderboard's", "r.json", of_rows(workload_id="../../x"), "refused"),
    ("136k", "scores that are NaN", "r.json", {**of_device(score=math.nan), "rows": of_rows(score=math.nan)["rows"]},
     "refused"),
    ("136l", "scores of -10^308", "r.json", {**of_device(score=-1e308), "rows": of_rows(score=-1e308)["rows"]},
     "refused"),
    ("136m", "a score of 1 above rows of 0.5", "r.json", of_device(score=1.0), "refused"),
    ("136n", "counts of 4,000 digits", "r.json", of_device(programs=10**4000), "refused"),
    ("136o", "figures of 4,000 digits", "r.json", of_device(near=10**4000, error=10**4000), "refused"),
    ("136p", "objects in the place of texts", "r.json", result(strategy={"a": _HTML}, model=[]), "refused"),
    ("136q", "200,000 devices", "r.json", result(devices=[{}] * 200_000), "refused"),
)  # fmt: skip
_FOLDERS: tuple[tuple[str, str, Callable[[Path, Place], object], Expected, Harm], ...] = (
    ("136r", "a page that is a link to the user's own file", _page(lambda path, place: path.symlink_to(place.secret)),
     "refused", kept),
    ("136s", "a page that is a named pipe", _page(lambda path, place: os.mkfifo(path)), "refused", kept),
    ("136t", "a page of 1 TB of holes", _page(_holes), "refused", kept),
    ("136u", "pictures that are a link to a folder of the user's", _beside, "refused", kept),
)  # fmt: skip


def attempts() -> Iterator[Attempt]:
    """Kind 136."""
    for kind, what, name, write, expected in _RESULTS:
        title = f"site --searches, {what}"
        yield Attempt(kind, FAMILY, title, site(name, write), expected, harm=shown, quick=kind == "136f")
    for kind, what, spoil, expected, harm in _FOLDERS:
        yield Attempt(kind, FAMILY, f"site --out, {what}", _into(spoil), expected, harm=harm)
