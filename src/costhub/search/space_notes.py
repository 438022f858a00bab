"""Provides SpaceNotes: from which design spaces a search's folder has its programs, so that none goes on in another."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from costhub.errors import DataError
from costhub.files import read_regular, refuse_newer, write_replacing
from costhub.terminal_text import clean

NOTES = "spaces.json"
KIND = "design spaces"
VERSION = 1
"""Version of `NOTES`; raised by one with every change that breaks programs reading it."""
_MOST_BYTES = 64 << 20
_SHOWN = 80
"""Letters of a name in a message; the file may be a stranger's."""


class SpaceNotes:
    """From which design space the programs of each workload in a search's folder were drawn.

    A database does not say, and a search stopped halfway leaves no report. A folder that an older costhub,
    `costhub doctor` or TVM wrote has no such file; a search may go on there in any space.

    Args:
        folder: The folder, in which no other search may write meanwhile.

    Raises:
        DataError: The file there is damaged or a link, or a newer costhub wrote it.

    Example:
        >>> import tempfile
        >>> SpaceNotes(Path(tempfile.mkdtemp())).path.name
        'spaces.json'
    """

    def __init__(self, folder: Path) -> None:
        self.path = folder / NOTES
        self._spaces = _read(self.path)
        self._is_changed = False

    def before(self, mod: Any, target: Any) -> str | None:
        """The design space of a workload's programs for a ``tvm.target.Target``; None if the folder does not say."""
        return self._spaces.get(_key(mod, target))

    def note(self, mod: Any, target: Any, space: str) -> None:
        """Notes the design space of a workload; `write` keeps what was noted."""
        self._is_changed |= self.before(mod, target) != space
        self._spaces[_key(mod, target)] = space

    def write(self) -> None:
        """Writes the file, if it would say anything new."""
        if self._is_changed:
            rows = [{"workload": mod, "target": target, "space": own} for (mod, target), own in self._spaces.items()]
            write_replacing(self.path, json.dumps({"costhub": KIND, "version": VERSION, "spaces": rows}).encode())
            self._is_changed = False

    def other(self, name: str, before: str, space: str) -> DataError:
        """The error for a search that would go on in another design space.

        Args:
            name: The workload's name.
            before: The design space of its programs in the folder.
            space: That of the search.
        """
        before = clean(before, _SHOWN)
        return DataError(
            f"The programs of {name} in {self.path.parent} were drawn from the design space {before}, and this search "
            f"would draw from {space}. It can go on with --space {before} (space={before!r} in Python) only; for "
            "another space, choose another folder."
        )


def _key(mod: Any, target: Any) -> tuple[str, str]:
    """What tells the records of a database apart: the workload's structure, and the target."""
    import tvm_ffi

    return str(tvm_ffi.structural_hash(mod)), str(target)


def _read(path: Path) -> dict[tuple[str, str], str]:
    if not path.exists() and not path.is_symlink():
        return {}
    try:
        content = json.loads(read_regular(path, limit=_MOST_BYTES, follow=False, error=DataError))
        if not isinstance(content, dict) or content.get("costhub") != KIND:
            raise ValueError("something else")
        refuse_newer(content, newest=VERSION, what=path, error=DataError)
        rows = [(row["workload"], row["target"], row["space"]) for row in content["spaces"]]
        if not all(isinstance(text, str) for row in rows for text in row):
            raise ValueError("no names")
    except (ValueError, LookupError, TypeError, RecursionError) as error:
        raise DataError(
            f"{path} should say from which design spaces the programs in its folder were drawn, and cannot be read. "
            "Move it away if you know that they are from the space of this search."
        ) from error
    return {(workload, target): space for workload, target, space in rows}
