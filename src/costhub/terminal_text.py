"""Provides text for terminals: clean, shown and first_few for untrusted texts, wrapped, and Printed for results."""

from __future__ import annotations

import os
import re
import textwrap
from typing import TextIO

_SHOWN_NAMES = 3


class Printed:
    """A result that an interactive session shows as ``print`` does.

    Example:
        >>> class Count(Printed):
        ...     def __str__(self) -> str:
        ...         return "3 programs"
        >>> Count()
        3 programs
    """

    __slots__ = ()

    def __repr__(self) -> str:
        return str(self)


def first_few(names: list[str], count: int) -> str:
    """The first few of `count` names, safe for a terminal.

    Example:
        >>> first_few(["a", "b", "c", "d"], 9)
        'a, b, c, ...'
    """
    few = [clean(name, 16) for name in names[:_SHOWN_NAMES]]
    return ", ".join([*few, "..."] if count > len(few) else few)


def shown(text: str) -> str:
    r"""Any text, of any length and script, without characters that a terminal would interpret or reverse.

    Example:
        >>> shown("caf\u00e9 \x1b[31mred \u202egpj")
        'caf\xe9 ?[31mred ?gpj'
    """
    return "".join(letter if letter.isprintable() or letter == "\n" else "?" for letter in text)


def clean(text: str, length: int) -> str:
    r"""An untrusted text without characters that a terminal would interpret, shortened.

    Example:
        >>> clean("\x1b[31mred", 6)
        '?[31mr'
    """
    return re.sub(r"[^\x20-\x7e]", "?", text)[:length]


def wrapped(text: str, width: int) -> str:
    """A message in lines of at most `width` characters, broken between words and never inside a `command`.

    Example:
        >>> print(wrapped("It is not probed: run `costhub probe --isa avx2` (25 s) once.", 30))
        It is not probed: run
        `costhub probe --isa avx2` (25
        s) once.
    """
    whole = re.sub(r"`[^`\n]+`", lambda code: code[0].replace(" ", "\0"), text)
    lines = [
        textwrap.wrap(line, width, break_long_words=False, break_on_hyphens=False) or [""]
        for line in whole.splitlines()
    ]
    return "\n".join(part for line in lines for part in line).replace("\0", " ")


def for_stream(text: str, stream: TextIO) -> str:
    """A message as printed to a stream: wrapped if the stream is a terminal of known width."""
    try:
        width = os.get_terminal_size(stream.fileno()).columns if stream.isatty() else 0
    except (OSError, ValueError):
        width = 0
    return wrapped(text, width) if width else text


def counted(n: int, noun: str, plural: str = "") -> str:
    """A count with its noun in English.

    Args:
        n: The count.
        noun: The noun in the singular.
        plural: Its plural, if that takes more than an s.

    Example:
        >>> counted(1, "workload"), counted(1200, "workload")
        ('1 workload', '1,200 workloads')
    """
    return f"{n:,} {noun if n == 1 else plural or f'{noun}s'}"
