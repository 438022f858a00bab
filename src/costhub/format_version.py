"""Provides refuse_newer: a file that a newer costhub wrote is refused with a sentence that says so."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from costhub.errors import CosthubError


def refuse_newer(
    content: Mapping[str, Any], *, newest: int, what: str | Path, error: type[CosthubError]
) -> None:
    """Looks at the `version` of a JSON object before anything else is made of it.

    Args:
        content: The object. One without a version is of version 1: the first releases wrote none everywhere.
        newest: The version that is read here; all before it are read too.
        what: The file, for the message.
        error: What is raised.

    Raises:
        CosthubError: `error`, where the version is newer or no number.

    Example:
        >>> from costhub.errors import DataError
        >>> refuse_newer({"version": 2}, newest=1, what="a.json", error=DataError)
        Traceback (most recent call last):
        costhub.errors.DataError: a.json has version 2, this costhub reads up to 1. Update costhub.
    """
    version = content.get("version", 1)
    if type(version) is not int or not 1 <= version <= newest:
        raise error(f"{what} has version {version!r:.40}, this costhub reads up to {newest}. Update costhub.")
