"""Provides RemoteRepo: a repository on the Hugging Face hub, changed in single, whole commits."""

from __future__ import annotations

import contextlib
import hashlib
import itertools
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Literal, TypeVar

from costhub.errors import HubError, first_line
from costhub.hub.remote.hugging_face import quiet_without_terminal, xet_as_client_errors
from costhub.hub.remote.manifest import hash_file
from costhub.hub.remote.watch import WRITE_S, Watch, answered_within, sound_answers, watched
from costhub.terminal_text import clean

if TYPE_CHECKING:
    from huggingface_hub import Discussion, GitRefInfo

Kind = Literal["model", "dataset"]
_AGAIN = "Nothing was left half done: run the command again."
_STALE = (409, 412)
"""The hub's answer if someone else committed in the meantime."""
_READ_ONLY = (405, 501)
"""The answer of a read-only server."""
_CHUNK_BYTES = 1 << 20
MOST_LISTED = 200_000
"""Maximum number of entries in a listing; the hub itself recommends fewer than 100,000 files."""
MOST_LISTED_BYTES = 1 << 40
"""Maximum size of a file in a listing; the hub itself takes no larger one."""
ATTEMPTS = 6
"""Attempts to commit, each on a new head after someone else moved it."""

Committed = TypeVar("Committed")


class StaleError(HubError):
    """Someone else committed in the meantime; look at the new head and try again."""


class NoRevisionError(HubError):
    """A repository has no such branch, tag or commit."""


def repeat_if_stale(commit: Callable[[], Committed]) -> Committed:
    """Retries a commit, which looks at the head each time, while someone else moves the head.

    Raises:
        StaleError: It did not succeed within `ATTEMPTS`.
    """
    for attempt in range(ATTEMPTS - 1):
        with contextlib.suppress(StaleError):
            return commit()
        time.sleep(0.1 * 2**attempt)
    return commit()


@dataclass(frozen=True)
class Head:
    """The main branch at one moment."""

    commit: str
    files: Mapping[str, str]
    """Path -> sha256 for large files, git's id for others."""
    sizes: Mapping[str, int] = field(default_factory=dict)
    """Path -> bytes, according to the hub."""

    def has(self, path: str, local: Path) -> bool:
        """Whether the file at `path` has the bytes of a local one."""
        digest = self.files.get(path)
        return digest is not None and digest == (hash_file(local).sha256 if len(digest) == 64 else blob_id(local))


@dataclass(frozen=True)
class PushedCommit:
    """A new commit."""

    commit: str
    url: str
    """URL of the commit, or of its pull request."""
    pull_request: int | None = None


