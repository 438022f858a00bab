"""Provides lock, check_lock, pull_locked and pull_locked_data: models and datasets pinned by revision and hash.

`costhub.lock` is JSON, sorted, with one key per line, so that changing one pin changes few lines. TOML would
be just as readable, but Python 3.10 has no TOML reader, and no Python version has a writer.
"""

from __future__ import annotations

import json
import re
import shlex
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

from costhub.dataset.shards.journal import JOURNAL
from costhub.errors import CosthubError, HubError
from costhub.files import read_regular, refuse_newer, write_replacing
from costhub.hub.catalogue.find import AUTO, ResolvedModel, find_model
from costhub.hub.data import cached_folder, find_data
from costhub.hub.dataset_documents import shards_hash, tables_hash
from costhub.hub.pull import pull_resolved, verified_folder
from costhub.hub.remote.address import HF_PREFIX, REPOSITORY, parse_address
from costhub.hub.remote.dataset_repo import TABLE_PATTERNS, fetch_tables_at, find_tables, shards_of, stored_shards
from costhub.terminal_text import clean

LOCK_FILE = "costhub.lock"
LOCK_VERSION = 1
"""Incremented whenever current code could not read earlier files."""
MAX_LOCK_BYTES = 1 << 20
Kind = Literal["model", "dataset"]
_SHA256 = re.compile(r"[0-9a-f]{64}")
_COMMIT = re.compile(r"[0-9a-f]{40,64}")


class LockError(CosthubError):
    """Something pinned by a lock file has moved or changed."""


class LockFileError(LockError):
    """A lock file is missing or damaged, lacks a name, or was asked to pin something unsupported."""

    exit_code = 2


@dataclass(frozen=True)
class Pin:
    """One name used by a project, and the version it referred to."""

    kind: Kind
    name: str
    """The name as written in the project: a device, a model or dataset, or hf-hub:ORG/NAME."""
    resolved: str
    """The ORG/NAME that it referred to."""
    sha256: str
    """For a model, the revision of its manifest; for a dataset, the hash over the hashes of all its shards."""
    commit: str | None = None
    """Commit on the Hugging Face hub; None for a hub on this machine."""

    @property
    def address(self) -> str:
        """An address that finds exactly this version again, wherever it still exists."""
        if self.commit is not None:
            return f"{HF_PREFIX}{self.resolved}@{self.commit}"
        return f"{self.resolved}@{self.sha256[:16]}" if self.kind == "model" else self.resolved


def pin_model(name: str) -> Pin:
    """Pins the model that a name currently refers to.

    Raises:
        LockFileError: The name is a folder, which exists only on this machine.
        CosthubError: There is no such model.

    Example:
        >>> pin_model("nvidia-h200").resolved
        'costhub/nvidia-h200-blend'
    """
    _refuse_auto(name)
    found = find_model(name)
    if not found.entry.is_published:
        raise LockFileError(
            f"{name} is a folder, which other machines do not have. Lock a model of a hub, or publish this one "
            "with `costhub publish`."
        )
    return Pin("model", name, found.entry.name, found.entry.manifest.revision, found.commit)


def pin_dataset(name: str) -> Pin:
    """Pins the dataset that a name currently refers to.

    Raises:
        LockFileError: The name is a folder, which exists only on this machine.
        CosthubError: There is no such dataset, or the Hugging Face hub cannot be reached.

    Example:
        >>> pin_dataset("nvidia-h200").resolved
        'costhub/nvidia-h200'
    """
    if name.startswith(HF_PREFIX):
        address = parse_address(name)
        head = find_tables(address.name, address.revision)
        return Pin("dataset", name, address.name, shards_hash(shards_of(head)), head.commit)
    place = find_data(name)
    if place.dataset is None:
        raise LockFileError(
            f"{name} is a folder, which other machines do not have. Lock a dataset of a hub, or publish this one "
            "with `costhub publish`."
        )
    return Pin("dataset", name, place.dataset, _hash_of_all_rows(place.folder))


def _hash_of_all_rows(folder: Path) -> str:
    """The hash of the shards of a dataset on this machine.

    Raises:
        LockError: Rows in a journal, which readers see, are in no shard.
    """
    journals = [path for path in sorted(folder.glob(f"measurements/*/{JOURNAL}")) if path.stat().st_size]
    if journals:
        raise LockError(
            f"{journals[0]} holds rows that no shard has yet, so no hash covers them. Let the collection end, or run "
            "it again: the next writer of the folder moves the rows to a shard."
        )
    return tables_hash(folder)


