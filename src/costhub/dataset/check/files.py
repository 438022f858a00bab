"""Provides Listing and the rules on files: names, kinds, sizes, seals, and whether they can be read."""

from __future__ import annotations

import stat
import unicodedata
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path

from costhub.dataset.check.rule import Rule
from costhub.dataset.croissant import CROISSANT, MAX_CROISSANT_BYTES, croissant_differences
from costhub.dataset.folder import DataFolder
from costhub.dataset.readme import README
from costhub.dataset.shards.journal import JOURNAL, MOST_JOURNAL_BYTES
from costhub.dataset.shards.lock import LOCK
from costhub.dataset.shards.shard import MOST_SHARD_BYTES, TEMP_PREFIX
from costhub.dataset.shards.shard_set import SHARD_PATTERN, shard_name, shard_paths
from costhub.dataset.splits.split import MOST_SPLIT_BYTES, SPLITS_FOLDER
from costhub.files import kind_name
from costhub.terminal_text import first_few

FEATURES_FOLDER = "features"
"""Folder where costhub 0.1 stored features; no longer read."""
MOST_README_BYTES = 16 << 20
MOST_ROWS = {"devices": 10_000, "workloads": 200_000, "measurements": 2_000_000}
MOST_ROWS_IN_ALL = {"devices": 10_000, "workloads": 200_000, "measurements": 20_000_000}
"""Row limit for all files of a table together: 100 bytes are kept per measurement, and more per row of other tables."""
MOST_GROUP_BYTES = 1 << 30
"""Limit for a decompressed row group, according to its footer."""
MOST_DECODED_BYTES = 16 << 30
"""Limit for all rows of a file once decoded, where a text that many rows share counts for each."""
READABLE = Rule(
    id="CH001",
    title="every shard and journal can be read",
    severity="error",
    fix="Fetch the file again, or remove it and measure again; a journal's bad line can be removed by hand.",
)
UNCHANGED = Rule(
    id="CH002",
    title="a shard has not changed since it was written: its seal is intact",
    severity="error",
    fix="Fetch the file again from its source. To change data on purpose, write it with costhub.",
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
    """The device whose folder contains the measurements."""
    is_journal: bool = False


class Listing:
    """The files of a data folder, none of them opened."""

    def __init__(self, root: str | Path) -> None:
        """Lists a folder.

        Raises:
            DataError: The folder is not a data folder.
        """
        folder = DataFolder.open(root)
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

    def files(self) -> Iterator[tuple[Path, int]]:
        """Yields everything, even pipes and links, found where costhub expects a file, with its size limit."""
        for folder, (table, _) in self.folders.items():
            yield from ((path, MOST_SHARD_BYTES) for path in shard_paths(folder))
            if table == "measurements":
                yield folder / JOURNAL, MOST_JOURNAL_BYTES
            yield folder / LOCK, MOST_README_BYTES
        yield self.root / "measurements" / LOCK, MOST_README_BYTES
        yield self.root / README, MOST_README_BYTES
        yield self.root / CROISSANT, MAX_CROISSANT_BYTES
        yield from ((path, MOST_SPLIT_BYTES) for path in sorted((self.root / SPLITS_FOLDER).glob("*.json")))

    def within(self, path: Path) -> str:
        """A path as shown in findings."""
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
    """Finds files that are neither shard nor journal: half-written files, and files of other programs."""
    for folder in listing.folders:
        names = sorted(path.name for path in folder.glob("*")) if folder.is_dir() else []
        shards = {path.name for path in folder.glob(SHARD_PATTERN)}
        halves = [name for name in names if name.startswith(TEMP_PREFIX)]
        others = [n for n in names if n not in {*shards, *halves, JOURNAL, LOCK} and not n.startswith(".")]
        for found, what in ((halves, "half-written"), (others, "not shards of costhub")):
            if found:
                yield (
                    listing.within(folder),
                    f"{len(found)} of its files ({first_few(found, len(found))}): {what}.",
                )


def leftover_journals(listing: Listing) -> Iterator[tuple[str, str]]:
    """Finds rows that an interrupted writer left in a journal, or that a writer is adding right now."""
    for source in listing.sources():
        if source.is_journal:
            yield source.where, "It holds rows that no shard has yet; other tools do not see them."


def oversized(listing: Listing) -> Iterator[tuple[str, str]]:
    """Finds files that are too large to read safely."""
    for path, most in listing.files():
        size = path.stat().st_size if path.is_file() else 0
        if size > most:
            yield listing.within(path), f"It has {size:,} bytes; at most {most:,} were expected."


def irregular(listing: Listing) -> Iterator[tuple[str, str]]:
    """Finds pipes, devices and the like in place of files: opening one may never return."""
    for path, _ in listing.files():
        try:
            mode = path.stat().st_mode
        except OSError as error:
            if path.is_symlink():
                yield listing.within(path), f"It is a link that leads nowhere ({error.strerror})."
            continue
        if not stat.S_ISREG(mode):
            yield listing.within(path), f"It is {kind_name(mode)}; a plain file was expected."


def links(listing: Listing) -> Iterator[tuple[str, str]]:
    """Finds links in place of files or their folders."""
    folders = [listing.root / name for name in ("devices", "workloads", "measurements", SPLITS_FOLDER)]
    for path in (*folders, *list(listing.folders)[2:], *(path for path, _ in listing.files())):
        if path.is_symlink():
            yield listing.within(path), "It is a link, so what is read lies elsewhere on this machine."


def kept_features(listing: Listing) -> Iterator[tuple[str, str]]:
    """Finds the folder where costhub 0.1 kept features, which anyone may have written."""
    if (listing.root / FEATURES_FOLDER).is_dir():
        yield (
            FEATURES_FOLDER,
            "Features in a data folder are not read: they are computed and kept in the user's own cache.",
        )


def outdated_croissant(listing: Listing) -> Iterator[tuple[str, str]]:
    """Finds a Croissant document that does not match the files of the folder: its readers check hashes."""
    if (listing.root / CROISSANT).is_file():
        yield from ((CROISSANT, message) for message in croissant_differences(listing.root))


def equal_but_for_case(names: Iterable[str]) -> list[str]:
    """The names that differ from another one only in case, in order.

    Example:
        >>> equal_but_for_case(["a", "b", "A", "a"])
        ['A', 'a']
    """
    groups: dict[str, set[str]] = defaultdict(set)
    for name in names:
        groups[unicodedata.normalize("NFKC", name).casefold()].add(name)
    return sorted(name for group in groups.values() if len(group) > 1 for name in group)


def similar_names(listing: Listing) -> Iterator[tuple[str, str]]:
    """Finds files and folders that would be the same one on case-insensitive disks."""
    for folder in (listing.root, listing.root / "measurements", listing.root / SPLITS_FOLDER, *listing.folders):
        alike = equal_but_for_case(path.name for path in folder.glob("*"))
        if alike:
            yield listing.within(folder), f"{first_few(alike, len(alike))} differ by case only."


SIZE = FolderRule(
    id="CH006",
    title="no file or table is too large",
    severity="error",
    fix="Split the file; MeasurementWriter does so by itself.",
    find=oversized,
)
REGULAR = FolderRule(
    id="CH053",
    title="every shard, journal and split is a plain file",
    severity="error",
    fix="Remove it. If the folder came from someone else, do not trust the rest of it either.",
    find=irregular,
)
LINKS = FolderRule(
    id="CH054",
    title="no file or folder is a link",
    severity="warning",
    fix="Keep links that you made yourself; `contribute` and `publish` refuse them. A folder from someone else "
    "needs none: remove them.",
    find=links,
)
FEATURES = FolderRule(
    id="CH055",
    title="no features lie in the folder",
    severity="warning",
    fix="Remove the folder `features`.",
    find=kept_features,
)
DISTINCT = FolderRule(
    id="CH056",
    title="names differ by more than upper and lower case",
    severity="error",
    fix="Rename one of them: many disks take both for one file.",
    find=similar_names,
)
DESCRIBED = FolderRule(
    id="CH061",
    title="a `croissant.json` lists the shards and splits of the folder, with their hashes",
    severity="warning",
    fix="`costhub publish` writes it again into what it sends; remove the one in a folder that has changed.",
    find=outdated_croissant,
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

FILE_RULES = (
    *(READABLE, UNCHANGED, SEALED, SCHEMA, VERSION, SIZE, NAMES, FOREIGN, JOURNALS),
    *(REGULAR, LINKS, FEATURES, DISTINCT, DESCRIBED),
)
