"""Copies a verified model folder to a new place, whole or not at all."""

from __future__ import annotations

import hashlib
import os
import shutil
import tempfile
from collections.abc import Callable
from pathlib import Path

from costhub.errors import ModelError
from costhub.hub.manifest import (
    MANIFEST,
    FileEntry,
    Manifest,
    check_entry,
    read_manifest,
    scan,
    write_manifest,
)

_CHUNK_BYTES = 1 << 20


def copy_verified(
    source: Path,
    target: Path,
    *,
    manifest: Manifest | None = None,
    check: Callable[[Path], object] | None = None,
) -> Path:
    """Copies the files that the manifest of `source` lists into the new folder `target`.

    What is hashed is what is written, so a file changed meanwhile cannot slip in. An equal `target` is kept.

    Args:
        source: A model folder.
        target: The folder to make; may exist where it is empty.
        manifest: What to copy; by default the manifest that lies in `source`.
        check: Looks at a new copy before it has its name, and raises where that must not be.

    Raises:
        ModelError: A file differs from the manifest, or `target` holds something else.
        CosthubError: What `check` raises; there is no copy then.
    """
    manifest = manifest or read_manifest(source)
    if holds(target, manifest):
        return target
    _refuse_occupied(target)
    target.parent.mkdir(parents=True, exist_ok=True)
    temporary = Path(tempfile.mkdtemp(prefix=f".{target.name}-", dir=target.parent))
    try:
        for name, entry in manifest.files.items():
            _copy_file(source / name, temporary / name, name, entry)
        write_manifest(temporary)
        if check is not None:
            check(temporary)
        temporary.chmod(0o755)
        _move_into_place(temporary, target, manifest)
    finally:
        shutil.rmtree(temporary, ignore_errors=True)
    return target


def holds(folder: Path, manifest: Manifest) -> bool:
    """Whether `folder` holds exactly the files of `manifest`, byte for byte."""
    return folder.is_dir() and scan(folder).revision == manifest.revision


def _refuse_occupied(target: Path) -> None:
    if target.is_symlink() or (target.exists() and (not target.is_dir() or any(target.iterdir()))):
        raise ModelError(
            f"{target} exists and is not this model; nothing was overwritten. "
            "Remove it, or name another folder with --out."
        )


def _copy_file(source: Path, target: Path, name: str, expected: FileEntry) -> None:
    target.parent.mkdir(parents=True, exist_ok=True)
    digest, size = hashlib.sha256(), 0
    try:
        reader = source.open("rb")
    except (FileNotFoundError, IsADirectoryError):
        raise ModelError(
            f"{source} is missing, though {MANIFEST} lists it. Fetch the folder again."
        ) from None
    with reader, target.open("wb") as writer:
        # One byte beyond the promised size is enough to know that the file is another one.
        while size <= expected.size and (chunk := reader.read(min(_CHUNK_BYTES, expected.size + 1 - size))):
            digest.update(chunk)
            writer.write(chunk)
            size += len(chunk)
        writer.flush()
        os.fsync(writer.fileno())
    if size > expected.size:
        size = source.stat().st_size
    check_entry(source, name, expected, FileEntry(digest.hexdigest(), size))


def _move_into_place(temporary: Path, target: Path, manifest: Manifest) -> None:
    try:
        temporary.rename(target)
    except OSError:
        # Another process may have put the same model there between the check and now.
        if not holds(target, manifest):
            _refuse_occupied(target)
            raise
