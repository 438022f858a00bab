"""Provides own_traces and personal_texts: what of this machine and its user would go along to a hub."""

from __future__ import annotations

import contextlib
import getpass
import re
import socket
from collections.abc import Iterable, Mapping
from pathlib import Path

import pyarrow as pa
import pyarrow.compute as pc

from costhub.dataset.check.personal import COLUMNS, kinds
from costhub.dataset.folder import DataFolder

_TEXTS = (*(name for name in COLUMNS if name != "contributor"), "space")
"""Who measured says so in `contributor`, and agrees to it by sending it."""
_DEVICE_TEXTS = ("device_id", "aliases", "model_name", "driver", "probe_method", "governor")
_GENERIC = frozenset(
    {"localhost", "root", "user", "users", "home", "ubuntu", "debian", "runner", "admin", "nobody", "builder"}
)
_SHORTEST = 4
"""A shorter name stands in too many words."""


def personal_texts(files: Mapping[str, Path]) -> list[str]:
    """Finds what cards and configurations tell of a person's machine.

    An e-mail address in a card is meant to be read, so it stays.

    Args:
        files: Path in the repository -> file; only `.md` and `.json` are looked at.

    Returns:
        Sentences, one for each file and kind; empty where there is none.
    """
    names = own_names()
    found = []
    for name, path in files.items():
        if path.suffix not in (".md", ".json"):
            continue
        text = path.read_text(encoding="utf-8", errors="replace")
        told = [kind for kind in kinds(text, is_version=True) if "e-mail" not in kind]
        told += [f"{own!r}, a name of this machine or its user" for own in names if _stands_in(own, text)]
        found += [f"{name} holds {kind}." for kind in told]
    return found


def own_names() -> tuple[str, ...]:
    """The names of this machine and of its user, without those that tell nothing.

    Example:
        >>> "root" in own_names()
        False
    """
    found = {socket.gethostname(), socket.gethostname().partition(".")[0], Path.home().name}
    with contextlib.suppress(OSError, KeyError):  # a user without a name, as in some containers
        found.add(getpass.getuser())
    return tuple(sorted(n for n in found if len(n) >= _SHORTEST and n.casefold() not in _GENERIC))


def own_traces(folder: str | Path, names: Iterable[str] | None = None) -> list[str]:
    """Finds names in the texts of a data folder.

    Args:
        folder: The data folder.
        names: What is looked for, as whole words in any case; by default `own_names`.

    Returns:
        Sentences, one for each column and name; empty where there is none.

    Raises:
        DataError: The folder cannot be read.
    """
    wanted = [name for name in (own_names() if names is None else names) if name]
    opened = DataFolder.open(folder)
    devices = opened.devices(_DEVICE_TEXTS)
    found: set[tuple[str, str]] = set()
    for batch in [*devices.to_batches(), *opened.iter_measurements(columns=_TEXTS)]:
        for column in batch.schema.names:
            texts = _flat(batch.column(column))
            found |= {(column, name) for name in wanted if _holds(texts, name)}
    return [
        f"The column {column} holds {name!r}, a name of this machine or its user."
        for column, name in sorted(found)
    ]


def _stands_in(name: str, text: str) -> bool:
    return re.search(rf"(?<!\w){re.escape(name)}(?!\w)", text, re.IGNORECASE) is not None


def _flat(column: pa.Array) -> pa.Array:
    return pc.list_flatten(column) if pa.types.is_list(column.type) else column


def _holds(texts: pa.Array, name: str) -> bool:
    pattern = rf"(?i)(^|[^\pL\pN_]){re.escape(name)}($|[^\pL\pN_])"
    return bool(pc.any(pc.match_substring_regex(texts, pattern)).as_py())
