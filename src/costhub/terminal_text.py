"""Provides what text from strangers needs before a terminal shows it: clean and first_few."""

from __future__ import annotations

import re

_SHOWN_NAMES = 3


def first_few(names: list[str], count: int) -> str:
    """The first few of `count` names, safe for a terminal.

    Example:
        >>> first_few(["a", "b", "c", "d"], 9)
        'a, b, c, ...'
    """
    shown = [clean(name, 16) for name in names[:_SHOWN_NAMES]]
    return ", ".join([*shown, "..."] if count > len(shown) else shown)


def clean(text: str, length: int) -> str:
    r"""A stranger's text without characters that a terminal would interpret, shortened.

    Example:
        >>> clean("\x1b[31mred", 6)
        '?[31mr'
    """
    return re.sub(r"[^\x20-\x7e]", "?", text)[:length]
