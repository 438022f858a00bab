"""Provides list_waiting: the contributions that await a review, in hubs on this machine or on the Hugging Face hub."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from datetime import datetime, timezone
from pathlib import Path

from costhub.dataset.folder import is_data_folder
from costhub.errors import ArgumentError, HubError, MeasureError
from costhub.hub.catalogue.hubs import dataset_folders, folder_root, named_folders
from costhub.hub.contribute import INBOX
from costhub.hub.data import find_data
from costhub.hub.dataset_documents import DataFacts, data_facts
from costhub.hub.remote.address import HF_PREFIX, parse_address
from costhub.hub.remote.remote_repo import RemoteRepo
from costhub.isolation.child import Child
from costhub.isolation.limits import FOR_STRANGERS

READING_S = 60.0
"""Time limit for reading one contribution, of whose rows only short columns are read."""
_TITLE = re.compile(r"Measurements of (.{1,400}): (\d{1,9}) rows \[[0-9a-f]{16}\]")
"""`costhub.hub.contribute.Offer.title`."""


@dataclass(frozen=True)
class WaitingContribution:
    """A contribution that nobody has judged yet. Its texts are those of a stranger."""

    address: str
    """What `costhub review` takes."""
    devices: tuple[str, ...] = ()
    rows: int | None = None
    workloads: int | None = None
    """None if only a download could tell."""
    licences: tuple[str, ...] = ()
    contributors: tuple[str, ...] = ()
    """Those in the rows; on the Hugging Face hub, the account that opened the pull request."""
    since: str | None = None
    """The day it was sent, ISO 8601, UTC."""
    problem: str | None = None
    """Why its rows cannot be counted; the review says more."""


def list_waiting(where: str | None = None) -> list[WaitingContribution]:
    """Lists the contributions that await a review, dataset by dataset, the oldest first.

    They have not been checked: their files are read in a child process with limits.

    Args:
        where: The folder of a hub, a dataset by its folder or name, or `hf-hub:ORG/NAME`; by default all datasets of
            the hubs on this machine.

    Raises:
        ArgumentError: The address names a revision.
        CosthubError: One of its subclasses: there is no such hub or dataset, or the hub cannot be reached.

    Example:
        >>> list_waiting("nvidia-h200")
        []
    """
    if where is not None and where.startswith(HF_PREFIX):
        address = parse_address(where)
        if address.revision is not None:
            raise ArgumentError(
                f"{where} names a revision, but contributions await a review of the dataset as a whole: write "
                f"{HF_PREFIX}{address.name}."
            )
        return list(_pull_requests(address.name))
    with Child(limits=FOR_STRANGERS, is_shared=False) as child:  # it starts with the first contribution
        return [_in_folder(*sent, child) for folder in _datasets(where).values() for sent in _inbox(folder)]


def _datasets(where: str | None) -> Mapping[str, Path]:
    """Name -> folder of the datasets that are meant."""
    if where is None:
        return dataset_folders()
    if Path(where).is_dir() and not is_data_folder(where):
        return named_folders([folder_root(where)], "datasets")
    folder = find_data(where).folder
    return {folder.name: folder}


def _inbox(dataset: Path) -> list[tuple[float, Path]]:
    """The contributions to a dataset, and when each was written, the oldest first."""
    places = [path for path in dataset.glob(f"{INBOX}/*") if path.is_dir() and not path.name.startswith(".")]
    return sorted(((_sent_s(path), path) for path in places), key=lambda sent: (sent[0], sent[1].name))


def _sent_s(place: Path) -> float:
    """When a contribution was written; publishing a dataset makes its folders anew, but keeps their files."""
    try:
        return max((path.lstat().st_mtime for path in place.glob("*/train-*")), default=0.0) or place.lstat().st_mtime
    except OSError:  # it has just been merged or removed
        return 0.0


def _day(sent_s: float) -> str | None:
    """The day of a time that whoever wrote the file has chosen; None for one that no calendar has."""
    try:
        return datetime.fromtimestamp(sent_s, timezone.utc).date().isoformat()
    except (ValueError, OverflowError, OSError):
        return None


def _in_folder(sent_s: float, place: Path, child: Child) -> WaitingContribution:
    since = _day(sent_s)
    if place.is_symlink():
        return WaitingContribution(str(place), since=since, problem="it is a link")
    try:
        facts: DataFacts = child.call(data_facts, place, timeout_s=READING_S)
    except MeasureError:  # no child process starts, which is no fault of the contribution
        raise
    except Exception:
        return WaitingContribution(str(place), since=since, problem="its rows cannot be read")
    return WaitingContribution(
        str(place), tuple(facts.rows), facts.total, facts.workloads, facts.licences, facts.contributors, since
    )


def _pull_requests(name: str) -> Iterator[WaitingContribution]:
    """The open pull requests of a dataset that `costhub contribute` made, as far as their titles tell."""
    repo = RemoteRepo(name, "dataset")
    if repo.head() is None:
        raise HubError(f"{repo.address} does not exist, or you may not read it. Check its name.")
    for pull in repo.open_pull_requests():
        if title := _TITLE.fullmatch(pull.title):
            yield WaitingContribution(
                f"{repo.address}@refs/pr/{pull.num}",
                tuple(title[1].split(", ")),
                int(title[2]),
                contributors=(pull.author,),
                since=pull.created_at.astimezone(timezone.utc).date().isoformat(),
            )