def lock(models: Iterable[str] = (), datasets: Iterable[str] = (), *, path: str | Path = LOCK_FILE) -> tuple[Pin, ...]:
    """Pins the current version of each name and writes the lock file, keeping existing pins of other names.

    If no names are given, all names in the file are pinned again, which picks up any updates of the hubs.

    Args:
        models: Names as for `costhub.pull`, except folders.
        datasets: Names as for `costhub.load_measurements`, except folders.
        path: The lock file; created if missing.

    Returns:
        All pins in the file, sorted by kind and name.

    Raises:
        LockFileError: The file is not a lock file, a name refers to a folder, or there is nothing to lock.
        LockError: A dataset has rows that are in no shard yet.
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
    pins |= {(kind, name): _readable(pin_model(name) if kind == "model" else pin_dataset(name)) for kind, name in names}
    ordered = tuple(pins[key] for key in sorted(pins))
    entries = [{key: value for key, value in vars(pin).items() if value is not None} for pin in ordered]
    write_replacing(path, (json.dumps({"version": LOCK_VERSION, "pins": entries}, indent=2) + "\n").encode())
    return ordered


def _readable(pin: Pin) -> Pin:
    """The pin; refuses one that `read_lock` would refuse."""
    if not REPOSITORY.fullmatch(pin.resolved):
        raise LockFileError(
            f"{pin.resolved} cannot be locked: a lock file takes names of the form ORG/NAME in letters, digits, `.`, "
            "`_` and `-`. Publish it under such a name."
        )
    return pin


def read_lock(path: str | Path = LOCK_FILE) -> tuple[Pin, ...]:
    """Reads the pins of a lock file.

    Raises:
        LockFileError: It is missing, or not a lock file that this costhub can read.
    """
    path = Path(path)
    if not path.exists():
        raise LockFileError(f"There is no {path}. `costhub lock NAME{_file(path)}` writes one.")
    try:
        text = read_regular(path, limit=MAX_LOCK_BYTES, error=LockFileError)
        content = json.loads(text, object_pairs_hook=_object)
        if isinstance(content, dict):  # Nothing else is known about a newer version.
            refuse_newer(content, newest=LOCK_VERSION, what=path, error=LockFileError)
        entries = content.get("pins") if isinstance(content, dict) else None
        if not isinstance(entries, list) or not all(isinstance(entry, dict) for entry in entries):
            raise ValueError("it should be an object with a list of pins")
        pins = tuple(_pin(entry) for entry in entries)
        if len({(pin.kind, pin.name) for pin in pins}) < len(pins):
            raise ValueError("it pins a name twice")
        return pins
    except (ValueError, RecursionError) as error:
        raise LockFileError(
            f"{path} is not a lock file of costhub: {error}. Remove it and write a new one with `costhub lock`."
        ) from error


def _object(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    """An object of the file. Of a key that occurs twice, a reader would see the first and Python takes the last."""
    found = dict(pairs)
    if len(found) < len(pairs):
        raise ValueError("a key occurs twice")
    return found


def _pin(entry: Mapping[str, Any]) -> Pin:
    kind, commit = entry.get("kind"), entry.get("commit")
    texts = [text for key in ("name", "resolved", "sha256") if isinstance(text := entry.get(key), str) and text]
    if kind not in ("model", "dataset") or len(texts) < 3:
        raise ValueError("a pin needs kind, name, resolved and sha256")
    name, resolved, sha256 = texts
    if not (name.isprintable() and resolved.isprintable()):
        raise ValueError("a name has characters that cannot be printed")
    if not REPOSITORY.fullmatch(resolved):
        raise ValueError("what a name stands for is not of the form ORG/NAME")
    if not _SHA256.fullmatch(sha256):
        raise ValueError("a sha256 is not 64 hexadecimal digits")
    if commit is not None and not (isinstance(commit, str) and _COMMIT.fullmatch(commit)):
        raise ValueError("a commit is not 40 to 64 hexadecimal digits")
    return Pin(kind, name, resolved, sha256, commit)


def check_lock(path: str | Path = LOCK_FILE) -> list[str]:
    """Compares the current versions with the pins of a lock file; returns one sentence per difference.

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
    """How the current version of a name differs from its pin; empty if it does not."""
    what = f"The {pin.kind} {clean(pin.name, 99)}"
    try:
        now = pin_model(pin.name) if pin.kind == "model" else pin_dataset(pin.name)
        if now.resolved != pin.resolved:
            return f"{what} stood for {clean(pin.resolved, 99)} and now stands for {now.resolved}. {_UPDATE}"
        if now.sha256 != pin.sha256:
            update = _REPLACED if pin.kind == "dataset" and pin.commit is None else _UPDATE
            return f"{what} is another version: its sha256 is {now.sha256[:12]}, not {pin.sha256[:12]}. {update}"
        if now.commit != pin.commit:
            return f"{what} is at commit {now.commit}, but {pin.commit} is locked. {_UPDATE}"
        if pin.kind == "model":
            verified_folder(find_model(pin.address))
    except CosthubError as error:
        return f"{what} cannot be compared: {error}"
    return ""


_REPLACED = (
    "A hub in a folder keeps only the newest version of a dataset, so the locked one is gone; `costhub lock` accepts "
    "the new one."
)
_UPDATE = "`costhub lock` accepts it; `costhub pull --locked` still fetches the locked version where a hub keeps it."


def _file(path: str | Path) -> str:
    """The option that names a lock file; none for the usual one."""
    return "" if Path(path) == Path(LOCK_FILE) else f" --file {shlex.quote(str(path))}"


