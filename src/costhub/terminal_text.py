"""Provides what text from strangers needs before a terminal shows it: clean, shown and first_few."""

from __future__ import annotations

import re

_SHOWN_NAMES = 3


def first_few(names: list[str], count: int) -> str:
    """The first few of `count` names, safe for a terminal.

    Example:
        >>> first_few(["a", "b", "c", "d"], 9)
        'a, b, c, ...'
    """
    few = [clean(name, 16) for name in names[:_SHOWN_NAMES]]
    return ", ".join([*few, "..."] if count > len(few) else few)


def shown(text: str) -> str:
    r"""Any text, of any length and script, without what a terminal would interpret or turn around.

    Example:
        >>> shown("caf\u00e9 \x1b[31mred \u202egpj")
        'caf\xe9 ?[31mred ?gpj'
    """
    return "".join(letter if letter.isprintable() or letter == "\n" else "?" for letter in text)


def clean(text: str, length: int) -> str:
    r"""A stranger's text without characters that a terminal would interpret, shortened.

    Example:
        >>> clean("\x1b[31mred", 6)
        '?[31mr'
    """
    return re.sub(r"[^\x20-\x7e]", "?", text)[:length]
