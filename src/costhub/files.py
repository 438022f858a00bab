"""Provides file helpers for every stage: caches, bounded reads, atomic folder swaps, format versions."""

from __future__ import annotations

import hashlib
import math
import os
import secrets
import shutil
import stat
from collections.abc import Mapping
from pathlib import Path
from typing import Any, BinaryIO

from costhub.errors import ArgumentError, CosthubError

CACHE_VARIABLE = "COSTHUB_CACHE"
MAX_REPORT_BYTES = 256 << 20
"""Size limit of the `report.json` of a search or a compilation."""
_PIECE = 1 << 20


def cache_root() -> Path:
    """The folder for pulled models and features: $COSTHUB_CACHE, or ~/.cache/costhub.

    Raises:
        ArgumentError: It is below the home of a user who has none, as in some containers.
    """
    chosen = os.environ.get(CACHE_VARIABLE) or "~/.cache/costhub"
    try:
        return Path(chosen).expanduser()
    except RuntimeError as error:
        raise ArgumentError(
            f"This user has no home for the cache ({chosen}). Set {CACHE_VARIABLE} to a folder of your own."
        ) from error


def is_own(path: Path) -> bool:
    """Whether this user or root owns a file or folder: in a shared cache, files from others are not trusted.

    A link belongs to whoever made it.

    Example:
        >>> is_own(Path("/"))
        True
    """
    try:
        return path.lstat().st_uid in (0, os.geteuid())
    except OSError:
        return False


def open_regular(
    path: str | Path, *, limit: int | None = None, follow: bool = True, error: type[CosthubError] = CosthubError
) -> BinaryIO:
    """Opens an untrusted file: never waits on a FIFO, never reads a device or more than `limit` bytes.

    Args:
        path: The file.
        limit: Maximum size of the file in bytes; None for no limit.
        follow: Whether a symbolic link at `path` itself is followed. Pass False inside an untrusted folder.
        error: The error class to raise.

    Returns:
        The file, open for reading in binary mode, at its beginning.

    Raises:
        CosthubError: `error`, if `path` is missing, is not a regular file, is a link that must not be followed,
            may not be read, or is larger than `limit`.

    Example:
        >>> import tempfile
        >>> path = Path(tempfile.mkdtemp()) / "pipe"
        >>> os.mkfifo(path)
        >>> open_regular(path).close()  # doctest: +ELLIPSIS
        Traceback (most recent call last):
        costhub.errors.CosthubError: .../pipe is a named pipe. A regular file was expected.
    """
    # O_NONBLOCK: opening a FIFO without a writer would never return. For regular files it changes nothing.
    flags = os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC | (0 if follow else os.O_NOFOLLOW)
    try:
        if not follow and stat.S_ISLNK(os.lstat(path).st_mode):
            raise error(f"{path} is a symbolic link. A regular file was expected.")
        descriptor = os.open(path, flags)
    except OSError as cause:
        raise error(f"{path} cannot be read ({cause.strerror}).") from cause
    try:
        status = os.fstat(descriptor)
        if not stat.S_ISREG(status.st_mode):
            raise error(f"{path} is {kind_name(status.st_mode)}. A regular file was expected.")
        if limit is not None and status.st_size > limit:
            raise error(f"{path} has {status.st_size:,} bytes. At most {limit:,} are read.")
        return os.fdopen(descriptor, "rb")
    except BaseException:
        os.close(descriptor)
        raise


def read_regular(
    path: str | Path, *, limit: int, follow: bool = True, error: type[CosthubError] = CosthubError
) -> bytes:
    """Reads an untrusted file; see `open_regular`.

    Raises:
        CosthubError: `error`, for the reasons of `open_regular`, or if the file grew beyond `limit` in the meantime.

    Example:
        >>> import tempfile
        >>> path = Path(tempfile.mkdtemp()) / "a.json"
        >>> _ = path.write_text("{}")
        >>> read_regular(path, limit=2)
        b'{}'
    """
    with open_regular(path, limit=limit, follow=follow, error=error) as file:
        content = file.read(limit + 1)
    if len(content) > limit:
        raise error(f"{path} grew while it was read, beyond the {limit:,} bytes that are read at most.")
    return content


def hash_regular(path: Path, *, limit: int | None = None, error: type[CosthubError] = CosthubError) -> tuple[str, int]:
    """Returns the sha256, in hexadecimal, and the size in bytes of a file, which is read in pieces.

    Args:
        path: The file.
        limit: Maximum size of the file in bytes; None for no limit.
        error: The error class to raise.

    Raises:
        CosthubError: `error`, as in `open_regular`.
    """
    digest, size = hashlib.sha256(), 0
    with open_regular(path, limit=limit, error=error) as file:
        while piece := file.read(_PIECE):
            digest.update(piece)
            size += len(piece)
    return digest.hexdigest(), size


