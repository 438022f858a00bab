"""Provides Manifest, the sha256 and size of each file of a hub folder, and copy_verified, which checks against it."""

from __future__ import annotations

import contextlib
import hashlib
import json
import os
import shutil
import tempfile
import unicodedata
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path, PurePosixPath
from typing import Any, BinaryIO

from costhub.errors import ModelError
from costhub.files import hash_regular, open_regular, read_regular, refuse_newer, write_replacing

MANIFEST = "manifest.json"
MANIFEST_VERSION = 1
MAX_MANIFEST_BYTES = 1 << 20
MAX_FILES = 100
MAX_TOTAL_BYTES = 2 << 30
"""A cost model has a few MB; a larger folder is rejected before it fills a disk."""
_CHUNK_BYTES = 1 << 20


@dataclass(frozen=True)
class FileEntry:
    """The expected content of one file."""

    sha256: str
    size: int
    """In bytes."""


@dataclass(frozen=True)
class Manifest:
    """The files of a hub folder."""

    files: Mapping[str, FileEntry]
    """Relative path with forward slashes -> expected content."""

    @property
    def revision(self) -> str:
        """The sha256 over all entries: identifies the content, regardless of its folder."""
        lines = [f"{name} {entry.sha256} {entry.size}\n" for name, entry in sorted(self.files.items())]
        return hashlib.sha256("".join(lines).encode()).hexdigest()


def hash_file(path: Path) -> FileEntry:
    """The sha256 and size of a file, read in pieces.

    Raises:
        ModelError: It is missing or not a regular file.
    """
    return FileEntry(*hash_regular(path, error=ModelError))


def scan(folder: Path) -> Manifest:
    """The manifest that `folder` should have: every file except the manifest and hidden ones."""
    visible = visible_files(folder)
    return Manifest({name: hash_file(path) for name, path in visible.items() if name != MANIFEST})


def visible_files(folder: Path) -> dict[str, Path]:
    """Relative path with forward slashes -> file, in order, without hidden files and folders."""
    paths = sorted(p for p in folder.rglob("*") if p.is_file())
    names = {p.relative_to(folder).as_posix(): p for p in paths}
    return {n: p for n, p in names.items() if not any(s.startswith(".") for s in n.split("/"))}


def write_manifest(folder: Path) -> Manifest:
    """Writes `manifest.json` for the current files of `folder`."""
    manifest = scan(folder)
    files = {name: {"sha256": e.sha256, "size": e.size} for name, e in manifest.files.items()}
    content = {"version": MANIFEST_VERSION, "revision": manifest.revision, "files": files}
    write_replacing(folder / MANIFEST, (json.dumps(content, indent=2) + "\n").encode())
    return manifest


def read_manifest(folder: Path) -> Manifest:
    """Reads and checks `manifest.json`; does not check the files themselves.

    Raises:
        ModelError: It is missing, not a regular file, too large, malformed, names a file outside the folder, or lists
            too many files.
    """
    path = folder / MANIFEST
    if not os.path.lexists(path):
        raise ModelError(
            f"{folder} holds no {MANIFEST}, so its files cannot be verified: it is not a folder of a costhub hub."
        )
    raw = read_regular(path, limit=MAX_MANIFEST_BYTES, error=ModelError)
    try:
        content = json.loads(raw)
        refuse_newer(content, newest=MANIFEST_VERSION, what=path, error=ModelError)
        return _from_content(content)
    except (ValueError, KeyError, TypeError, AttributeError, OverflowError, RecursionError) as error:
        raise ModelError(f"{path} is not a manifest costhub can read ({error}). Fetch the folder again.") from error


def _from_content(content: Any) -> Manifest:
    files = {_confined(name): FileEntry(str(e["sha256"]), int(e["size"])) for name, e in content["files"].items()}
    if not files or len(files) > MAX_FILES:
        raise ValueError(f"it lists {len(files)} files, expected 1 to {MAX_FILES}")
    if any(entry.size < 0 for entry in files.values()):
        raise ValueError("it lists a file of negative size")
    if sum(entry.size for entry in files.values()) > MAX_TOTAL_BYTES:
        raise ValueError(f"its files add up to more than {MAX_TOTAL_BYTES} bytes")
    first, second = same_names(files)
    if second:
        raise ValueError(f"it names {first!r} and {second!r}, which are one file on some systems")
    manifest = Manifest(files)
    if content["revision"] != manifest.revision:
        raise ValueError("its revision is not the one of the files it lists")
    return manifest


def same_names(names: Iterable[str]) -> tuple[str, str]:
    """Finds two names that differ only in case or Unicode form; returns two empty strings if there are none.

    Disks on macOS or Windows can hold only one of them; the other would be lost or replace it.

    Example:
        >>> same_names(["config.json", "a.md", "CONFIG.json"])
        ('config.json', 'CONFIG.json')
    """
    seen: dict[str, str] = {}
    for name in names:
        # Compatibility forms count as equal too (a ligature in one file name, its two letters in the other).
        other = seen.setdefault(unicodedata.normalize("NFKC", name).casefold(), name)
        if other != name:
            return other, name
    return "", ""


