"""Provides agreed: asks before anything leaves this machine."""

from __future__ import annotations

import sys

import click

from costhub.errors import RefusedError


def agreed(question: str, *, yes: bool, verb: str) -> bool:
    """Asks the user to confirm, unless `--yes` was given.

    Args:
        question: Ends with a question mark.
        yes: Whether --yes was given.
        verb: The command, for the sentence.

    Raises:
        RefusedError: There is no terminal on which to ask.
    """
    if yes:
        return True
    if not sys.stdin.isatty():
        raise RefusedError(
            "Nothing was sent: there is no terminal on which to ask for confirmation. To confirm in advance, "
            f"run `costhub {verb} --yes`."
        )
    return click.confirm(question, default=False, err=True)


def in_bytes(size: int) -> str:
    """A size in a readable unit.

    Example:
        >>> in_bytes(999), in_bytes(4_161_119)
        ('999 B', '4.2 MB')
    """
    shown = float(size)
    for unit in ("B", "kB", "MB", "GB"):
        if shown < 1000 or unit == "GB":
            break
        shown /= 1000
    return f"{shown:.0f} B" if unit == "B" else f"{shown:.1f} {unit}"
