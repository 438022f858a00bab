"""Provides read_ubjson: the binary JSON that XGBoost writes, read in pure Python, within bounds."""

from __future__ import annotations

import struct
from collections.abc import Mapping
from typing import Any

import numpy as np

MAX_VALUES = 1 << 20
"""A tree has 23 values, counting each array as one; the largest model that costhub ships has 400 trees. A value
takes up to 200 bytes here, so a hostile file costs 0.2 GB in addition to its own size."""
MAX_DEPTH = 8
"""Nesting of objects and lists; XGBoost nests six levels."""
_INTEGERS = {
    kind: struct.Struct(f">{form}") for kind, form in zip((b"i", b"U", b"I", b"l", b"L"), "bBhiq", strict=True)
}
_LENGTH = _INTEGERS[b"L"]
_ARRAYS: Mapping[bytes, np.dtype[Any]] = {
    b"d": np.dtype(">f4"),
    b"l": np.dtype(">i4"),
    b"L": np.dtype(">i8"),
    b"U": np.dtype("u1"),
}


class UbjsonError(ValueError):
    """The bytes are not what XGBoost writes; the message says where, as a phrase."""


def read_ubjson(data: bytes) -> dict[str, Any]:
    r"""Reads a UBJSON object in the form in which XGBoost writes it.

    XGBoost's own reader trusts its input. This one accepts the few forms that XGBoost uses and nothing else, so
    whoever reads the same bytes next reads the same values.

    Args:
        data: The whole file.

    Returns:
        The object. Typed arrays are NumPy views of `data`, integers are `int`, and ASCII texts are `str`.

    Raises:
        UbjsonError: The bytes are something else, are cut short, or hold too many values.

    Example:
        >>> read_ubjson(b"{L" + bytes(7) + b"\x02idi" + bytes([7]) + b"}")
        {'id': 7}
    """
    reader = _Reader(data)
    try:
        value = reader.value(0)
    except (IndexError, struct.error):
        raise UbjsonError("it is cut short") from None
    if not isinstance(value, dict):
        raise UbjsonError("it does not hold an object")
    if reader.at != len(data):
        raise UbjsonError(f"{len(data) - reader.at:,} bytes follow its end")
    return value


class _Reader:
    """A position in the bytes; each method reads what begins there, and moves past it."""

    __slots__ = ("at", "data", "left")

    def __init__(self, data: bytes) -> None:
        self.data, self.at, self.left = data, 0, MAX_VALUES

    def value(self, depth: int) -> Any:
        """A value nested in this many objects and lists."""
        self.left -= 1
        if self.left < 0:
            raise UbjsonError(f"it holds more than {MAX_VALUES:,} values")
        at = self.at
        kind = self.data[at : at + 1]
        self.at += 1
        if kind in (b"{", b"["):
            if depth == MAX_DEPTH:
                raise UbjsonError(f"it nests objects more than {MAX_DEPTH} deep")
            return self._object(depth + 1) if kind == b"{" else self._array(depth + 1)
        if kind == b"S":
            return self._text()
        form = _INTEGERS.get(kind)
        if form is None:
            raise UbjsonError(f"byte {at:,} does not begin a value that XGBoost writes" if kind else "it is cut short")
        self.at += form.size
        return form.unpack_from(self.data, at + 1)[0]

    def _length(self) -> int:
        number: int
        at = self.at
        if self.data[at : at + 1] != b"L":
            raise UbjsonError(f"byte {at:,} is not a length")
        (number,) = _LENGTH.unpack_from(self.data, at + 1)
        self.at = at + 9
        if not 0 <= number <= len(self.data) - self.at:
            raise UbjsonError(f"byte {at:,} is the length {number:,}, more than the file holds")
        return number

    def _text(self) -> str:
        end = self._length() + self.at
        raw, at = self.data[self.at : end], self.at
        if not raw.isascii() or b"\0" in raw:
            raise UbjsonError(f"byte {at:,} begins a text that is not plain ASCII")
        self.at = end
        return raw.decode("ascii")

    def _object(self, depth: int) -> dict[str, Any]:
        found: dict[str, Any] = {}
        while self.data[self.at] != 0x7D:  # }
            key = self._text()
            if key in found:
                raise UbjsonError(f"the key {key[:40]!r} occurs twice")
            found[key] = self.value(depth)
        self.at += 1
        return found

    def _array(self, depth: int) -> Any:
        at = self.at
        mark = self.data[at : at + 1]
        if mark == b"#":
            self.at += 1
            return [self.value(depth) for _ in range(self._length())]
        if mark != b"$":
            raise UbjsonError(f"byte {at:,} begins a list without its length")
        kind = _ARRAYS.get(self.data[at + 1 : at + 2])
        if kind is None or self.data[at + 2 : at + 3] != b"#":
            raise UbjsonError(f"byte {at:,} begins an array of a type that XGBoost does not write")
        self.at += 3
        number = self._length()
        start, size = self.at, number * kind.itemsize
        if size > len(self.data) - start:
            raise UbjsonError(f"byte {at:,} begins an array that is larger than the file")
        self.at += size
        return np.frombuffer(self.data, kind, number, start)
