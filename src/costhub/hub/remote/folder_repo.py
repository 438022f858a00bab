"""Provides FolderRepo and place_in_hub, for a hub that is a folder, and open_repository, for either kind of hub."""

from __future__ import annotations

import contextlib
import hashlib
import os
import shutil
import stat
import tempfile
from collections.abc import Container, Mapping, Sequence
from pathlib import Path

from costhub.dataset.shards.lock import LOCK, FolderLock
from costhub.dataset.shards.shard import TEMP_PREFIX
from costhub.errors import ArgumentError
from costhub.files import swap_in
from costhub.hub.remote.address import REPOSITORY, Address, AddressError, parse_address
from costhub.hub.remote.manifest import hash_file, visible_files
from costhub.hub.remote.remote_repo import Head, Kind, PushedCommit, RemoteRepo, StaleError


class FolderRepo:
    """`<root>/{models,datasets}/ORG/NAME`, changed as a whole; like RemoteRepo, without history."""

    def __init__(self, root: str | Path, name: str, kind: Kind) -> None:
        """Names a repository without creating it.

        Args:
            root: The hub.
            name: ORG/NAME.
            kind: The kind of repository.

        Raises:
            ArgumentError: The hub is missing.
        """
        self.root = Path(root)
        self.name, self.kind = name, kind
        self.folder = self.root / f"{kind}s" / name
        self.address = self.folder.as_posix()
        if not self.root.is_dir():
            raise ArgumentError(f"{root} is not a folder. Create it, or give the folder of a hub.")

    def head(self, revision: str = "main") -> Head | None:
        """Returns the current files; None if the folder is missing."""
        if not self.folder.is_dir():
            return None
        files = {name: hash_file(path).sha256 for name, path in visible_files(self.folder).items()}
        listing = "\n".join(f"{name} {sha256}" for name, sha256 in files.items())
        return Head(hashlib.sha256(listing.encode()).hexdigest(), files)

    def fetch(self, head: Head, path: str) -> Path:
        """A file of the folder, for reading only."""
        return self.folder / path

    def create(self) -> None:
        """Creates the folder; an existing one stays unchanged."""
        self.folder.mkdir(parents=True, exist_ok=True)

    def commit(
        self,
        head: Head,
        added: Mapping[str, Path],
        removed: Sequence[str],
        *,
        message: str,
        description: str = "",
        pull_request: bool = False,
    ) -> PushedCommit:
        """Changes the folder completely or not at all.

        Args:
            head: The state on which the change is based.
            added: Path in the repository -> local file.
            removed: Paths of files to delete.
            message: Ignored: a folder has no history.
            description: Ignored.
            pull_request: Ignored: contributions are put beside the tables, for a review.

        Raises:
            StaleError: Someone else changed it in the meantime, and more than a new folder is added; nothing was
                changed.
            DataError: Another process is writing to its measurements.
        """
        with (
            FolderLock(self.folder.parent, wait=True),
            tempfile.TemporaryDirectory(prefix=f".{self.folder.name}-", dir=self.folder.parent) as place,
        ):
            new = _new_folder(self.folder, added)
            # What is put beside the rest fits every state of it, while others continue writing.
            if new and not removed and self.folder.is_dir():
                self._put_beside(new, added, Path(place))
            else:
                self._refuse_stale(head)
                self._replace(head, added, removed, Path(place))
        after = self.head()
        return PushedCommit(after.commit if after else "", str(self.folder))

    def _put_beside(self, new: str, added: Mapping[str, Path], place: Path) -> None:
        """Adds a sub-folder; others may continue writing to existing ones."""
        for name, local in added.items():
            _copy(local, place / name)
        (self.folder / new).parent.mkdir(parents=True, exist_ok=True)
        (place / new).rename(self.folder / new)

    def _refuse_stale(self, head: Head) -> None:
        now = self.head()
        if now is None or now.commit != head.commit:
            raise StaleError(f"{self.folder} was changed by someone else in the meantime. Run the command again.")

    def _tables(self) -> list[Path]:
        """The folders that writers lock."""
        tables = [self.folder / name for name in ("devices", "workloads", "measurements")]
        return [*(path for path in tables if path.is_dir()), *sorted(self.folder.glob("measurements/*/"))]

    def _replace(self, head: Head, added: Mapping[str, Path], removed: Sequence[str], place: Path) -> None:
        """Replaces the folder with a changed copy while no one writes to it."""
        with contextlib.ExitStack() as held:
            # A collector writing there would continue in the old folder, which is about to be deleted.
            tables = self._tables()
            for table in tables:
                held.enter_context(FolderLock(table))
            new = place / "new"
            new.mkdir()
            _carry_over(self.folder, new, {*added, *removed}, removed)
            for name, local in added.items():
                _copy(local, new / name)
            # Rows finished before the locks were held, or in a new device folder, must not be lost.
            self._refuse_stale(head)
            if self._tables() != tables:
                raise StaleError(f"{self.folder} got a new device in the meantime. Run the command again.")
            swap_in(self.folder, new, place.with_name(f"{place.name}-old"))

    def find_pull_request(self, mark: str) -> None:
        """Returns None: a folder has no pull requests."""

    def tag(self, tag: str, commit: str) -> None:
        """Always raises.

        Raises:
            ArgumentError: Always.
        """
        raise ArgumentError(f"{self.folder} is a folder, which has neither history nor tags. Leave --tag out.")


