"""Provides fetch_snapshot, a model repository of the Hugging Face hub at one commit, and readable_errors."""

from __future__ import annotations

import contextlib
import itertools
import re
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from costhub.errors import CosthubError, HubError, ModelError, first_line
from costhub.hub.remote.manifest import MAX_FILES, MAX_TOTAL_BYTES
from costhub.hub.remote.watch import sound_answers, watched

if TYPE_CHECKING:
    from huggingface_hub import HfApi, ResolvedRevision

MODEL_PATTERNS = ["*.json", "*.md", "*.png", "*.safetensors", "*.ubj"]
"""Every kind of file that a model folder may hold; other files of a repository are never fetched."""

MOST_LISTED = 10_000
"""Maximum number of entries in a listing; a model's repository has about ten."""
_COMMIT = re.compile(r"[0-9a-f]{40,64}")


@dataclass(frozen=True)
class Snapshot:
    """A repository at one commit, on this machine."""

    folder: Path
    commit: str


def fetch_snapshot(repo: str, revision: str | None) -> Snapshot:
    """Downloads the model files of a repository, or finds them in the cache of the Hugging Face client.

    $HF_ENDPOINT names the server, https://huggingface.co by default; $HF_HUB_OFFLINE=1 uses only the cache.

    Args:
        repo: ORG/NAME.
        revision: A branch, tag or commit; None for the main branch.

    Raises:
        ModelError: The repository or revision does not exist, or is too large.
        HubError: The hub cannot be reached.
    """
    # Imported here: it takes a quarter of a second, which offline commands should not cost.
    from huggingface_hub import HfApi, snapshot_download

    quiet_without_terminal()
    api = HfApi(library_name="costhub")
    with (
        watched(repo) as watch,
        sound_answers(f"hf-hub:{repo}", ModelError),
        readable_errors(repo, revision, ModelError),
        xet_as_client_errors(),
    ):
        pinned = api.resolve_revision(repo, revision=revision)
        if not _COMMIT.fullmatch(str(pinned.resolved)):
            raise ValueError(f"its revision is {pinned.resolved!r}")
        sizes = _listed_sizes(api, repo, pinned)
        if sizes is not None:
            watch.expect(sizes)
        folder = snapshot_download(
            repo,
            revision=pinned,
            allow_patterns=MODEL_PATTERNS,
            library_name="costhub",
            local_files_only=sizes is None,  # a hub whose listing failed may answer again, without any limit
        )
    return Snapshot(Path(folder), pinned.resolved)


@contextlib.contextmanager
def readable_errors(repo: str, revision: str | None, kind: type[CosthubError]) -> Iterator[None]:
    """Turns errors of the Hugging Face client in the block into one of `kind`; a HubError if the hub is not reached.

    Args:
        repo: ORG/NAME.
        revision: The requested revision, for the message.
        kind: The error to raise.
    """
    from huggingface_hub import constants, errors
    from huggingface_hub.utils import httpx  # type: ignore[attr-defined]  # documented, but not re-exported

    endpoint = constants.ENDPOINT
    try:
        yield
    except errors.GatedRepoError as error:
        raise kind(
            f"hf-hub:{repo} is gated. Accept its terms on its page, then log in with `hf auth login`."
        ) from error
    except errors.RepositoryNotFoundError as error:
        raise kind(
            f"hf-hub:{repo} does not exist at {endpoint}, or is private. Check its name; for a private "
            "one log in with `hf auth login`."
        ) from error
    except errors.RevisionNotFoundError as error:
        raise kind(
            f"hf-hub:{repo} has no revision {revision!r}. Leave @{revision} out to take its main branch."
        ) from error
    except errors.HFValidationError as error:
        raise kind(f"hf-hub:{repo} is not a name the Hugging Face hub allows ({error}).") from error
    except (
        errors.RevisionResolutionError,
        errors.LocalEntryNotFoundError,
        errors.OfflineModeIsEnabled,
        FileNotFoundError,  # raised by its file system for a file that no longer exists
        httpx.HTTPError,
    ) as error:
        raise HubError(
            f"hf-hub:{repo} could not be fetched from {endpoint}, and the cache does not hold all of it "
            f"({first_line(error)}). Check the connection and HF_ENDPOINT, then try again."
        ) from error


@contextlib.contextmanager
def xet_as_client_errors() -> Iterator[None]:
    """Turns the plain errors that hf_xet raises for a failed download into the client's error.

    Example:
        >>> with xet_as_client_errors():
        ...     raise RuntimeError("Task error: CAS")
        Traceback (most recent call last):
        ...
        httpx2.TransportError: Task error: CAS
    """
    from huggingface_hub.utils import httpx  # type: ignore[attr-defined]  # documented, but not re-exported

    try:
        yield
    except (RuntimeError, PermissionError) as error:  # the second is hf_xet's XetAuthenticationError
        raise httpx.TransportError(first_line(error)) from error


def _listed_sizes(api: HfApi, repo: str, pinned: ResolvedRevision) -> dict[str, int] | None:
    """Path -> bytes of the model files in a repository; None if only the cache can be used.

    Raises:
        ModelError: Before any download: they are too many or too large for a model, or not files of a model.
    """
    from huggingface_hub import RepoFile
    from huggingface_hub.errors import OfflineModeIsEnabled
    from huggingface_hub.utils import httpx  # type: ignore[attr-defined]  # documented, but not re-exported

    try:
        tree = api.list_repo_tree(repo, recursive=True, revision=pinned.resolved)
        entries = list(itertools.islice(tree, MOST_LISTED + 1))
    except (OfflineModeIsEnabled, httpx.TransportError):
        return None  # Nothing can be fetched now: only the cache will be used, which needs no limit.
    sizes = {e.path: e.size for e in entries if isinstance(e, RepoFile) and _is_model_file(e.path)}
    for path, size in sizes.items():
        if {"", ".", ".."} & set(path.split("/")) or not path.isprintable() or "\\" in path:
            raise ValueError(f"it lists {path!r}")
        if type(size) is not int or size < 0:
            raise ValueError(f"{path} has {size!r} bytes")
    if len(entries) > MOST_LISTED or len(sizes) > MAX_FILES:
        raise ModelError(f"hf-hub:{repo} lists more than the {MAX_FILES} files that a cost model may have.")
    if sum(sizes.values()) > MAX_TOTAL_BYTES:
        raise ModelError(
            f"hf-hub:{repo} holds {sum(sizes.values()):,} bytes of model files, more than the {MAX_TOTAL_BYTES:,} a "
            "cost model may have."
        )
    return sizes


def _is_model_file(path: str) -> bool:
    return any(path.endswith(pattern.removeprefix("*")) for pattern in MODEL_PATTERNS)


def quiet_without_terminal() -> None:
    """Hides the client's progress bars if stderr is not a terminal."""
    from huggingface_hub.utils import (  # type: ignore[attr-defined]  # documented, but not re-exported
        are_progress_bars_disabled,
        disable_progress_bars,
    )

    if not sys.stderr.isatty() and not are_progress_bars_disabled():
        disable_progress_bars()
