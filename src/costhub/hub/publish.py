"""Provides publish: a checked model or data folder becomes a version in a hub, in one commit."""

from __future__ import annotations

import re
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timezone
from pathlib import Path
from typing import Any

from costhub.cards.dataset_card import PICTURES, SAMPLE, recorded_changes
from costhub.cards.markdown import CARD, MAX_CARD_CHARACTERS, check_card_text, split
from costhub.dataset.check.folder import check_folder
from costhub.errors import HubError, ModelError, RefusedError
from costhub.hub.dataset_documents import write_dataset_documents
from costhub.hub.model_check.model_gate import check_model
from costhub.hub.remote.address import AddressError
from costhub.hub.remote.folder_repo import FolderRepo, Repository, open_repository
from costhub.hub.remote.manifest import MANIFEST, MAX_MANIFEST_BYTES, hash_file, read_manifest
from costhub.hub.remote.remote_repo import ATTEMPTS, Head, Kind, PushedCommit, RemoteRepo, StaleError, blob_id
from costhub.hub.staging import Staged, own_names_in, personal_texts, read_card, staged

# Excludes what git refuses, and what looks like a branch or a commit.
_TAG_NAME = re.compile(r"(?!(?:main|HEAD|[0-9a-f]{40}|.*\.\..*|.*\.|.*\.lock)$)[A-Za-z0-9][A-Za-z0-9._-]{0,60}")


@dataclass(frozen=True)
class PublishPlan:
    """What a publication is about to change."""

    to: str
    kind: Kind
    files: Mapping[str, int]
    """Path in the repository -> bytes, of new and changed files."""
    removed: Sequence[str]
    unchanged: int
    """Files that the hub already has."""
    is_new: bool
    """Whether the repository is created first."""

    @property
    def bytes(self) -> int:
        """Of all files to send."""
        return sum(self.files.values())


@dataclass(frozen=True)
class PublishedVersion:
    """The result of a publication."""

    plan: PublishPlan
    commit: str
    """The commit on the Hugging Face hub."""
    url: str
    tag: str | None


def publish(
    folder: str | Path,
    to: str,
    *,
    name: str | None = None,
    tag: str | None = None,
    replace: bool = False,
    agree: Callable[[PublishPlan], bool] = lambda plan: True,
) -> PublishedVersion | None:
    """Checks a folder and puts it into a hub, in one commit: all of it, or nothing.

    Args:
        folder: A model folder with its card, or a data folder.
        to: `hf-hub:ORG/NAME`, or the folder of a hub.
        name: ORG/NAME in a hub that is a folder.
        tag: A permanent name for this version.
        replace: Also remove measurements that only the hub has.
        agree: Called with the plan before anything is sent; False cancels.

    Returns:
        What was published; None if `agree` returned False.

    Raises:
        CosthubError: One of its kinds: the check finds an error, the hub does not accept it.
    """
    if tag is not None and not _TAG_NAME.fullmatch(tag):
        raise AddressError(f"{tag!r} cannot be a tag; use letters, digits, dots and dashes, as in v1.0.")
    with staged(folder) as ready:
        repo = open_repository(to, name, ready.kind)
        if tag is not None and isinstance(repo, FolderRepo):
            repo.tag(tag, "")
        _check(ready)
        head = repo.head()
        if ready.kind == "dataset":
            _write_dataset_card(repo, ready, head, tag)
        plan = _plan(repo, ready, head, replace)
        if tag is not None and head is not None and isinstance(repo, RemoteRepo):
            repo.refuse_taken(tag, "" if plan.files or plan.removed else head.commit)
        if not agree(plan):
            return None
        if head is None:
            repo.create()
        pushed = _push(repo, ready, plan, f"{ready.name} {tag}" if tag else ready.name, replace)
        if tag is not None:
            repo.tag(tag, pushed.commit)
    return PublishedVersion(plan, pushed.commit, pushed.url, tag)


def _check(ready: Staged) -> None:
    told = personal_texts(ready.files())
    if told:
        raise RefusedError(f"{told[0]} Nothing was sent; remove it, because everyone could read it.")
    if ready.kind == "model":
        check_model(ready.folder)
        return
    errors = [f for f in check_folder(ready.folder, progress=True) if f.severity == "error"]
    if errors:
        raise RefusedError(
            f"`costhub check` does not pass ({len(errors)} in all): {errors[0].rule} in {errors[0].where}: "
            f"{errors[0].message} {errors[0].fix} Nothing was sent."
        )
    traces = own_names_in(ready.folder)
    if traces:
        raise RefusedError(f"{traces[0]} Nothing was sent; remove it from the rows, or from the device.")
    check_card_text(split(read_card(ready.folder / CARD))[1], CARD)


