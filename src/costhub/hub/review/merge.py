"""Provides merge_into and merge_pull_request: merge a reviewed contribution into the tables of a dataset."""

from __future__ import annotations

import logging
import shutil
import tempfile
from pathlib import Path

import pyarrow.compute as pc

from costhub.dataset.folder import DataFolder
from costhub.dataset.metaschedule.import_workloads import UniqueNames
from costhub.dataset.schema import TABLES
from costhub.dataset.shards.lock import LOCK, FolderLock
from costhub.dataset.shards.shard_set import MERGE_ROWS, add_shard, remove_temporaries
from costhub.errors import DataError, HubError
from costhub.hub.contribute import INBOX
from costhub.hub.remote.remote_repo import PushedCommit, repeat_if_stale
from costhub.hub.review.fetch import PullRequest, fetch_tables

log = logging.getLogger("costhub")


def merge_into(contribution: str | Path, folder: str | Path) -> int:
    """Adds missing rows to a data folder as new shards; existing shards are not changed.

    The rows of a device become one shard. Devices and workloads that the folder already describes stay
    unchanged.

    Args:
        contribution: A reviewed data folder.
        folder: The data folder that receives the rows; created if missing.

    Returns:
        Number of rows added.

    Raises:
        DataError: One of the two cannot be read.
    """
    new, grown = DataFolder.open(contribution), DataFolder.create(folder)
    # Held throughout: no one may replace the whole folder between two tables.
    with _locked(grown.path / "measurements"):
        return _grow(new, grown)


def _grow(new: DataFolder, grown: DataFolder) -> int:
    added = 0
    # Rows come last, so no row is ever without its device and workload.
    _describe(new, grown)
    for device_id in new.device_ids():
        place = grown.path / "measurements" / device_id
        place.mkdir(exist_ok=True)
        with _locked(place):
            remove_temporaries(place)
            present = grown.measurements(device_id, columns=["record_id"])["record_id"]
            rows = new.measurements(device_id)
            rows = rows.filter(pc.invert(pc.is_in(rows["record_id"], value_set=present.combine_chunks())))
            for start in range(0, rows.num_rows, MERGE_ROWS):
                add_shard(place, rows.slice(start, MERGE_ROWS))
        added += rows.num_rows
    return added


def _locked(folder: Path) -> FolderLock:
    """The lock of a folder; says so if another process has to be waited for, such as a collection."""
    try:
        return FolderLock(folder)
    except DataError as error:
        if not isinstance(error.__cause__, BlockingIOError):
            raise
        log.warning("Another process is writing to %s: waiting until it has finished.", folder)
        return FolderLock(folder, wait=True)


def _describe(new: DataFolder, grown: DataFolder) -> None:
    held = set(grown.devices(["device_id"])["device_id"].to_pylist())
    for row in new.devices().to_pylist():
        if row["device_id"] not in held:
            grown.put_device(row)
    held = set(grown.workloads(["workload_id"])["workload_id"].to_pylist())
    missing = [row for row in new.workloads().to_pylist() if row["workload_id"] not in held]
    # Imports make names from operators and shapes, which other workloads may share.
    names = UniqueNames(grown.workloads(["name"])["name"].to_pylist())
    for row in missing:
        row["name"] = names.take(row["name"])
    if missing:
        grown.put_workloads(missing)


def merge_pull_request(pull: PullRequest, reviewed: Path) -> PushedCommit:
    """Merges the reviewed files of a pull request into the tables, in one commit, and closes it.

    The files are those that were reviewed, even if the pull request has changed since.

    Args:
        pull: The pull request.
        reviewed: The folder from `pull.fetch`, after its review.

    Returns:
        The commit; that of the head if all rows were already in the tables.

    Raises:
        HubError: The hub does not accept it.
    """
    pushed = repeat_if_stale(lambda: _commit(pull, reviewed))
    _close(pull, pushed)
    return pushed


def close_known(pull: PullRequest) -> None:
    """Closes a pull request whose rows are all in the tables, and empties its inbox.

    Raises:
        HubError: The hub does not accept it.
    """
    head = pull.repo.head()
    taken = set(pull.paths)
    left = [path for path in head.files if path in taken] if head else []
    if head and left:
        pull.repo.commit(head, {}, left, message=f"Remove what the tables hold (#{pull.number})")
    pull.repo.close(pull.number, "All of its rows are already in the tables. Thank you!")


def _close(pull: PullRequest, pushed: PushedCommit) -> None:
    try:
        pull.repo.close(pull.number, f"Taken into the tables by {pushed.commit}. Thank you!")
    except HubError as error:
        raise HubError(
            f"{pull.address} is in the tables, with commit {pushed.commit[:12]}, but could not be "
            f"closed ({error}) Close it on its page."
        ) from error


def _commit(pull: PullRequest, reviewed: Path) -> PushedCommit:
    head = pull.repo.head()
    if head is None:
        raise HubError(f"{pull.repo.address} was deleted in the meantime. Run the command again.")
    device_ids = DataFolder.open(reviewed).device_ids()
    held = fetch_tables(pull.repo, head.commit, device_ids)
    with tempfile.TemporaryDirectory(prefix="costhub-") as temporary:
        grown = Path(temporary) / "data"
        if held is not None:
            for table in TABLES:
                if (held / table).is_dir():
                    shutil.copytree(held / table, grown / table)
        rows = merge_into(reviewed, grown)
        files = {p.relative_to(grown).as_posix(): p for p in grown.rglob("*") if p.is_file() and p.name != LOCK}
        # Only a dataset without a card gets one.
        files = {name: path for name, path in files.items() if name != "README.md" or name not in head.files}
        touched = ("devices/train-", "workloads/train-", *(f"measurements/{n}/train-" for n in device_ids))
        gone = (*touched, f"{INBOX}/{pull.contribution}/")
        removed = [path for path in head.files if path.startswith(gone) and path not in files]
        added = {name: path for name, path in files.items() if not head.has(name, path)}
        if not added and not removed:
            return PushedCommit(head.commit, pull.address)
        message = f"Add {rows} measurements of {', '.join(device_ids)} (#{pull.number})"
        return pull.repo.commit(head, added, removed, message=message)
