"""Provides Listing and the rules on files: names, seals, sizes, and whether they can be read."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

from costhub.dataset.check.rule import Rule
from costhub.dataset.folder import DataFolder
from costhub.dataset.shards.journal import JOURNAL
from costhub.dataset.shards.lock import LOCK
from costhub.dataset.shards.shard import TEMP_PREFIX, SealState, seal_state
from costhub.dataset.shards.shard_set import SHARD_PATTERN, shard_name, shard_paths
from costhub.terminal_text import first_few

MOST_FILE_BYTES = 2 << 30
MOST_ROWS = {"devices": 10_000, "workloads": 200_000, "measurements": 2_000_000}
MOST_GROUP_BYTES = 1 << 30
"""Of a row group once decompressed, according to its footer."""
READABLE = Rule(
    id="CH001",
    title="every shard and journal can be read",
    severity="error",
    fix="Fetch the file again, or remove it and measure again; a journal's bad line can be removed by hand.",
)
SEALED = Rule(
    id="CH003",
    title="a shard has a seal",
    severity="error",
    fix="Write it with costhub (DataFolder, MeasurementWriter); other tools do not seal.",
)
SCHEMA = Rule(
    id="CH004",
    title="a shard has the columns of its table, and no nulls in required columns",
    severity="error",
    fix="Write it with costhub; costhub.dataset.schema lists the columns of every table.",
)
VERSION = Rule(
    id="CH005",
    title="the schema version of a shard is known",
    severity="error",
    fix="Upgrade costhub where the version is newer; otherwise write the file again with costhub.",
)


@dataclass(frozen=True, kw_only=True)
class FolderRule(Rule):
    """A rule on names and files: yields (where, message) for every breach, without parsing anything."""

    find: Callable[[Listing], Iterator[tuple[str, str]]]


@dataclass(frozen=True)
class TableFile:
    """A file of one table."""

    path: Path
    where: str
    """Its path within the data folder."""
    table: str
    device_id: str = ""
    """The device of the folder that measurements lie in."""
    is_journal: bool = False


class Listing:
    """The files of a data folder, none of them opened."""

    def __init__(self, root: str | Path) -> None:
        """Lists a folder.

        Raises:
            DataError: The folder is not a data folder.
        """
        folder = DataFolder.open(root)
        self._seals: dict[Path, SealState] = {}
        self.root = folder.path
        self.folders = {self.root / name: (name, "") for name in ("devices", "workloads")}
        for name in folder.device_ids():
            self.folders[self.root / "measurements" / name] = ("measurements", name)

    def sources(self) -> Iterator[TableFile]:
        """Yields every shard and journal: devices, workloads, then measurements."""
        for folder, (table, device_id) in self.folders.items():
            for path in filter(Path.is_file, shard_paths(folder)):
                yield TableFile(path, self.within(path), table, device_id)
            journal = folder / JOURNAL
            if table == "measurements" and journal.is_file() and journal.stat().st_size:
                yield TableFile(journal, self.within(journal), table, device_id, is_journal=True)

    def seal(self, path: Path) -> SealState:
        """The state of a shard's seal, for which the whole file is read: once."""
        if path not in self._seals:
            self._seals[path] = seal_state(path)
        return self._seals[path]

    def within(self, path: Path) -> str:
        """A path as the findings name it."""
        return path.relative_to(self.root).as_posix()


def misnamed(listing: Listing) -> Iterator[tuple[str, str]]:
    """Finds shards whose names do not count 0 to N-1 of N: one may be missing."""
    for folder in listing.folders:
        names = [path.name for path in shard_paths(folder)]
        if names != [shard_name(number, len(names)) for number in range(len(names))]:
            yield (
                listing.within(folder),
                f"The {len(names)} shards are named {first_few(names, len(names))}; "
                f"{shard_name(0, len(names))} and so on were expected.",
            )


def foreign_files(listing: Listing) -> Iterator[tuple[str, str]]:
    """Finds what is neither shard nor journal: half-written files, and files of other programs."""
    for folder in listing.folders:
        names = sorted(path.name for path in folder.glob("*")) if folder.is_dir() else []
        # A pipe or a folder of that name is not a shard, and nothing tries to read it.
        shards = {path.name for path in folder.glob(SHARD_PATTERN) if path.is_file()}
        halves = [name for name in names if name.startswith(TEMP_PREFIX)]
        others = [n for n in names if n not in {*shards, *halves, JOURNAL, LOCK} and not n.startswith(".")]
        for found, what in ((halves, "half-written"), (others, "not shards of costhub")):
            if found:
                yield (
                    listing.within(folder),
                    f"{len(found)} of its files ({first_few(found, len(found))}): {what}.",
                )


def leftover_journals(listing: Listing) -> Iterator[tuple[str, str]]:
    """Finds rows that an interrupted writer left in a journal, or that one is writing now."""
    for source in listing.sources():
        if source.is_journal:
            yield source.where, "It holds rows that no shard has yet; other tools do not see them."


def oversized(listing: Listing) -> Iterator[tuple[str, str]]:
    """Finds files that are too large to read safely."""
    for source in listing.sources():
        size = source.path.stat().st_size
        if size > MOST_FILE_BYTES:
            yield source.where, f"It has {size:,} bytes; at most {MOST_FILE_BYTES:,} were expected."


def broken_seals(listing: Listing) -> Iterator[tuple[str, str]]:
    """Finds shards that were changed after they were written."""
    for source in listing.sources():
        if not source.is_journal and _is_broken(listing, source.path):
            yield source.where, "It has changed since it was written: its hash differs from the one in its seal."


def _is_broken(listing: Listing, path: Path) -> bool:
    try:
        return listing.seal(path) == "broken"
    except PermissionError:
        return False  # reading it reports the problem


UNCHANGED = FolderRule(
    id="CH002",
    title="a shard has not changed since it was written: its seal is intact",
    severity="error",
    fix="Fetch the file again from its source. To change data on purpose, write it with costhub.",
    find=broken_seals,
)
SIZE = FolderRule(
    id="CH006",
    title="no file is too large",
    severity="error",
    fix="Split the file; MeasurementWriter does so by itself.",
    find=oversized,
)
NAMES = FolderRule(
    id="CH007",
    title="shards are named 0 to N-1 of N, so that none is missing",
    severity="error",
    fix="Fetch the missing shard; if none is missing, the next write to the folder repairs the names.",
    find=misnamed,
)
FOREIGN = FolderRule(
    id="CH008",
    title="nothing half-written or foreign lies beside the shards",
    severity="warning",
    fix="Move the files elsewhere; the next write to the folder removes half-written ones.",
    find=foreign_files,
)
JOURNALS = FolderRule(
    id="CH009",
    title="no rows are left in a journal",
    severity="warning",
    fix="Let the collection end, or run it again: the next writer of the folder moves the rows to a shard.",
    find=leftover_journals,
)

FILE_RULES = (READABLE, UNCHANGED, SEALED, SCHEMA, VERSION, SIZE, NAMES, FOREIGN, JOURNALS)
