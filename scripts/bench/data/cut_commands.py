"""The commands whose connection is cut: what each needs on the server, runs and leaves behind."""

from __future__ import annotations

import hashlib
import importlib.util
import shutil
import sys
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from costhub.hub.catalogue.hubs import EMBEDDED
from costhub.hub.remote.remote_repo import blob_id
from scripts.bench.common.data import small_folder
from scripts.bench.common.machine import ROOT

LOOPBACK = ROOT / "tests" / "hub" / "loopback_hub.py"
MODEL = EMBEDDED / "models" / "costhub" / "amd-epyc-zen5-2c-gbt"
MAIN = "from costhub.cli.main import main; main({!r})"
LOAD = """
import hashlib, costhub
table = costhub.load_measurements({!r})
print(hashlib.sha256(repr(table.to_pylist()).encode()).hexdigest())
"""
DATA, DATASET, REPO = "hf-hub:acme/data", "datasets/acme/data", "acme/model"
Files = dict[str, bytes]


def _loopback() -> Any:
    spec = importlib.util.spec_from_file_location("loopback_hub", LOOPBACK)
    assert spec is not None and spec.loader is not None  # noqa: PT018 - for the type checker
    module = importlib.util.module_from_spec(spec)
    sys.modules["loopback_hub"] = module  # dataclasses look their own module up there
    spec.loader.exec_module(module)
    return module


LoopbackHub = _loopback().LoopbackHub


def file_bytes(folder: Path) -> Files:
    """Path -> content of all files in a folder."""
    paths = sorted(path for path in folder.rglob("*") if path.is_file())
    return {path.relative_to(folder).as_posix(): path.read_bytes() for path in paths}


def digest(files: Files) -> str:
    """One hash of all files."""
    lines = [f"{name} {hashlib.sha256(content).hexdigest()}" for name, content in sorted(files.items())]
    return hashlib.sha256("\n".join(lines).encode()).hexdigest()


class LocalFolders:
    """What is published, contributed and pulled; made once."""

    def __init__(self, place: Path) -> None:
        self.model, self.data = place / "my-model", small_folder(place / "my-data")
        shutil.copytree(MODEL, self.model)


@dataclass(frozen=True)
class HubCommand:
    """One command of costhub."""

    prepare: Callable[[Any, LocalFolders], None]
    """Puts on the server what it needs."""
    code: Callable[[LocalFolders, Path], str]
    """The program, given a folder where its results may go."""
    result: Callable[[Any, Path, str], str]
    """A hash of what it left on the server, in the folder or in its output; empty if it left nothing."""


def _prepared(hub: Any, sources: LocalFolders) -> None:
    hub.commit(REPO, file_bytes(sources.model))
    hub.commit(DATASET, file_bytes(sources.data))


def _nothing(hub: Any, sources: LocalFolders) -> None:
    del hub, sources


def _pulled(hub: Any, place: Path, stdout: str) -> str:
    del hub, stdout
    return digest(file_bytes(place / "pulled")) if (place / "pulled").exists() else ""


def _main_branch(repo: str) -> Callable[[Any, Path, str], str]:
    def result(hub: Any, place: Path, stdout: str) -> str:
        del place, stdout
        # A new repository has nothing but git's own file.
        files = hub.files(repo) if repo in hub.commits else {}
        tagged = "v1" in hub.refs.get(repo, {}) or repo == DATASET
        return digest(files) if tagged and len(files) > 1 else ""

    return result


def _offered(hub: Any, place: Path, stdout: str) -> str:
    del place, stdout
    pulls = hub.pulls.get(DATASET, [])
    digests = {digest(hub.files(DATASET, f"refs/pr/{pull.num}")) for pull in pulls}
    return " ".join(sorted(digests))


COMMANDS = {
    "pull": HubCommand(
        _prepared,
        lambda _, place: MAIN.format(["pull", f"hf-hub:{REPO}", "--out", str(place / "pulled")]),
        _pulled,
    ),
    "load_measurements": HubCommand(_prepared, lambda *_: LOAD.format(DATA), lambda hub, place, stdout: stdout),
    "publish, a model": HubCommand(
        _nothing,
        lambda sources, _: MAIN.format(
            ["publish", str(sources.model), "--to", f"hf-hub:{REPO}", "--tag", "v1", "--yes"]
        ),
        _main_branch(REPO),
    ),
    "publish, measurements": HubCommand(
        _nothing,
        lambda sources, _: MAIN.format(["publish", str(sources.data), "--to", DATA, "--yes"]),
        _main_branch(DATASET),
    ),
    "contribute": HubCommand(
        _prepared,
        lambda sources, _: MAIN.format(["contribute", str(sources.data), "--to", DATA, "--yes"]),
        _offered,
    ),
}


def half_files(place: Path, whole: Files, seen: set[Path]) -> list[str]:
    """Files under final names that are not whole, in the pulled folder and in the client's cache.

    Args:
        place: Where the command writes.
        whole: The files that the pulled folder must hold as soon as it exists.
        seen: Files known to be whole; more are added.
    """
    halves = []
    pulled = place / "pulled"
    if pulled.exists() and pulled not in seen:
        seen.add(pulled)
        halves += ["pulled"] if file_bytes(pulled) != whole else []
    for blob in (place / "hf/hub").glob("*/blobs/*"):
        if blob in seen or not all(letter in "0123456789abcdef" for letter in blob.name):
            continue
        seen.add(blob)
        sha256 = hashlib.sha256(blob.read_bytes()).hexdigest() if len(blob.name) == 64 else blob_id(blob)
        halves += [blob.name] if sha256 != blob.name else []
    return halves
