"""Provides PullRequest and fetch_tables: download a contribution, and existing data of the hub."""

from __future__ import annotations

import glob
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from costhub.dataset.check.files import equal_but_for_case
from costhub.errors import HubError, ModelError, RefusedError
from costhub.hub.contribute import INBOX, contribution_id
from costhub.hub.model_check.model_files import check_model_path
from costhub.hub.remote.address import AddressError, check_endpoint, parse_address
from costhub.hub.remote.dataset_repo import fetch_paths, refuse_strange_shards, shards_of
from costhub.hub.remote.hugging_face import MODEL_PATTERNS, readable_errors, xet_as_client_errors
from costhub.hub.remote.manifest import MAX_TOTAL_BYTES, hash_file
from costhub.hub.remote.remote_repo import Head, Kind, NoRevisionError, RemoteRepo
from costhub.hub.remote.watch import sound_answers, watched
from costhub.terminal_text import clean

MOST_FILES = 1000
_ADDRESS = re.compile(r"hf-hub:([^/@\s]+/[^/@\s]+)@refs/pr/([1-9]\d{0,6})")
_PAGE_ADDRESS = re.compile(r"https?://[^/\s]+/(datasets/)?([^/\s]+/[^/\s]+)/discussions/([1-9]\d{0,6})/?")
_DATASET_FOLDERS = ("devices/", "workloads/", "measurements/", "splits/", f"{INBOX}/")
_CONTRIBUTED_PATH = re.compile(
    r"contributions/([0-9a-f]{16})/"
    r"((?:devices|workloads|measurements/[A-Za-z0-9][A-Za-z0-9._+-]{0,100})/train-\d{5}-of-\d{5}\.parquet)"
)


def fetch_compared(against: str, device_ids: Sequence[str]) -> Path | None:
    """Downloads a hub's measurements of some devices, with its tables of devices and workloads.

    Args:
        against: `hf-hub:ORG/NAME`, with @REVISION for another version, or a data folder.
        device_ids: The devices; shards of others are not downloaded.

    Returns:
        A data folder; None if the dataset is empty.

    Raises:
        AddressError: `against` is neither.
        HubError: The hub cannot be reached, or has no such dataset.
    """
    if Path(against).is_dir():
        return Path(against)
    address = parse_address(against)
    if address.source == "local-dir":
        return Path(address.name)
    if address.source == "index":
        raise AddressError(f"{against!r} is not a dataset to compare with. Write hf-hub:ORG/NAME, or a data folder.")
    return fetch_tables(RemoteRepo(address.name, "dataset"), address.revision or "main", device_ids)


def fetch_tables(repo: RemoteRepo, revision: str, device_ids: Sequence[str]) -> Path | None:
    """Downloads the tables of a dataset and the shards of some devices into the cache of the client.

    Returns:
        A data folder, for reading only; None if the dataset has no shards yet.

    Raises:
        HubError: The hub cannot be reached, has no such dataset or revision, or a file is not the one that it lists.
    """
    head = repo.head(revision)
    if head is None:
        raise HubError(f"{repo.address} does not exist, or you may not read it. Check its name.")
    if not any(path.startswith(("devices/", "workloads/", "measurements/")) for path in head.files):
        return None
    refuse_strange_shards(repo.address, head)  # otherwise, a merge would remove shards that it has not read
    tables = {"devices", "workloads", *(f"measurements/{name}" for name in device_ids)}
    return fetch_paths(repo.name, head, [path for path in shards_of(head) if path.rpartition("/")[0] in tables])


@dataclass(frozen=True)
class PullRequest:
    """A pull request at one commit: later pushes to it are not reviewed."""

    repo: RemoteRepo
    number: int
    commit: str
    paths: Sequence[str]
    """Paths of the contribution within the repository; for a model, all its files."""
    contribution: str
    """The id in these paths; "" for a model."""
    sizes: Mapping[str, int] = field(default_factory=dict)
    """Path -> bytes of all files at the commit, according to the hub."""
    beside: Sequence[str] = ()
    """Paths outside the contribution that differ from the main branch; `--merge` leaves them out."""

    @property
    def address(self) -> str:
        """Its address as a person would write it."""
        return f"{self.repo.address}@refs/pr/{self.number}"

    def fetch(self, place: Path) -> Path:
        """Downloads it into a folder of plain files.

        Returns:
            The data or model folder.

        Raises:
            HubError: It cannot be downloaded.
            RefusedError: Its content does not match its name.
        """
        from huggingface_hub import snapshot_download

        name = self.repo.name
        with (
            watched(name) as watch,
            sound_answers(self.repo.address, HubError),
            readable_errors(name, self.commit, HubError),
            xet_as_client_errors(),
        ):
            watch.expect(self.sizes)
            snapshot_download(
                self.repo.name,
                repo_type=self.repo.kind,
                revision=self.commit,
                local_dir=place,
                allow_patterns=[glob.escape(path) for path in self.paths],
                library_name="costhub",
            )
        if self.repo.kind == "model":
            _drop_cache(place)
        missing = [path for path in self.paths if not (place / path).is_file()]
        if missing:
            raise RefusedError(f"{self.address} holds {clean(missing[0], 100)}, which cannot be fetched.")
        if self.repo.kind == "model":
            return place
        folder = place / INBOX / self.contribution
        files = {path: hash_file(place / path).sha256 for path in self.paths}
        within = {path.removeprefix(f"{INBOX}/{self.contribution}/"): sha for path, sha in files.items()}
        if contribution_id(within) != self.contribution:
            raise RefusedError(
                f"{self.address} was changed after `costhub contribute` created it: its files do not match the "
                f"name {self.contribution}. Ask for a new contribution."
            )
        (folder / "measurements").mkdir(exist_ok=True)
        return folder