def _new_folder(folder: Path, added: Mapping[str, Path]) -> str:
    """The single new sub-folder that all files go to; "" if there is none.

    Example:
        >>> _new_folder(Path("/hub"), {"inbox/a/x": Path("x"), "inbox/a/y/z": Path("z")})
        'inbox/a'
    """
    common = os.path.commonpath([os.path.dirname(name) for name in added]) if added else ""
    return common if common and not (folder / common).exists() else ""


def _carry_over(folder: Path, new: Path, excluded: Container[str], removed: Sequence[str]) -> None:
    """Carries everything that stays, including hidden files and empty folders, over to the new folder."""
    gone = {parent.as_posix() for name in removed for parent in Path(name).parents}
    folders = [(folder, new)]
    for path in sorted(folder.rglob("*")):
        name = path.relative_to(folder).as_posix()
        if path.is_symlink():
            if name not in excluded:
                (new / name).parent.mkdir(parents=True, exist_ok=True)
                (new / name).symlink_to(os.readlink(path))
        elif path.is_dir():
            folders.append((path, new / name))
            if name not in gone:
                (new / name).mkdir(parents=True, exist_ok=True)
        elif name not in excluded and path.name != LOCK and not path.name.startswith(TEMP_PREFIX):
            _keep(path, new / name)
    for source, target in reversed(folders):
        if target.is_dir():
            _keep_mode(source, target)


def _keep_mode(source: Path, target: Path) -> None:
    status = source.stat()
    with contextlib.suppress(OSError):  # a group that the user is not in
        os.chown(target, -1, status.st_gid)
    target.chmod(stat.S_IMODE(status.st_mode))


def _keep(source: Path, target: Path) -> None:
    """Links the file into the new folder, or copies it if the disk does not support hard links."""
    target.parent.mkdir(parents=True, exist_ok=True)
    try:
        os.link(source, target)
    except OSError:
        _copy(source, target)


def _copy(source: Path, target: Path) -> None:
    target.parent.mkdir(parents=True, exist_ok=True)
    shutil.copyfile(source, target)
    with target.open("rb") as file:
        os.fsync(file.fileno())


def place_in_hub(dataset: str | Path) -> tuple[Path, str] | None:
    """The hub of a dataset, and its ORG/NAME there; None for a folder that is not HUB/datasets/ORG/NAME."""
    folder = Path(dataset).resolve()
    if not (folder / "measurements").is_dir() or folder.parent.parent.name != "datasets":
        return None
    return folder.parent.parent.parent, f"{folder.parent.name}/{folder.name}"


Repository = RemoteRepo | FolderRepo


def open_repository(to: str, name: str | None, kind: Kind) -> Repository:
    """Opens the repository that an address names.

    Raises:
        AddressError: That address is not writable.
    """
    address = _writable_address(to)
    if address.source == "hf-hub":
        if name is not None or address.revision is not None:
            raise AddressError(f"{to} names the repository; leave out --as and @REVISION (--tag names a version).")
        return RemoteRepo(address.name, kind)
    if name is not None and not REPOSITORY.fullmatch(name):
        raise AddressError(f"{name!r} is not of the form ORG/NAME, such as lab/measurements: give --as ORG/NAME.")
    if (place := place_in_hub(address.name)) is not None:
        raise AddressError(f"{address.name} is a dataset in a hub. Write --to {place[0]} --as {place[1]}.")
    if name is None:
        raise AddressError(f"In the hub {str(to)!r} the {kind} needs a name: give --as ORG/NAME (name=... in Python).")
    return FolderRepo(address.name, name, kind)


def _writable_address(to: str) -> Address:
    if Path(to).is_dir():
        return Address("local-dir", to)
    address = parse_address(to)
    if address.source == "index":
        name = f"hf-hub:{address.name}" if "/" in address.name else "hf-hub:ORG/NAME"
        raise AddressError(
            f"{to!r} is not a place to write to: there is no folder of that name. Write {name}, or make the folder of "
            "a hub first."
        )
    return address