class RemoteRepo:
    """One repository; $HF_ENDPOINT names the server, `hf auth login` or $HF_TOKEN the account."""

    def __init__(self, name: str, kind: Kind) -> None:
        """Names a repository without contacting the hub.

        Args:
            name: ORG/NAME.
            kind: The kind of repository.
        """
        # Imported here: it takes a quarter of a second, which offline commands should not cost.
        from huggingface_hub import HfApi

        quiet_without_terminal()
        self.name, self.kind = name, kind
        self.address = f"hf-hub:{name}"
        self.api: HfApi = HfApi(library_name="costhub")

    def head(self, revision: str = "main") -> Head | None:
        """Returns the current state of a branch; None if the repository does not exist.

        Raises:
            HubError: The hub cannot be reached, or has no such branch.
        """
        from huggingface_hub import RepoFile
        from huggingface_hub.errors import GatedRepoError, RepositoryNotFoundError

        with self._reading():
            try:
                info = self.api.repo_info(self.name, repo_type=self.kind, revision=revision)
            except GatedRepoError:
                raise
            except RepositoryNotFoundError:
                return None
            commit = str(info.sha)
            tree = self.api.list_repo_tree(self.name, recursive=True, revision=commit, repo_type=self.kind)
            listed = list(itertools.islice(tree, MOST_LISTED))
        if len(listed) == MOST_LISTED:  # folders count, too: a listing cut short would pass for a whole one
            raise HubError(
                f"{self.address} lists {MOST_LISTED:,} files and folders or more, more than any costhub repository has."
            )
        entries = [entry for entry in listed if isinstance(entry, RepoFile)]
        for entry in entries:  # what is downloaded is limited by these
            if type(entry.size) is not int or not 0 <= entry.size <= MOST_LISTED_BYTES:
                raise HubError(
                    f"{self.address} lists {clean(entry.path, 100)} with {entry.size!r:.40} bytes, as no Hugging Face "
                    "hub does. Check HF_ENDPOINT; if it is right, report this to the operator of the server."
                )
        files = {entry.path: entry.lfs.sha256 if entry.lfs else entry.blob_id for entry in entries}
        return Head(commit, files, {entry.path: entry.size for entry in entries})

    def fetch(self, head: Head, path: str) -> Path:
        """Downloads a file of a commit, for reading only.

        Raises:
            HubError: The file cannot be downloaded.
        """
        from huggingface_hub import hf_hub_download

        with self._reading() as watch, xet_as_client_errors():
            watch.expect(head.sizes)
            return Path(hf_hub_download(self.name, path, repo_type=self.kind, revision=head.commit))

    def create(self) -> None:
        """Creates the repository; an existing one stays unchanged.

        Raises:
            HubError: It cannot be created.
        """
        with _accepted(self.name), _writing(self.name):
            self.api.create_repo(self.name, repo_type=self.kind, exist_ok=True)

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
        """Makes one commit on top of `head`, on the main branch or as a pull request, completely or not at all.

        Args:
            head: The state on which the change is based.
            added: Path in the repository -> local file.
            removed: Paths of files to delete.
            message: First line of the commit message.
            description: The rest of the message, in Markdown.
            pull_request: Open a pull request.

        Raises:
            StaleError: Someone else committed in the meantime; nothing was changed.
            HubError: The hub does not accept it.
        """
        from huggingface_hub import CommitOperationAdd, CommitOperationDelete

        with _accepted(self.name), _writing(self.name):
            info = self.api.create_commit(
                self.name,
                operations=[
                    *(CommitOperationAdd(path, str(local)) for path, local in sorted(added.items())),
                    *(CommitOperationDelete(path, is_folder=False) for path in sorted(removed)),
                ],
                commit_message=message,
                commit_description=description,
                repo_type=self.kind,
                parent_commit=head.commit,
                create_pr=pull_request,
            )
        return PushedCommit(str(info.oid), str(info.pr_url or info.commit_url), info.pr_num)

    def tag(self, tag: str, commit: str) -> None:
        """Gives a commit a permanent name; repeating the same tag on the same commit is fine.

        Raises:
            HubError: The tag names another commit.
        """
        if not self.has_tag(tag, commit):
            with _writing(self.name):
                self.api.create_tag(self.name, tag=tag, revision=commit, repo_type=self.kind)

    def has_tag(self, tag: str, commit: str) -> bool:
        """Whether a commit already has a tag.

        Raises:
            HubError: The tag names another commit.
        """
        tags = {ref.name: ref.target_commit for ref in self.refs()}
        if tags.get(tag, commit) != commit:
            raise HubError(
                f"{self.address} already has a tag {tag}, on the commit {tags[tag][:12]}; a version "
                "never changes. Choose another name."
            )
        return tag in tags

    def find_pull_request(self, mark: str) -> PushedCommit | None:
        """The first pull request, open or merged, whose title contains a mark; None if there is none.

        Raises:
            HubError: The hub cannot be reached.
        """
        marked = [pull for pull in self._pull_requests() if mark in pull.title and pull.status != "closed"]
        return PushedCommit("", marked[0].url, marked[0].num) if marked else None

    def open_pull_requests(self) -> list[Discussion]:
        """The pull requests that are neither merged nor closed, the oldest first.

        Raises:
            HubError: The hub cannot be reached.
        """
        return [pull for pull in self._pull_requests() if pull.status in ("open", "draft")]

    def _pull_requests(self) -> list[Discussion]:
        """All pull requests, the oldest first."""
        from huggingface_hub.errors import GatedRepoError, RepositoryNotFoundError

        with self._reading():
            try:
                pulls = list(
                    self.api.get_repo_discussions(self.name, repo_type=self.kind, discussion_type="pull_request")
                )
            except GatedRepoError:
                raise
            except RepositoryNotFoundError as error:
                # The caller has already seen the repository, so it exists.
                raise HubError(_takes_no_writes(self.address)) from error
        return sorted((pull for pull in pulls if pull.is_pull_request), key=lambda pull: pull.num)

    def title_of(self, number: int) -> str:
        """The title of a pull request.

        Raises:
            HubError: The pull request does not exist.
        """
        with self._reading():
            return self.api.get_discussion_details(self.name, number, repo_type=self.kind).title

    def close(self, number: int, comment: str) -> None:
        """Closes a pull request with a comment; one that is not open stays unchanged.

        Raises:
            HubError: The hub refuses.
        """
        with self._reading():
            status = self.api.get_discussion_details(self.name, number, repo_type=self.kind).status
        if status in ("open", "draft"):
            with _writing(self.name):
                self.api.change_discussion_status(
                    self.name, number, new_status="closed", comment=comment, repo_type=self.kind
                )

    def refs(self) -> list[GitRefInfo]:
        """The tags.

        Raises:
            HubError: The hub cannot be reached.
        """
        with self._reading():
            return list(self.api.list_repo_refs(self.name, repo_type=self.kind).tags)

    @contextlib.contextmanager
    def _reading(self) -> Iterator[Watch]:
        """Checks every answer in the block, and turns errors of the client into a HubError."""
        with (
            watched(self.name) as watch,
            sound_answers(self.address, HubError),
            readable_write_errors(self.name, reads=True),
        ):
            yield watch