def _confined(name: str) -> str:
    """Returns the name if it stays inside the folder and is not hidden."""
    parts = PurePosixPath(name).parts
    # A backslash or a colon is a separator or a drive on other systems.
    if not parts or any(p.startswith(".") or p == "/" for p in parts) or any(c in name for c in "\\:\0"):
        raise ValueError(f"it names {name!r}, which is not a plain path inside the folder")
    if not name.isprintable() or name == MANIFEST or PurePosixPath(name).as_posix() != name:
        raise ValueError(f"it names {name!r}")
    return name


def verify(folder: Path, manifest: Manifest | None = None) -> Manifest:
    """Checks every file of `folder` against a manifest, by default its own.

    Raises:
        ModelError: The manifest cannot be used, or a file is missing or differs from it.
    """
    manifest = manifest or read_manifest(folder)
    for name, expected in manifest.files.items():
        path = folder / name
        if not os.path.lexists(path):
            raise ModelError(f"{folder} lacks {name}, which its {MANIFEST} lists. Fetch the folder again.")
        _transfer(path, None, name, expected, follow=True)
    return manifest


def copy_verified(
    source: Path,
    target: Path,
    *,
    manifest: Manifest | None = None,
    check: Callable[[Path], object] | None = None,
    follow: bool = False,
) -> Path:
    """Copies the files that the manifest of `source` lists into the new folder `target`.

    The bytes hashed are the bytes written, so a file changed meanwhile cannot slip in. An identical `target` is kept.

    Args:
        source: A model folder.
        target: The folder to make; may exist if it is empty.
        manifest: The files to copy; by default the manifest in `source`.
        check: Called with a new copy before it gets its name; raises an error to reject it.
        follow: Whether `source` may contain links: in the cache of the Hugging Face client all files are links.

    Raises:
        ModelError: A file differs from the manifest or is not a regular file, or `target` contains something else.
        CosthubError: Whatever `check` raises; then no copy remains.
    """
    manifest = manifest or read_manifest(source)
    if holds_files(target, manifest):
        return target
    _refuse_occupied(target)
    target.parent.mkdir(parents=True, exist_ok=True)
    temporary = Path(tempfile.mkdtemp(prefix=f".{target.name}-", dir=target.parent))
    try:
        for name, entry in manifest.files.items():
            (temporary / name).parent.mkdir(parents=True, exist_ok=True)
            if not os.path.lexists(source / name):
                raise ModelError(f"{source / name} is missing, though {MANIFEST} lists it. Fetch the folder again.")
            _transfer(source / name, temporary / name, name, entry, follow=follow)
        write_manifest(temporary)
        if check is not None:
            check(temporary)
        temporary.chmod(0o755)
        _move_into_place(temporary, target, manifest)
    finally:
        shutil.rmtree(temporary, ignore_errors=True)
    return target


def holds_files(folder: Path, manifest: Manifest) -> bool:
    """Whether `folder` holds exactly the files of `manifest`, byte for byte."""
    # Names and sizes first: it may be any folder of a person, with far more in it than a model.
    for name, entry in manifest.files.items():
        if not (folder / name).is_file() or (folder / name).stat().st_size != entry.size:
            return False
    if visible_files(folder).keys() - {MANIFEST} != manifest.files.keys():
        return False
    return scan(folder).revision == manifest.revision


def _refuse_occupied(target: Path) -> None:
    if target.is_symlink() or (target.exists() and (not target.is_dir() or any(target.iterdir()))):
        raise ModelError(
            f"{target} exists and differs from this model; nothing was overwritten. "
            "Remove it, or name another folder with --out."
        )


def _transfer(path: Path, target: Path | None, name: str, expected: FileEntry, *, follow: bool) -> None:
    """Reads a file once, into `target` if there is one, and compares it with the manifest; its size comes first.

    Raises:
        ModelError: Size or sha256 differ, or it is not a regular file.
    """
    with open_regular(path, follow=follow, error=ModelError) as source:
        got = _copied(source, target, expected.size)
    if got.size != expected.size:
        raise ModelError(
            f"{path} is damaged: {MANIFEST} says {name} has {expected.size} bytes, it has {got.size}. "
            "Fetch the folder again."
        )
    if got.sha256 != expected.sha256:
        raise ModelError(
            f"{path} is damaged or was changed: {MANIFEST} says its sha256 is {expected.sha256[:12]}…, "
            f"it is {got.sha256[:12]}…. Fetch the folder again."
        )


def _copied(source: BinaryIO, target: Path | None, expected_size: int) -> FileEntry:
    """Hash and size of a file, which is read and written to `target` only if it has the expected size."""
    size = os.fstat(source.fileno()).st_size
    if size != expected_size:
        return FileEntry("", size)
    digest, left = hashlib.sha256(), size
    with contextlib.ExitStack() as stack:
        writer = stack.enter_context(target.open("xb")) if target else None
        # A file that grows meanwhile is not read beyond its size.
        while left and (chunk := source.read(min(_CHUNK_BYTES, left))):
            digest.update(chunk)
            left -= len(chunk)
            if writer is not None:
                writer.write(chunk)
        if writer is not None:
            writer.flush()
            os.fsync(writer.fileno())
    return FileEntry(digest.hexdigest(), size - left)


def _move_into_place(temporary: Path, target: Path, manifest: Manifest) -> None:
    try:
        temporary.rename(target)
    except OSError:
        # Another process may have put the same model there between the check and now.
        if not holds_files(target, manifest):
            _refuse_occupied(target)
            raise
