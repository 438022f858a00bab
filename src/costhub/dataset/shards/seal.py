"""Provides the seal of a shard: a hash of the whole file, kept in its footer, that any changed byte breaks.

Parquet's own page checksums say nothing of the footer, and a footer with a flipped bit can bring its
parser down. The seal is looked at before any parser sees the file. It tells damage and tools that rewrite
files; it is no signature: who wants to forge a shard can seal it again.
"""

from __future__ import annotations

import hashlib
import os
from pathlib import Path
from typing import BinaryIO, Literal

SEAL_KEY = "costhub.seal"
BLANK = "0" * 64
"""The value that a file is written with, and that its hash is taken over."""

SealState = Literal["sealed", "broken", "missing"]

_MAGIC = b"PAR1"
# In Thrift's compact protocol, which Parquet footers are written in, 0x18 is a text field that follows the
# one before; then come the length (a key of 12 bytes, a value of 64) and the text.
_MARK = b"\x18" + bytes([len(SEAL_KEY)]) + SEAL_KEY.encode() + b"\x18\x40"
_BLOCK = 1 << 20


def write_seal(path: Path) -> None:
    """Replaces the blank seal of a Parquet file by its hash.

    Raises:
        ValueError: The file was not written with the key-value pair (SEAL_KEY, BLANK).
    """
    with path.open("r+b") as file:
        place = _place(file)
        if place is None:
            raise ValueError(f"{path} has no place for a seal.")
        digest = _digest(file, place)
        file.seek(place)
        file.write(digest)
        file.flush()
        os.fsync(file.fileno())


def seal_state(path: Path) -> SealState:
    """Tells whether a file is as costhub wrote it, by reading it once; nothing of it is parsed.

    Returns:
        "sealed" where it is; "broken" where a byte has changed since; "missing" where it has no seal, because
        something else wrote it or because its end is damaged.
    """
    with path.open("rb") as file:
        place = _place(file)
        if place is None:
            return "missing"
        file.seek(place)
        return "sealed" if file.read(len(BLANK)) == _digest(file, place) else "broken"


def _place(file: BinaryIO) -> int | None:
    """Position of the seal's 64 digits; None where there is not exactly one seal in a footer."""
    size = file.seek(0, os.SEEK_END)
    if size < 12:
        return None
    file.seek(size - 8)
    length, magic = int.from_bytes(file.read(4), "little"), file.read(4)
    if magic != _MAGIC or length > size - 12:
        return None
    start = size - 8 - length
    file.seek(start)
    footer = file.read(length)
    found = footer.find(_MARK)
    place = found + len(_MARK)
    if found < 0 or footer.find(_MARK, place) >= 0 or place + len(BLANK) > length:
        return None
    return start + place


def _digest(file: BinaryIO, place: int) -> bytes:
    """The hash of the file with a blank seal, as 64 hex digits."""
    sha = hashlib.sha256()
    file.seek(0)
    for _ in range(place // _BLOCK):
        sha.update(file.read(_BLOCK))
    sha.update(file.read(place % _BLOCK) + BLANK.encode())
    file.seek(len(BLANK), os.SEEK_CUR)
    while block := file.read(_BLOCK):
        sha.update(block)
    return sha.hexdigest().encode()