@contextlib.contextmanager
def _writing(repo: str) -> Iterator[None]:
    """Limits the wait for a silent server in the block, and turns errors of the client into a HubError."""
    with answered_within(WRITE_S), readable_write_errors(repo):
        yield


@contextlib.contextmanager
def readable_write_errors(repo: str, *, reads: bool = False) -> Iterator[None]:
    """Turns errors of the Hugging Face client in the block into a HubError.

    Args:
        repo: ORG/NAME.
        reads: The block only reads.
    """
    from huggingface_hub import constants, errors
    from huggingface_hub.utils import httpx  # type: ignore[attr-defined]  # documented, but not re-exported

    where = f"hf-hub:{repo}"
    try:
        yield
    except errors.GatedRepoError as error:
        raise HubError(f"{where} is gated. Accept its terms on its page, then log in with `hf auth login`.") from error
    except errors.RepositoryNotFoundError as error:
        if error.response.status_code == 401:
            raise HubError(f"{where} requires a login. Log in with `hf auth login`.") from error
        raise HubError(f"{where} does not exist at {constants.ENDPOINT}, or is private. Check its name.") from error
    except errors.RevisionNotFoundError as error:
        raise NoRevisionError(
            f"{where} does not have the revision asked for. Check it, or leave @REVISION out to take the main branch."
        ) from error
    except errors.HFValidationError as error:
        raise HubError(f"{where} is not a name the Hugging Face hub allows ({first_line(error)}).") from error
    except errors.OfflineModeIsEnabled as error:
        raise HubError(f"{where} cannot be reached: HF_HUB_OFFLINE is set. Unset it.") from error
    except errors.HfHubHTTPError as error:
        if reads and error.response.status_code in (401, 403):
            raise HubError(
                f"You may not read {where}. Log in with `hf auth login` as a user who may, or ask its owner for access."
            ) from error
        raise _refused_by_server(where, error.response.status_code, error) from error
    except (httpx.HTTPError, errors.LocalEntryNotFoundError) as error:
        raise HubError(
            f"{where} could not be reached at {constants.ENDPOINT} ({first_line(error)}). {_AGAIN}"
        ) from error
    except OSError as error:  # hf_xet's failures, and those of the disk
        if reads:
            raise HubError(
                f"{where} could not be read, or its files not be stored here ({clean(first_line(error), 200)}). Check "
                "the connection and the free space, then run the command again."
            ) from error
        raise HubError(
            f"{where} could not store the files ({clean(first_line(error), 200)}). {_AGAIN} A server without "
            "Xet storage needs HF_HUB_DISABLE_XET=1."
        ) from error


@contextlib.contextmanager
def _accepted(repo: str) -> Iterator[None]:
    """Turns errors that the client raises in the block for a rejected card or upload into a HubError."""
    try:
        yield
    except (ValueError, RuntimeError) as error:
        reasons = clean(" ".join(str(error.__cause__ or error).split()), 300)
        raise HubError(f"hf-hub:{repo} does not accept the files: {reasons} {_AGAIN}") from error


def _refused_by_server(where: str, status: int, error: Exception) -> HubError:
    if status in _STALE:
        return StaleError(f"{where} was changed by someone else in the meantime. Run the command again.")
    if status in (401, 403):
        return HubError(
            f"{where} does not let you write to it. Log in with `hf auth login` and a token with write access."
        )
    if status in _READ_ONLY:
        return HubError(_takes_no_writes(where))
    answer = clean(" ".join(str(getattr(error, "server_message", None) or first_line(error)).split()), 300)
    return HubError(f"{where} answered {status} ({answer}). Nothing was left half done; run the command again.")


def _takes_no_writes(where: str) -> str:
    what = "is behind a read-only server, such as a mirror"
    return f"{where} {what}. Set HF_ENDPOINT to the hub itself."


def blob_id(path: Path) -> str:
    """Git's id of a file.

    Example:
        >>> import tempfile
        >>> with tempfile.NamedTemporaryFile() as file:
        ...     blob_id(Path(file.name))
        'e69de29bb2d1d6434b8b29ae775ad8c2e48c5391'
    """
    digest = hashlib.sha1(b"blob %d\0" % path.stat().st_size, usedforsecurity=False)
    with path.open("rb") as file:
        while chunk := file.read(_CHUNK_BYTES):
            digest.update(chunk)
    return digest.hexdigest()
