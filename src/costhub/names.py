"""Provides close_names: suggestions for a mistyped name; and names shared by several stages."""

from __future__ import annotations

import difflib
from collections.abc import Sequence

EMULATOR = "emulator"
"""The vendor of an emulated CPU: measurements there are of the emulation."""


def close_names(name: str, known: Sequence[str], *, most: int = 3) -> list[str]:
    """The known names closest to `name`, best first; empty if none is close.

    Example:
        >>> close_names("resnet81", ["resnet18", "matmul"])
        ['resnet18']
    """
    folded = {k.casefold(): k for k in known}
    return [folded[c] for c in difflib.get_close_matches(name.casefold(), list(folded), n=most, cutoff=0.5)]