def find_locked(name: str, *, path: str | Path = LOCK_FILE) -> ResolvedModel:
    """Finds a model in exactly the version of a lock file, whatever its name refers to now.

    Args:
        name: Name of a model in the lock file.
        path: The lock file.

    Raises:
        LockFileError: There is no lock file, or it lacks the name.
        LockError: No hub still has the locked version, or its hash differs.

    Example:
        >>> import tempfile
        >>> path = Path(tempfile.mkdtemp()) / "costhub.lock"
        >>> _ = lock(["nvidia-h200"], path=path)
        >>> find_locked("nvidia-h200", path=path).entry.name
        'costhub/nvidia-h200-blend'
    """
    _refuse_auto(name)
    pin = _pinned("model", name, path)
    try:
        found = find_model(pin.address)
        revision = found.entry.manifest.revision
    except CosthubError as error:
        raise LockError(f"{name} is not available as {path} locks it: {error}") from error
    if not found.entry.is_published:
        raise LockError(
            f"{clean(pin.address, 200)} is a folder on this machine, and {path} locks models of a hub. Remove the "
            "folder, or pull it by its path."
        )
    if revision != pin.sha256 or found.entry.name != pin.resolved:
        raise LockError(
            f"{clean(pin.address, 200)} has the sha256 {revision[:12]}, but {path} locks {pin.sha256[:12]}: its "
            "content has changed. Do not use it until you know why."
        )
    return found


def _pinned(kind: Kind, name: str, path: str | Path) -> Pin:
    """The pin of a name.

    Raises:
        LockFileError: There is no lock file, or it lacks the name.
    """
    pins = {pin.name: pin for pin in read_lock(path) if pin.kind == kind}
    if name not in pins:
        words = name if kind == "model" else f"--data {name}"
        raise LockFileError(f"{path} does not lock the {kind} {name}. Add it with `costhub lock {words}{_file(path)}`.")
    return pins[name]


def _refuse_auto(name: str) -> None:
    if name == AUTO:
        raise LockFileError(
            "`auto` stands for another model on another machine, so it is not locked. Lock the ORG/NAME that "
            "`costhub pull auto` says on stderr."
        )


def pull_locked(name: str, *, path: str | Path = LOCK_FILE, out: str | Path | None = None) -> Path:
    """Copies a model in exactly the version of a lock file, and checks every byte of it.

    Args:
        name: Name of a model in the lock file.
        path: The lock file.
        out: The model folder to create; by default a folder in the cache.

    Raises:
        LockError: As for `find_locked`.
        CosthubError: As for `costhub.pull`.

    Example:
        >>> import tempfile
        >>> path = Path(tempfile.mkdtemp()) / "costhub.lock"
        >>> _ = lock(["nvidia-h200"], path=path)
        >>> pull_locked("nvidia-h200", path=path).is_dir()
        True
    """
    return pull_resolved(find_locked(name, path=path), out=out)


def pull_locked_data(name: str, *, path: str | Path = LOCK_FILE) -> Path:
    """Finds a dataset in exactly the version of a lock file, and checks every byte of its shards.

    One on the Hugging Face hub is downloaded into the cache of its client, or found there when the hub cannot be
    reached.

    Args:
        name: Name of a dataset in the lock file.
        path: The lock file.

    Returns:
        A data folder, for reading only; every `--data` takes it.

    Raises:
        LockFileError: There is no lock file, or it lacks the name.
        LockError: No hub still has the locked version, its hash differs, or it has rows that are in no shard yet.

    Example:
        >>> import tempfile
        >>> path = Path(tempfile.mkdtemp()) / "costhub.lock"
        >>> _ = lock(datasets=["nvidia-h200"], path=path)
        >>> pull_locked_data("nvidia-h200", path=path).name
        'nvidia-h200'
    """
    pin = _pinned("dataset", name, path)
    try:
        if pin.commit is not None:
            return _locked_on_hub(pin, path)
        place = find_data(pin.resolved)
        if place.dataset is None:
            raise LockError(f"{pin.resolved} is a folder on this machine, and {path} locks datasets of a hub.")
        _compare(pin, _hash_of_all_rows(place.folder), path)
    except LockError:
        raise
    except CosthubError as error:
        raise LockError(f"{name} is not available as {path} locks it: {error}") from error
    return place.folder


def _locked_on_hub(pin: Pin, path: str | Path) -> Path:
    try:
        head = find_tables(pin.resolved, pin.commit)
    except HubError:
        cached = cached_folder(pin.resolved, str(pin.commit), TABLE_PATTERNS)
        if cached is None:
            raise
        _compare(pin, shards_hash(stored_shards(Path(cached))), path)
        return Path(cached)
    _compare(pin, shards_hash(shards_of(head)), path)
    return fetch_tables_at(pin.resolved, head)


def _compare(pin: Pin, sha256: str, path: str | Path) -> None:
    """Refuses data with another hash than the locked one."""
    if sha256 != pin.sha256:
        raise LockError(
            f"{clean(pin.address, 200)} has the sha256 {sha256[:12]}, but {path} locks {pin.sha256[:12]}: its content "
            "has changed. Do not use it until you know why: it was published again, a contribution was merged, or "
            "somebody edited the files."
        )
