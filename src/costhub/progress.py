"""Provides the one progress bar that every long command shows."""

from __future__ import annotations

from typing import Any

from tqdm import tqdm


def bar(total: int | None, *, desc: str, unit: str, enabled: bool = True) -> tqdm[Any]:
    """A progress bar on stderr, silent where stderr is no terminal.

    Args:
        total: How many steps there are; None where that is not known.
        desc: What is being done, in a word or two.
        unit: What one step is, for example "program".
        enabled: False keeps it silent on a terminal too.

    Returns:
        A tqdm bar to use in a `with`; call `.update(k)` after k steps.

    Example:
        >>> with bar(3, desc="measuring", unit="program") as progress:
        ...     done = progress.update(3)
    """
    # None is tqdm's own word for "silent unless the stream is a terminal".
    return tqdm(total=total, desc=desc, unit=unit, disable=None if enabled else True, dynamic_ncols=True)
