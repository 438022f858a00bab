"""Provides close_names and close_or_all: what a mistyped name may have meant."""

from __future__ import annotations

import difflib
from collections.abc import Sequence


def close_names(name: str, known: Sequence[str], *, most: int = 3) -> list[str]:
    """The known names closest to `name`, best first; empty when none is close.

    Example:
        >>> close_names("resnet81", ["resnet18", "matmul"])
        ['resnet18']
    """
    folded = {k.casefold(): k for k in known}
    return [folded[c] for c in difflib.get_close_matches(name.casefold(), list(folded), n=most, cutoff=0.5)]


def close_or_all(name: str, known: Sequence[str]) -> list[str]:
    """The known names closest to `name`, or all of a short list where none is close.

    Example:
        >>> close_or_all("forest", ["mlp", "gbt"])
        ['mlp', 'gbt']
    """
    return close_names(name, known) or list(known)
