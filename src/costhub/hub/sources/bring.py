"""Provides bring_source: downloads published measurements from their git repository into this machine's cache."""

from __future__ import annotations

import hashlib
import os
import shutil
import tempfile
from collections.abc import Iterator, Sequence
from pathlib import Path, PurePosixPath

from costhub.dataset.ansor.log import COMPRESSIONS
from costhub.dataset.metaschedule.lines import RECORDS_FILE, WORKLOADS_FILE
from costhub.dataset.metaschedule.sqlite_form import SQLITE_FILES
from costhub.errors import HubError
from costhub.files import cache_root, is_own
from costhub.hub.sources.catalogue import PublicSource
from costhub.hub.sources.git import PROTOCOLS, GitFile, GitRevision

MOST_FILE_BYTES = 4 << 30
"""Size limit for one file of a source."""
MOST_SOURCE_FILES = 2000

_LICENCES = ("LICENSE", "LICENSE.txt", "LICENSE.md", "COPYING")
_DATABASE_FILES = {name: (name, f"{name}.gz", SQLITE_FILES[name]) for name in (WORKLOADS_FILE, RECORDS_FILE)}
_LOGS = (".json", ".jsonl", ".log", ".gz", ".xz")


def source_folder(source: PublicSource) -> Path:
    """The folder for the downloaded files of a source; a revision never changes, so neither do they."""
    place = hashlib.sha256(f"{source.repository}\n{source.folder}".encode()).hexdigest()[:16]
    return cache_root() / "sources" / f"{place}-{source.revision[:16]}"


def bring_source(source: PublicSource, *, protocols: Sequence[str] = PROTOCOLS) -> Path:
    """Downloads the files of a source, unless already present, and the licence of their repository.

    Args:
        source: A source from `load_sources`.
        protocols: The protocols that git may use.

    Returns:
        A folder of regular files.

    Raises:
        HubError: The repository cannot be fetched, or contains something other than such measurements there.
    """
    folder = source_folder(source)
    if folder.is_dir():
        if not is_own(folder):
            raise HubError(
                f"{folder} belongs to somebody else, so its files are not used. Set COSTHUB_CACHE to a folder of yours."
            )
        return folder
    folder.parent.mkdir(parents=True, exist_ok=True)
    made = Path(tempfile.mkdtemp(prefix=".new-", dir=folder.parent))
    try:
        with GitRevision(source.repository, source.revision, protocols=protocols) as revision:
            wanted = dict(_wanted(source, revision.files(source.folder)))
            top = {file.path: file for file in revision.top_files()}
            wanted |= {name: top[name] for name in _LICENCES if name in top}
            targets = [made / name for name in wanted]
            for target in targets:
                target.parent.mkdir(parents=True, exist_ok=True)
            revision.copy(list(wanted.values()), targets, limit=MOST_FILE_BYTES)
        try:
            os.rename(made, folder)
        except OSError:
            if not folder.is_dir():  # otherwise another process was faster
                raise
    finally:
        shutil.rmtree(made, ignore_errors=True)
    return folder


def _wanted(source: PublicSource, files: Sequence[GitFile]) -> Iterator[tuple[str, GitFile]]:
    """The files of a source, by their local names.

    Raises:
        HubError: There are none, or too many.
    """
    inside = {str(PurePosixPath(file.path).relative_to(source.folder)): file for file in files}
    if source.format == "metaschedule":
        for name, forms in _DATABASE_FILES.items():
            there = next((form for form in forms if form in inside), None)
            if there is None:
                raise HubError(f"{source.folder} of {source.repository} has no {name}, plain, gzipped or in SQLite.")
            yield there, inside[there]
        return
    logs = {path: file for path, file in inside.items() if path.endswith(_LOGS)}
    if not 0 < len(logs) <= MOST_SOURCE_FILES:
        raise HubError(
            f"{source.folder} of {source.repository} has {len(logs):,} logs; one to {MOST_SOURCE_FILES:,} are fetched."
        )
    # Their own names may be anything, so local files are numbered.
    for number, (path, file) in enumerate(sorted(logs.items())):
        suffix = PurePosixPath(path).suffix
        yield f"log-{number:04}{f'.json{suffix}' if suffix in COMPRESSIONS else suffix}", file