def copy_regular(
    source: str | Path, target: str | Path, *, limit: int, follow: bool = True, error: type[CosthubError] = CosthubError
) -> int:
    """Copies an untrusted file (see `open_regular`) to a new file, and returns its size in bytes.

    Raises:
        CosthubError: `error`, for the reasons of `open_regular`, or if the file grew beyond `limit` in the meantime.

    Example:
        >>> import tempfile
        >>> path = Path(tempfile.mkdtemp()) / "a.json"
        >>> _ = path.write_text("{}")
        >>> copy_regular(path, path.with_name("b.json"), limit=2)
        2
    """
    size = 0
    with open_regular(source, limit=limit, follow=follow, error=error) as reader, open(target, "xb") as writer:
        while block := reader.read(min(_PIECE, limit + 1 - size)):
            size += len(block)
            if size > limit:
                raise error(f"{source} grew while it was copied, beyond the {limit:,} bytes that are read at most.")
            writer.write(block)
    return size


def kind_name(mode: int) -> str:
    """Names the kind of a file that is not a regular one, given its `st_mode`.

    Example:
        >>> kind_name(os.stat("/").st_mode)
        'a folder'
    """
    kinds = {
        stat.S_IFDIR: "a folder",
        stat.S_IFIFO: "a named pipe",
        stat.S_IFSOCK: "a socket",
        stat.S_IFCHR: "a device",
        stat.S_IFBLK: "a device",
    }
    return kinds.get(stat.S_IFMT(mode), "no file")


def write_replacing(path: Path, content: bytes) -> None:
    """Replaces a file atomically, in a folder that may be untrusted: at any moment it is the old or the new one.

    A link or a pipe at `path` is replaced: writing through it would change another file, or never return.

    Args:
        path: The file.
        content: The new content.

    Raises:
        OSError: The folder cannot be written to, or `path` is a folder.

    Example:
        >>> import tempfile
        >>> path = Path(tempfile.mkdtemp()) / "pipe"
        >>> os.mkfifo(path)
        >>> write_replacing(path, b"{}")
        >>> path.read_text()
        '{}'
    """
    temporary = path.with_name(f".{path.name}-{secrets.token_hex(6)}")
    try:
        with temporary.open("xb") as file:
            file.write(content)
        temporary.replace(path)
    finally:
        temporary.unlink(missing_ok=True)


def swap_in(folder: Path, made: Path, old: Path) -> None:
    """Renames `made` to `folder`; if interrupted, puts the old folder back, or reports where it is.

    Args:
        folder: The folder to replace.
        made: Its replacement, on the same disk.
        old: A free name on that disk for the old folder meanwhile, somewhere nothing gets cleaned up.

    Raises:
        CosthubError: The old folder could not be put back.

    Example:
        >>> import tempfile
        >>> place = Path(tempfile.mkdtemp())
        >>> for name in ("kept", "made"):
        ...     (place / name / f"of-{name}").mkdir(parents=True)
        >>> swap_in(place / "kept", place / "made", place / "old")
        >>> [str(path.relative_to(place)) for path in sorted(place.rglob("*"))]
        ['kept', 'kept/of-made']
    """
    try:
        folder.rename(old)
        made.rename(folder)
    except BaseException as error:
        if made.exists() and old.exists():
            try:
                old.rename(folder)
            except OSError as again:
                raise CosthubError(
                    f"{folder} could not be put back ({type(error).__name__}). All it held is in {old}: move "
                    f"that folder back to {folder} by hand."
                ) from again
        raise
    finally:
        if not made.exists():
            if old.is_symlink():
                old.unlink()
            shutil.rmtree(old, ignore_errors=True)


def refuse_newer(content: Mapping[str, Any], *, newest: int, what: str | Path, error: type[CosthubError]) -> None:
    """Checks the `version` of a JSON object before it is used for anything else.

    Args:
        content: The object. Without a version it counts as version 1: the first releases did not always write one.
        newest: The newest version supported here; all earlier ones are supported too.
        what: The file, for the message.
        error: The error class to raise.

    Raises:
        CosthubError: `error`, if the version is newer or not a number.

    Example:
        >>> from costhub.errors import DataError
        >>> refuse_newer({"version": 2}, newest=1, what="a.json", error=DataError)
        Traceback (most recent call last):
        costhub.errors.DataError: a.json has version 2, this costhub reads up to 1. Update costhub.
    """
    version = content.get("version", 1)
    if type(version) is not int or not 1 <= version <= newest:
        raise error(f"{what} has version {version!r:.40}, this costhub reads up to {newest}. Update costhub.")


def as_number(value: object) -> float | None:
    """The value if it is a finite number, else None; untrusted files may contain other things.

    Example:
        >>> as_number(3), as_number("3"), as_number(float("inf"))
        (3.0, None, None)
    """
    if isinstance(value, bool) or not isinstance(value, int | float):
        return None
    try:
        number = float(value)
    except OverflowError:
        return None
    return number if math.isfinite(number) else None