def _write_dataset_card(repo: Repository, ready: Staged, head: Head | None, tag: str | None) -> None:
    """Writes the card of a dataset, which continues the list of versions of the card in the hub."""
    text = read_card(ready.folder / CARD)
    changes = recorded_changes(text)
    if head is not None and CARD in head.files and head.sizes.get(CARD, 0) <= MAX_CARD_CHARACTERS:
        changes = _recorded_changes(repo.fetch(head, CARD)) or changes
    write_dataset_documents(
        ready.folder,
        text,
        name=repo.name,
        address=repo.name if isinstance(repo, FolderRepo) else f"hf-hub:{repo.name}",
        changes=changes,
        date=datetime.now(timezone.utc).date().isoformat(),
        version=tag,
    )
    check_card_text(split(read_card(ready.folder / CARD))[1], CARD)


def _recorded_changes(card: Path) -> list[dict[str, Any]]:
    """The versions that a card in a hub lists."""
    try:
        return recorded_changes(card.read_text(encoding="utf-8"))
    except UnicodeDecodeError:
        return []  # not a card of costhub


def _changes(repo: Repository, ready: Staged, head: Head | None) -> tuple[dict[str, Path], list[str]]:
    """The files to send, and those of an earlier version to delete."""
    files = ready.files()
    if head is None:
        return dict(files), []
    added = {path: local for path, local in files.items() if not head.has(path, local)}
    ours = _version_files(repo, head)
    return added, sorted(path for path in head.files if path in ours and path not in files)


def _version_files(repo: Repository, head: Head) -> set[str]:
    """The files of the version in the repository; what people add beside them stays."""
    if repo.kind == "dataset":
        tables = ("measurements/", "devices/", "workloads/", "splits/", f"{SAMPLE}/train-")
        return {path for path in head.files if path.startswith(tables) or path in PICTURES}
    if MANIFEST not in head.files or head.sizes.get(MANIFEST, 0) > MAX_MANIFEST_BYTES:
        return set()
    try:
        return {MANIFEST, *read_manifest(repo.fetch(head, MANIFEST).parent).files}
    except ModelError:  # not a manifest of costhub
        return set()


def _plan(repo: Repository, ready: Staged, head: Head | None, replace: bool) -> PublishPlan:
    added, removed = _changes(repo, ready, head)
    _refuse_loss(repo, ready, head, replace)
    return PublishPlan(
        repo.folder.as_posix() if isinstance(repo, FolderRepo) else f"hf-hub:{repo.name}",
        repo.kind,
        {path: local.stat().st_size for path, local in added.items()},
        removed,
        len(ready.files()) - len(added),
        head is None,
    )


def _refuse_loss(repo: Repository, ready: Staged, head: Head | None, replace: bool) -> None:
    """Refuses to delete measurements that only the hub has; a shard under another name is not lost."""
    if replace or head is None or ready.kind == "model":
        return
    ours = {sha for path in ready.files().values() for sha in (hash_file(path).sha256, blob_id(path))}
    lost = [p for p, sha in head.files.items() if p.startswith("measurements/") and sha not in ours]
    if lost:
        raise HubError(
            f"{repo.name} holds {len(lost)} shards of measurements that this folder lacks ({lost[0]}), "
            "perhaps from other people. Send yours with `costhub contribute`, or remove these shards from "
            "the hub with --replace."
        )


def _push(repo: Repository, ready: Staged, plan: PublishPlan, message: str, replace: bool) -> PushedCommit:
    for attempt in range(ATTEMPTS):
        head = repo.head()
        if head is None:
            raise HubError(f"{plan.to} was deleted meanwhile. Run the command again.")
        added, removed = _changes(repo, ready, head)
        _refuse_loss(repo, ready, head, replace)
        if not set(removed) <= set(plan.removed):
            raise StaleError(f"{plan.to} was changed by somebody else meanwhile. Run the command again.")
        if not added and not removed:
            return PushedCommit(head.commit, plan.to)
        try:
            return repo.commit(head, added, removed, message=f"Publish {message} with costhub")
        except StaleError:
            if attempt == ATTEMPTS - 1:
                raise
            time.sleep(0.1 * 2**attempt)
    raise AssertionError("the last attempt raises")
