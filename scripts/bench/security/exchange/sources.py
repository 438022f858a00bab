"""Repositories and catalogues of published measurements that attack whoever imports them (kinds 124 and 125)."""

from __future__ import annotations

import json
import os
import subprocess
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

from scripts.bench.security.attempt import Attempt, writes
from scripts.bench.security.data import ESCAPES
from scripts.bench.security.exchange.logs import FAMILY, GPU, good_lines, seen
from scripts.bench.security.names import reaches_terminal
from scripts.bench.security.place import Command, Place

Spoil = Callable[[Path, Place], object]


def _git(folder: Path, *words: str) -> str:
    settings = ("user.name=a", "user.email=a@b", "protocol.file.allow=always", "commit.gpgsign=false")
    options = [word for each in settings for word in ("-c", each)]
    done = subprocess.run(["git", *options, "-C", folder, *words], check=True, capture_output=True, text=True)
    return done.stdout.strip()


def catalogue(place: Place, *, repository: str, revision: str, **other: Any) -> Path:
    """Writes a catalogue with one source, `lab/board`."""
    source = {"name": "lab/board", "folder": "results", "device": GPU, "licence": "MIT", "contributor": "lab"}
    whole = {"repository": repository, "revision": revision, "sources": [source | {"format": "ansor"} | other]}
    path = place.folder / "sources.yaml"
    path.write_text(json.dumps({"version": 1, "repositories": [whole]}))
    return path


def _import(place: Place, path: Path) -> Command:
    out = place.folder / "out"
    return place.costhub("import", "source", "lab/board", "--catalogue", path, "--out", out, "--workers", 1)


def repository(before: Spoil | None = None, after: Spoil | None = None) -> Callable[[Place], Command]:
    """Fetches and imports a repository with a good log.

    Args:
        before: What somebody has put into it.
        after: What somebody has done to the repository itself after the commit.
    """

    def make(place: Place) -> Command:
        origin = place.folder / "origin"
        (origin / "results").mkdir(parents=True)
        _git(origin, "init", "--quiet", "--initial-branch=main")
        _git(origin, "config", "uploadpack.allowFilter", "true")
        (origin / "results" / "a.json").write_bytes(b"\n".join(good_lines()))
        if before is not None:
            before(origin, place)
        _git(origin, "add", "-A")
        _git(origin, "commit", "--quiet", "-m", "one")
        head = _git(origin, "rev-parse", "HEAD")
        if after is not None:
            after(origin, place)
        return _import(place, catalogue(place, repository=origin.as_uri(), revision=head))

    return make


def _described(origin: Path, place: Place) -> None:
    touch = f"touch {place.canary}"
    (origin / ".gitattributes").write_text("* filter=evil diff=evil\n")
    (origin / ".gitmodules").write_text(f'[submodule "a"]\n\tpath = a\n\turl = ext::{touch}\n\tupdate = !{touch}\n')


def _runs(origin: Path, place: Place) -> None:
    """Everything by which a repository may make git run something at a fetch, or at its server."""
    touch = f"touch {place.canary}"
    for name in ("post-checkout", "post-merge", "post-index-change", "reference-transaction", "pre-auto-gc"):
        hook = origin / ".git" / "hooks" / name
        hook.parent.mkdir(exist_ok=True)
        hook.write_text(f"#!/bin/sh\n{touch}\n")
        hook.chmod(0o755)
    for name in ("uploadpack.packObjectsHook", "core.fsmonitor", "core.sshCommand", "filter.evil.smudge"):
        _git(origin, "config", name, touch)


def _links(origin: Path, place: Place) -> None:
    (origin / "results" / "b.json").symlink_to(place.secret)


def _submodule(origin: Path, place: Place) -> None:
    del place
    (origin / "results" / "module").mkdir()  # without it, git would take the module for deleted
    _git(origin, "update-index", "--add", "--cacheinfo", f"160000,{'1' * 40},results/module")


def _odd_names(origin: Path, place: Place) -> None:
    """Names of files that are harmless to git, and to nobody else."""
    del place
    for name in ("..json", "-rf.json", "CON.json", f"{ESCAPES}.json", "a\nb.json", "\\..\\c.json", "\u202e.json"):
        (origin / "results" / name).write_bytes(b"x")


_REPOSITORIES: tuple[tuple[str, str, Callable[[Place], Command]], ...] = (
    ("124a", "hooks, filters, submodules and commands of its server", repository(_described, _runs)),
    ("124b", "a link to the user's own file", repository(_links)),
    ("124c", "a submodule among the logs", repository(_submodule)),
    ("124d", "names of dots, options and escapes", repository(_odd_names)),
)


def _listed(text: Callable[[], str]) -> Callable[[Place], Command]:
    def make(place: Place) -> Command:
        path = place.folder / "sources.yaml"
        path.write_text(text(), encoding="utf-8")
        return place.costhub("import", "sources", "--catalogue", path)

    return make


def _odd_catalogue(target: str = "") -> Callable[[Place], Command]:
    """A link in the place of the catalogue; without a target, a named pipe."""

    def make(place: Place) -> Command:
        path = place.folder / "sources.yaml"
        if target:
            path.symlink_to(target)
        else:
            os.mkfifo(path)
        return place.costhub("import", "sources", "--catalogue", path)

    return make


def _fetched(**values: str) -> Callable[[Place], Command]:
    def make(place: Place) -> Command:
        given = {name: text.replace("CANARY", str(place.canary)) for name, text in values.items()}
        usual = {"repository": "https://127.0.0.1:9/a", "revision": "0" * 40}
        return _import(place, catalogue(place, **(usual | given)))

    return make


_RUN = "os.system ['touch canary']"
_ENTRIES = "version: 1\nrepositories: [{sources: []}]\nx:\n"
_CATALOGUES: tuple[tuple[str, str, Callable[[Place], Command]], ...] = (
    ("125a", "four million opened brackets", _listed(lambda: "a: " + "[" * 4_000_000)),
    ("125b", "a million small entries", _listed(lambda: _ENTRIES + "- a\n" * 1_000_000)),
    ("125c", "aliases that stand for gigabytes", _listed(lambda: "a: &a [x,x]\nb: &b [*a,*a]\nc: [*b,*b]")),
    ("125d", "a tag that makes a Python object", _listed(lambda: f"a: !!python/object/apply:{_RUN}")),
    ("125e", "a named pipe", _odd_catalogue()),
    ("125f", "a link to /dev/zero", _odd_catalogue("/dev/zero")),
    ("125g", "a command as repository", _fetched(repository="ext::touch CANARY")),
    ("125h", "an option of git as repository", _fetched(repository="--upload-pack=touch CANARY")),
    ("125i", "a device above the folder", _fetched(device="../../x")),
    ("125j", "a folder above the repository", _fetched(folder="results/../../..")),
    ("125k", "names that a terminal obeys", _fetched(name=ESCAPES, licence=ESCAPES, device=ESCAPES)),
)


def attempts() -> Iterator[Attempt]:
    """Kinds 124 and 125."""
    for kind, what, made in _REPOSITORIES:
        harmless = kind in ("124a", "124d")
        yield Attempt(
            kind,
            FAMILY,
            f"import source, a repository with {what}",
            made,
            "accepted" if harmless else "refused",
            harm=writes("canary") if kind == "124a" else seen,
            limit_s=90,
            quick=kind == "124b",
        )
    for kind, what, made in _CATALOGUES:
        harm = writes("canary") if kind in ("125d", "125g", "125h") else reaches_terminal
        yield Attempt(kind, FAMILY, f"import source, a catalogue: {what}", made, harm=harm, limit_s=60)