def find_pull_request(text: str) -> PullRequest | None:
    """Finds the pull request that a text names; None if it is the path of a folder.

    Args:
        text: `hf-hub:ORG/NAME@refs/pr/N`, or the address of its page.

    Raises:
        AddressError: It looks like a pull request but is not one.
        HubError: The pull request does not exist, or the hub cannot be reached.
        RefusedError: It holds no contribution, or is too large.
    """
    address, page = _ADDRESS.fullmatch(text), _PAGE_ADDRESS.fullmatch(text)
    kinds: tuple[Kind, ...] = ("dataset", "model")
    if address is not None or page is not None:
        check_endpoint()
    if address is not None:
        name, number = address.groups()
    elif page is not None:
        from huggingface_hub import constants

        if not text.startswith(f"{constants.ENDPOINT.rstrip('/')}/"):
            raise AddressError(
                f"{clean(text, 200)} is not at {constants.ENDPOINT}. Set HF_ENDPOINT to its server first."
            )
        name, number = page.group(2, 3)
        kinds = ("dataset",) if page[1] else ("model",)
    elif text.startswith(("hf-hub:", "http:", "https:")):
        raise AddressError(
            f"{text!r} does not name a pull request. Write hf-hub:ORG/NAME@refs/pr/3, or the address of its page."
        )
    else:
        return None
    for kind in kinds:
        repo = RemoteRepo(name, kind)
        main = repo.head()
        if main is not None:
            return _pull_request_at(repo, int(number), main)
    raise HubError(f"hf-hub:{name} does not exist, or you may not read it. Check its name.")


def _pull_request_at(repo: RemoteRepo, number: int, main: Head) -> PullRequest:
    try:
        head = repo.head(f"refs/pr/{number}")
    except NoRevisionError:
        head = None
    if head is None:
        raise HubError(f"{repo.address} has no pull request {number}.")
    if repo.kind == "model":
        return _model_pull_request(repo, number, head, main)
    inside = {path: path.split("/")[1] for path in head.files if path.startswith(f"{INBOX}/") and path.count("/") > 1}
    ids = {name for path, name in inside.items() if path not in main.files}
    if inside and not ids:
        title = repo.title_of(number)
        ids = {name for name in inside.values() if name in title}
    if len(ids) != 1:
        raise RefusedError(
            f"{repo.address}@refs/pr/{number} holds {len(ids)} contributions; one was expected, as "
            "`costhub contribute` makes it."
        )
    (contribution,) = ids
    paths = sorted(path for path, name in inside.items() if name == contribution)
    strange = [path for path in paths if not _CONTRIBUTED_PATH.fullmatch(path)]
    if strange:
        raise RefusedError(
            f"{repo.address}@refs/pr/{number} holds {clean(strange[0], 100)}; a contribution has shards only."
        )
    alike = equal_but_for_case(path.split("/")[-2] for path in paths)
    if alike:
        raise RefusedError(
            f"{repo.address}@refs/pr/{number} holds {clean(alike[0], 100)} in two spellings that differ in case only."
        )
    beside = _changed_beside(repo, number, head, main, f"{INBOX}/{contribution}/")
    return _refuse_large(PullRequest(repo, number, head.commit, paths, contribution, head.sizes, beside), head)


def _model_pull_request(repo: RemoteRepo, number: int, head: Head, main: Head) -> PullRequest:
    for path in _changed(head, main):
        try:
            if path in head.files and path != ".gitattributes":
                check_model_path(path)
        except ModelError as error:
            raise RefusedError(f"{repo.address}@refs/pr/{number} is refused. {error}") from error
    ours = [path for path in head.files if path.endswith(tuple(p[1:] for p in MODEL_PATTERNS))]
    return _refuse_large(PullRequest(repo, number, head.commit, sorted(ours), "", head.sizes), head)


def _changed_beside(repo: RemoteRepo, number: int, head: Head, main: Head, own: str) -> list[str]:
    """The changes of a pull request outside its contribution; the tables may differ because main has moved."""
    beside = [path for path in _changed(head, main) if not path.startswith(own)]
    new = [path for path in beside if path not in main.files and not path.startswith(_DATASET_FOLDERS)]
    if new:
        raise RefusedError(
            f"{repo.address}@refs/pr/{number} also holds {clean(new[0], 100)}, which is not in main: a contribution "
            f"may add shards in {own} only. If that file has been removed from main since, close the pull request and "
            "ask for a new one."
        )
    return beside


def _changed(head: Head, main: Head) -> list[str]:
    paths = sorted({*head.files, *main.files})
    return [path for path in paths if head.files.get(path) != main.files.get(path)]


def _refuse_large(pull: PullRequest, head: Head) -> PullRequest:
    total = sum(head.sizes[path] for path in pull.paths)
    if len(pull.paths) > MOST_FILES or total > MAX_TOTAL_BYTES:
        raise RefusedError(
            f"{pull.address} holds {len(pull.paths):,} files with {total:,} bytes, more than a review accepts "
            f"({MOST_FILES:,} files, {MAX_TOTAL_BYTES:,} bytes). Ask for smaller ones."
        )
    return pull


def _drop_cache(place: Path) -> None:
    """Removes the client's own files beside the downloaded ones."""
    import shutil

    shutil.rmtree(place / ".cache", ignore_errors=True)
