"""Provides read_origin: which TVM measured the records of a database rewritten in the form of TVM 0.27."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from costhub.errors import DataError
from costhub.files import read_regular, refuse_newer

ORIGIN_FILE = "costhub_origin.json"
"""Beside the two files of a clean copy. TVM does not read it."""
FORMAT, VERSION = "costhub-database-origin", 1
MOST_BYTES = 16 << 20
"""Enough for 150,000 workloads."""
_ID = re.compile(r"[0-9a-f]{64}")
_TVM_VERSION = re.compile(r"[0-9A-Za-z.+_-]{1,40}")


def origin_text(tvm_versions: Mapping[str, str | None]) -> str:
    """Text about the workloads of a clean copy that TVM 0.27 did not write; `read_origin` reads it.

    Args:
        tvm_versions: Workload id -> the TVM that wrote it; None if unknown.

    Example:
        >>> origin_text({"0" * 64: "0.16.dev0"})[:47]
        '{"format": "costhub-database-origin", "version"'
    """
    content = {"format": FORMAT, "version": VERSION, "tvm_versions": dict(sorted(tvm_versions.items()))}
    return f"{json.dumps(content)}\n"


def read_origin(folder: Path) -> dict[str, str | None]:
    """Reads which TVM wrote workloads of a database before they were rewritten.

    The file is untrusted: only ids and versions are taken from it, and ids that the database lacks have
    no effect.

    Args:
        folder: The folder of the database.

    Returns:
        Workload id -> version, None if unknown; empty if there is no file.

    Raises:
        DataError: The file is damaged, too large or not a regular file, or a newer costhub wrote it.

    Example:
        >>> import tempfile
        >>> folder = Path(tempfile.mkdtemp())
        >>> _ = (folder / ORIGIN_FILE).write_text(origin_text({"0" * 64: "0.16.dev0"}))
        >>> read_origin(folder)["0" * 64]
        '0.16.dev0'
    """
    path = folder / ORIGIN_FILE
    if not path.exists() and not path.is_symlink():
        return {}
    try:
        content: Any = json.loads(read_regular(path, limit=MOST_BYTES, follow=False, error=DataError))
    except (ValueError, RecursionError) as error:
        raise _damaged(path) from error
    if not isinstance(content, dict) or content.get("format") != FORMAT:
        raise _damaged(path)
    refuse_newer(content, newest=VERSION, what=path, error=DataError)
    versions = content.get("tvm_versions")
    if not isinstance(versions, dict) or not all(_is_sound(*entry) for entry in versions.items()):
        raise _damaged(path)
    return versions


def _is_sound(workload_id: str, version: Any) -> bool:
    return _ID.fullmatch(workload_id) is not None and (version is None or is_tvm_version(version))


def is_tvm_version(value: Any) -> bool:
    """Whether a value from a file may be the version of a TVM; no other is kept.

    Example:
        >>> is_tvm_version("0.16.dev0"), is_tvm_version("0.16 of mine"), is_tvm_version(16)
        (True, False, False)
    """
    return isinstance(value, str) and _TVM_VERSION.fullmatch(value) is not None


def _damaged(path: Path) -> DataError:
    return DataError(
        f"{path} is not what `costhub doctor --fix` and `costhub merge` write, or it is damaged: it should say which "
        "TVM measured the records. Make the clean copy again, or delete the file: without it, the TVM that wrote the "
        "workloads is assumed, which is 0.27 for a copy."
    )
