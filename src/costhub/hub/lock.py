"""Provides lock, check_lock and pull_locked: models and datasets of a project, pinned by revision and hash.

`costhub.lock` is JSON, sorted and one key on a line, so that a change of one pin is a change of few lines. TOML would
read as well, but Python 3.10 has no reader of it, and no version of Python a writer.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

from costhub.errors import CosthubError
from costhub.files import read_regular, refuse_newer, write_replacing
from costhub.hub.catalogue.find import ResolvedModel, find_model
from costhub.hub.data import find_data
from costhub.hub.dataset_documents import tables_hash
from costhub.hub.pull import pull_resolved, verified_folder
from costhub.hub.remote.address import HF_PREFIX
from costhub.terminal_text import clean

LOCK_FILE = "costhub.lock"
LOCK_VERSION = 1
"""Raised by one whenever code of today could not read what it wrote before."""
MAX_LOCK_BYTES = 1 << 20
Kind = Literal["model", "dataset"]
_SHA256 = re.compile(r"[0-9a-f]{64}")
_COMMIT = re.compile(r"[0-9a-f]{40,64}")


class LockError(CosthubError):
    """What a lock file pins has moved or changed."""


class LockFileError(LockError):
    """A lock file is missing or damaged, does not hold a name, or was asked to pin what it cannot."""

    exit_code = 2


@dataclass(frozen=True)
class Pin:
    """One name of a project, and what it stood for."""

    kind: Kind
    name: str
    """As the project writes it: a device, a model or dataset, or hf-hub:ORG/NAME."""
    resolved: str
    """The ORG/NAME that it stood for."""
    sha256: str
    """Of a model the revision of its manifest, of a dataset the hash over all its shards."""
    commit: str | None = None
    """On the Hugging Face hub; None for a hub on this machine."""

    @property
    def address(self) -> str:
        """What finds exactly this version again, wherever it is still kept."""
        if self.commit is not None:
            return f"{HF_PREFIX}{self.resolved}@{self.commit}"
        return f"{self.resolved}@{self.sha256[:16]}" if self.kind == "model" else self.resolved


def pin_model(name: str) -> Pin:
    """Pins the model that a name stands for now.

    Raises:
        LockFileError: The name is a folder, which exists on this machine only.
        CosthubError: There is no such model.

    Example:
        >>> pin_model("nvidia-h200").resolved
        'costhub/nvidia-h200-blend'
    """
    found = find_model(name)
    if not found.entry.is_published:
        raise LockFileError(
            f"{name} is a folder, which other machines do not have. Lock a model of a hub, or publish this one "
            "with `costhub publish`."
        )
    return Pin("model", name, found.entry.name, found.entry.manifest.revision, found.commit)


def pin_dataset(name: str) -> Pin:
    """Pins the dataset that a name stands for now.

    Raises:
        LockFileError: The name is a folder, which exists on this machine only.
        CosthubError: No hub on this machine has such a dataset.

    Example:
        >>> pin_dataset("nvidia-h200").resolved
        'costhub/nvidia-h200'
    """
    place = find_data(name)
    if place.dataset is None:
        raise LockFileError(
            f"{name} is a folder, which other machines do not have. Lock a dataset of a hub, or publish this one "
            "with `costhub publish`."
        )
    return Pin("dataset", name, place.dataset, tables_hash(place.folder))


def lock(models: Iterable[str] = (), datasets: Iterable[str] = (), *, path: str | Path = LOCK_FILE) -> tuple[Pin, ...]:
    """Pins what names stand for now, and writes the lock file; names that it already holds and that are not given stay.

    Without any name, all names of the file are pinned anew: what an update of the hubs brings is taken over.

    Args:
        models: As for `costhub.pull`, but no folders.
        datasets: As for `costhub.load_measurements`, in the hubs on this machine.
        path: The lock file; made if missing.

    Returns:
        All pins of the file, by kind and name.

    Raises:
        LockFileError: The file is not a lock file, a name stands for a folder, or there is nothing to lock.
        CosthubError: There is no such model or dataset. The lock file is left unchanged.

    Example:
        >>> import tempfile
        >>> pins = lock(["nvidia-h200"], ["nvidia-h200"], path=Path(tempfile.mkdtemp()) / "costhub.lock")
        >>> [(pin.kind, pin.resolved) for pin in pins]
        [('dataset', 'costhub/nvidia-h200'), ('model', 'costhub/nvidia-h200-blend')]
    """
    path, kept = Path(path), read_lock(path) if Path(path).exists() else ()
    names: list[tuple[Kind, str]] = [("model", each) for each in models]
    names += [("dataset", each) for each in datasets]
    if not names:
        names, kept = [(pin.kind, pin.name) for pin in kept], ()
    if not names:
        raise LockFileError(f"There is nothing to lock: {path} does not exist. Name models, or datasets with --data.")
    pins = {(pin.kind, pin.name): pin for pin in kept}
    pins |= {(kind, name): pin_model(name) if kind == "model" else pin_dataset(name) for kind, name in names}
    ordered = tuple(pins[key] for key in sorted(pins))
    entries = [{key: value for key, value in vars(pin).items() if value is not None} for pin in ordered]
    write_replacing(path, (json.dumps({"version": LOCK_VERSION, "pins": entries}, indent=2) + "\n").encode())
    return ordered


def read_lock(path: str | Path = LOCK_FILE) -> tuple[Pin, ...]:
    """The pins of a lock file.

    Raises:
        LockFileError: It is missing, or is not a lock file that this costhub reads.
    """
    path = Path(path)
    if not path.exists():
        raise LockFileError(f"There is no {path}. `costhub lock NAME` writes one.")
    try:
        content = json.loads(read_regular(path, limit=MAX_LOCK_BYTES, error=LockFileError))
        if isinstance(content, dict):  # Of a newer version, nothing else is known.
            refuse_newer(content, newest=LOCK_VERSION, what=path, error=LockFileError)
        entries = content.get("pins") if isinstance(content, dict) else None
        if not isinstance(entries, list) or not all(isinstance(entry, dict) for entry in entries):
            raise ValueError("it should be an object with a list of pins")
        return tuple(_pin(entry) for entry in entries)
    except (ValueError, RecursionError) as error:
        raise LockFileError(
            f"{path} is not a lock file of costhub: {error}. Remove it and write a new one with `costhub lock`."
        ) from error


def _pin(entry: Mapping[str, Any]) -> Pin:
    kind, commit = entry.get("kind"), entry.get("commit")
    texts = [text for key in ("name", "resolved", "sha256") if isinstance(text := entry.get(key), str) and text]
    if kind not in ("model", "dataset") or len(texts) < 3:
        raise ValueError("a pin needs kind, name, resolved and sha256")
    name, resolved, sha256 = texts
    if not _SHA256.fullmatch(sha256):
        raise ValueError("a sha256 is not one")
    if commit is not None and not (isinstance(commit, str) and _COMMIT.fullmatch(commit)):
        raise ValueError("a commit is not one")
    return Pin(kind, name, resolved, sha256, commit)


def check_lock(path: str | Path = LOCK_FILE) -> list[str]:
    """What differs now from the pins of a lock file, as sentences; empty if nothing does.

    Every byte of a model and of the shards of a dataset is hashed.

    Raises:
        LockFileError: There is no lock file.

    Example:
        >>> import tempfile
        >>> path = Path(tempfile.mkdtemp()) / "costhub.lock"
        >>> _ = lock(["nvidia-h200"], path=path)
        >>> check_lock(path)
        []
    """
    return [sentence for pin in read_lock(path) if (sentence := _difference(pin))]


def _difference(pin: Pin) -> str:
    """How what a name stands for differs from its pin; empty if it does not."""
    what = f"The {pin.kind} {clean(pin.name, 99)}"
    try:
        now = pin_model(pin.name) if pin.kind == "model" else pin_dataset(pin.name)
        if now.resolved != pin.resolved:
            return f"{what} stood for {clean(pin.resolved, 99)} and now stands for {now.resolved}. {_UPDATE}"
        if now.sha256 != pin.sha256:
            return f"{what} is another version: sha256 {now.sha256[:12]}, locked is {pin.sha256[:12]}. {_UPDATE}"
        if now.commit != pin.commit:
            return f"{what} is at commit {now.commit}, locked is {pin.commit}. {_UPDATE}"
        if pin.kind == "model":
            verified_folder(find_model(pin.address))
    except CosthubError as error:
        return f"{what} cannot be compared: {error}"
    return ""


_UPDATE = "`costhub lock` takes it over; `costhub pull --locked` still fetches the locked version where a hub keeps it."


def find_locked(name: str, *, path: str | Path = LOCK_FILE) -> ResolvedModel:
    """Finds a model in exactly the version of a lock file, whatever its name stands for now.

    Args:
        name: Of a model in the lock file.
        path: The lock file.

    Raises:
        LockFileError: There is no lock file, or it lacks the name.
        LockError: No hub has the locked version any more, or its hash differs.

    Example:
        >>> import tempfile
        >>> path = Path(tempfile.mkdtemp()) / "costhub.lock"
        >>> _ = lock(["nvidia-h200"], path=path)
        >>> find_locked("nvidia-h200", path=path).entry.name
        'costhub/nvidia-h200-blend'
    """
    pins = {pin.name: pin for pin in read_lock(path) if pin.kind == "model"}
    if name not in pins:
        raise LockFileError(f"{path} does not lock the model {name}. Add it with `costhub lock {name}`.")
    pin = pins[name]
    try:
        found = find_model(pin.address)
        revision = found.entry.manifest.revision
    except CosthubError as error:
        raise LockError(f"{name} cannot be had as {path} locks it: {error}") from error
    if revision != pin.sha256 or found.entry.name != pin.resolved:
        raise LockError(
            f"{clean(pin.address, 200)} has the sha256 {revision[:12]}, but {path} locks {pin.sha256[:12]}: its "
            "content has changed. Do not use it before you know why."
        )
    return found


def pull_locked(name: str, *, path: str | Path = LOCK_FILE, out: str | Path | None = None) -> Path:
    """Copies a model in exactly the version of a lock file, and checks every byte of it.

    Args:
        name: Of a model in the lock file.
        path: The lock file.
        out: The model folder to create; by default a folder in the cache.

    Raises:
        LockError: As `find_locked`.
        CosthubError: As `costhub.pull`.

    Example:
        >>> import tempfile
        >>> path = Path(tempfile.mkdtemp()) / "costhub.lock"
        >>> _ = lock(["nvidia-h200"], path=path)
        >>> pull_locked("nvidia-h200", path=path).is_dir()
        True
    """
    return pull_resolved(find_locked(name, path=path), out=out)
