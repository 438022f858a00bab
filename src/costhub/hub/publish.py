"""Provides publish: publishes a checked model or data folder as a version in a hub, in one commit."""

from __future__ import annotations

import contextlib
import re
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime, timezone
from pathlib import Path

import pyarrow as pa
import pyarrow.compute as pc

from costhub.cards import model_card
from costhub.cards.card_check import check_card
from costhub.cards.dataset_card import PICTURES, SAMPLE, recorded_changes, recorded_importers
from costhub.cards.markdown import CARD, MAX_CARD_CHARACTERS
from costhub.cards.model_facts import ADDRESSED_VERSION
from costhub.dataset.check.folder import check_folder
from costhub.dataset.check.rule import Finding
from costhub.dataset.croissant import CROISSANT
from costhub.dataset.folder import DataFolder
from costhub.dataset.shards.journal import JOURNAL, read_journal
from costhub.dataset.shards.layout import RECORD_KEY, record_key
from costhub.dataset.shards.shard import read_shard
from costhub.dataset.shards.shard_set import read_shards
from costhub.errors import ArgumentError, DataError, HubError, ModelError, RefusedError
from costhub.hub.catalogue.figures import low_figures
from costhub.hub.dataset_documents import data_facts, write_dataset_documents
from costhub.hub.model_check.model_gate import check_model
from costhub.hub.remote.address import AddressError
from costhub.hub.remote.folder_repo import FolderRepo, Repository, open_repository
from costhub.hub.remote.manifest import MANIFEST, MAX_MANIFEST_BYTES, hash_file, read_manifest, write_manifest
from costhub.hub.remote.remote_repo import (
    Head,
    Kind,
    PushedCommit,
    RemoteRepo,
    StaleError,
    blob_id,
    repeat_if_stale,
)
from costhub.hub.staging import (
    Consent,
    Staged,
    check_consent,
    is_agreed,
    own_names_in,
    personal_texts,
    read_card,
    staged,
)
from costhub.terminal_text import Printed, clean, counted

# Excludes names that git rejects, and those that look like a branch or commit.
_TAG_NAME = re.compile(r"(?!(?:main|HEAD|[0-9a-f]{40}|.*\.\..*|.*\.|.*\.lock)$)[A-Za-z0-9][A-Za-z0-9._-]{0,60}")


@dataclass(frozen=True)
class PublishPlan:
    """The changes that a publication will make."""

    to: str
    kind: Kind
    files: Mapping[str, int]
    """Path in the repository -> bytes, of new and changed files."""
    removed: Sequence[str]
    unchanged: int
    """Files that the hub already has."""
    is_new: bool
    """Whether the repository is created first."""
    warnings: Sequence[Finding] = ()
    """Warnings from the check of a dataset; the card counts these rows."""
    low_figures: Sequence[str] = ()
    """A sentence for each probed figure of a device that is far below the one in the device index."""

    @property
    def bytes(self) -> int:
        """Total size of all files to send."""
        return sum(self.files.values())

    @property
    def is_change(self) -> bool:
        """Whether the hub lacks anything of it, or holds what is to be removed."""
        return bool(self.is_new or self.files or self.removed)


@dataclass(frozen=True, repr=False)
class PublishedVersion(Printed):
    """The result of a publication; `print` shows it as `costhub publish` does."""

    plan: PublishPlan
    commit: str
    """The commit on the Hugging Face hub."""
    url: str
    tag: str | None

    def __str__(self) -> str:
        tag = f" as {self.tag}" if self.tag else ""
        return f"{'Published' if self.plan.is_change else 'Unchanged'}: {self.url}{tag}"


def publish(
    folder: str | Path,
    to: str,
    *,
    agree: Consent[PublishPlan],
    name: str | None = None,
    tag: str | None = None,
    replace: bool = False,
) -> PublishedVersion | None:
    """Checks a folder and puts it into a hub, in one commit: all of it or nothing.

    Args:
        folder: A model folder with its card, or a data folder.
        to: `hf-hub:ORG/NAME`, or the folder of a hub.
        agree: Your consent, which is never implied: True, or a function that is called with the plan before
            anything is sent. Unless it returns True, nothing is sent.
        name: ORG/NAME in a folder hub.
        tag: A permanent name for this version.
        replace: Of a dataset: also remove measurements and splits that exist only in the hub.

    Returns:
        What was published; None if the function `agree` did not return True.

    Raises:
        CosthubError: One of its subclasses: `agree` is neither True nor a function, the check finds an error, the hub
            does not accept it.

    Example:
        >>> import tempfile
        >>> from costhub.hub.catalogue.find import find_model
        >>> hub = tempfile.mkdtemp()
        >>> def only_small(plan):  # sends nothing above a megabyte
        ...     return plan.bytes < 1_000_000
        >>> model = find_model("nvidia-h200", arch="gbt").entry.folder
        >>> publish(model, hub, name="lab/mine", agree=only_small) is None
        True
    """
    check_consent(agree)
    if tag is not None and not _TAG_NAME.fullmatch(tag):
        raise AddressError(f"{tag!r} cannot be a tag; use letters, digits, dots and dashes, as in v1.0.")
    with staged(folder) as ready:
        repo = open_repository(to, name, ready.kind)
        _refuse_idle(ready, repo, tag, replace)
        address = repo.name if isinstance(repo, FolderRepo) else repo.address
        if ready.kind == "model":
            _address_model_card(ready.folder, address)
        warnings = _check(ready, address)
        head = repo.head()
        if ready.kind == "dataset":
            _write_dataset_card(repo, ready, head, tag, address, warnings)
        publication = _Publication(repo, ready, replace, warnings, None if head is None else head.files.get(CARD))
        plan = publication.plan(head)
        if tag is not None and head is not None and isinstance(repo, RemoteRepo):
            # Raises for the tag of another commit, before anybody is asked.
            repo.has_tag(tag, "" if plan.files or plan.removed else head.commit)
        if not is_agreed(agree, plan):
            return None
        pushed = _send(publication, plan, tag, is_new=head is None)
    return PublishedVersion(plan, pushed.commit, pushed.url, tag)


def _refuse_idle(ready: Staged, repo: Repository, tag: str | None, replaces: bool) -> None:
    """Refuses options that would do nothing, before the check, which takes longer."""
    if tag is not None and isinstance(repo, FolderRepo):
        repo.tag(tag, "")
    if replaces and ready.kind == "model":
        raise ArgumentError(
            f"{ready.name} is a model, and --replace (replace=True) removes measurements: leave it out. A model takes "
            "the place of an earlier version anyway."
        )


def _send(publication: _Publication, plan: PublishPlan, tag: str | None, *, is_new: bool) -> PushedCommit:
    """Commits the planned changes, in a repository that is created if it is new, and tags the commit."""
    repo = publication.repo
    if is_new:
        repo.create()
    with _leaving_nothing(repo if is_new else None):
        pushed = _pushed(publication, plan, tag)
    if tag is not None:
        repo.tag(tag, pushed.commit)
    return pushed


def _pushed(publication: _Publication, plan: PublishPlan, tag: str | None) -> PushedCommit:
    name = publication.ready.name
    message = f"Publish {name} {tag} with costhub" if tag else f"Publish {name} with costhub"
    return repeat_if_stale(lambda: publication.push(plan, message))


@contextlib.contextmanager
def _leaving_nothing(repo: Repository | None) -> Iterator[None]:
    """Removes the folder of a new repository in a hub's folder if nothing arrived there."""
    try:
        yield
    except BaseException:
        if isinstance(repo, FolderRepo):
            with contextlib.suppress(OSError):  # it holds something
                repo.folder.rmdir()
        raise


@dataclass(frozen=True)
class _Publication:
    """A staged folder being published to a repository."""

    repo: Repository
    ready: Staged
    replaces: bool
    """Whether to delete measurements and splits that exist only in the hub."""
    warnings: Sequence[Finding]
    card: str | None
    """The hub's id of the card in the hub, from which that of a dataset was made; None if there was none."""

    def plan(self, head: Head | None) -> PublishPlan:
        """What publishing on top of `head` would change.

        Raises:
            HubError: The hub would lose measurements.
        """
        added, removed = self._changes(head)
        return PublishPlan(
            to=self.repo.address,
            kind=self.repo.kind,
            files={path: local.stat().st_size for path, local in added.items()},
            removed=removed,
            unchanged=len(self.ready.files()) - len(added),
            is_new=head is None,
            warnings=self.warnings,
            low_figures=_low_figures(self.ready) if self.ready.kind == "dataset" else (),
        )

    def push(self, plan: PublishPlan, message: str) -> PushedCommit:
        """Commits the differences from the current head.

        Raises:
            StaleError: Someone else committed in the meantime.
            HubError: The hub does not accept it, or has changed in a way not covered by the plan.
        """
        head = self.repo.head()
        if head is None:
            raise HubError(f"{plan.to} was deleted in the meantime. Run the command again.")
        added, removed = self._changes(head)
        is_rewritten = self.ready.kind == "dataset" and CARD in added and head.files.get(CARD) != self.card
        if is_rewritten or not set(removed) <= set(plan.removed):
            raise HubError(f"{plan.to} was changed by someone else in the meantime. Run the command again.")
        if not added and not removed:
            return PushedCommit(head.commit, plan.to)
        return self.repo.commit(head, added, removed, message=message)

    def _changes(self, head: Head | None) -> tuple[dict[str, Path], list[str]]:
        """The files to send, and those of an earlier version to delete."""
        files = self.ready.files()
        if head is None:
            return dict(files), []
        self._refuse_loss(head)
        added = {path: local for path, local in files.items() if not head.has(path, local)}
        ours = _version_files(self.repo, head)
        if self.ready.kind == "dataset" and not self.replaces:
            # A folder that has only grown may never have had the splits of the hub.
            ours = {path for path in ours if not path.startswith("splits/")}
        return added, sorted(path for path in head.files if path in ours and path not in files)

    def _refuse_loss(self, head: Head) -> None:
        """Refuses to delete measurements that exist only in the hub; rows that moved to other shards are not lost."""
        if self.replaces or self.ready.kind == "model":
            return
        ours = {sha for path in self.ready.files().values() for sha in (hash_file(path).sha256, blob_id(path))}
        tables = [path for path in head.files if path.startswith("measurements/")]
        # Hidden files, such as locks that were uploaded by hand, hold no rows.
        others = [path for path in tables if head.files[path] not in ours and not Path(path).name.startswith(".")]
        lost = self._lost_rows(head, others)
        if lost:
            raise HubError(
                f"{self.repo.name} holds {counted(len(lost), 'shard')} of measurements with "
                f"{counted(sum(lost.values()), 'row')} that this folder lacks ({next(iter(lost))}), perhaps from other "
                "people. Send yours with `costhub contribute`, or remove these rows from the hub with --replace."
            )

    def _lost_rows(self, head: Head, paths: Sequence[str]) -> dict[str, int]:
        """Shards and journals of the hub with rows that the folder lacks, and how many these are."""
        ours: dict[Path, pa.Array] = {}
        lost = {}
        for path in paths:
            device = self.ready.folder / Path(path).parent
            if device not in ours:
                ours[device] = read_shards(device, "measurements", [RECORD_KEY])[RECORD_KEY].combine_chunks()
            is_lost = pc.invert(pc.is_in(self._keys_in_hub(head, path), value_set=ours[device]))
            if rows := pc.sum(is_lost).as_py():
                lost[path] = int(rows)
        return lost

    def _keys_in_hub(self, head: Head, path: str) -> pa.Array | pa.ChunkedArray:
        try:
            return _record_keys(self.repo.fetch(head, path))
        except FileNotFoundError as error:
            what = f"{self.repo.name} was changed by someone else in the meantime"
            raise StaleError(f"{what}. Run the command again.") from error
        except DataError as error:
            raise HubError(
                f"{self.repo.name} holds {path}, which cannot be read, so nobody can tell whether this folder lacks "
                "its rows. Remove it from the hub with --replace."
            ) from error


def _record_keys(file: Path) -> pa.Array | pa.ChunkedArray:
    """The keys of the records in a shard or journal; rows keep them when they move to another shard."""
    if file.name == JOURNAL:
        return pa.array([record_key(row["record_id"]) for row in read_journal(file)[0]], pa.string())
    return read_shard(file, [RECORD_KEY], table="measurements")[RECORD_KEY]


def _check(ready: Staged, address: str) -> list[Finding]:
    """Rejects what is not fit for publication; returns the warnings, which are no reason to reject."""
    if ready.kind == "model":
        credit = check_model(ready.folder).data_credit
        _refuse_personal(ready, [address, credit or ""])
        return []
    findings = check_folder(ready.folder, progress=True)
    errors = [found for found in findings if found.severity == "error"]
    if errors:
        raise RefusedError(
            f"`costhub check` does not pass ({len(errors)} in all): {errors[0].rule} in {errors[0].where}: "
            f"{errors[0].message} {errors[0].fix} Nothing was sent."
        )
    # Only now: damaged rows are not read for the names of contributors.
    _refuse_personal(ready, [address, *data_facts(ready.folder).contributors])
    names = own_names_in(ready.folder)
    if names:
        raise RefusedError(f"{names[0]} Nothing was sent; remove it from the rows, or from the device.")
    check_card(read_card(ready.folder / CARD), CARD)
    return findings


def _refuse_personal(ready: Staged, public: Sequence[str]) -> None:
    """Rejects texts with personal data other than what is public: the address, and the names of contributors."""
    personal = personal_texts(ready.files(), public)
    if personal:
        raise RefusedError(f"{personal[0]} Nothing was sent; remove it, because everyone could read it.")


def _low_figures(ready: Staged) -> tuple[str, ...]:
    """A sentence for each figure of the devices of a dataset that is far below the one in the device index."""
    rows = DataFolder.open(ready.folder).devices().to_pylist()
    return tuple(f"{clean(row['device_id'], 60)}: {sentence}" for row in rows for sentence in low_figures(row))


def warned_rows(warnings: Sequence[Finding]) -> dict[str, int]:
    """Rule id -> number of rows that break it, for warnings about rows.

    Example:
        >>> from costhub.dataset.check.rule import Finding
        >>> warned_rows([Finding("CH060", "warning", where, "", "", rows=20) for where in ("one", "two")])
        {'CH060': 40}
    """
    rows: Counter[str] = Counter()
    for found in warnings:
        rows[found.rule] += found.rows
    return dict(+rows)


def _address_model_card(folder: Path, address: str) -> None:
    """Makes the commands on a model card use the model's future address; other cards are left alone."""
    text = read_card(folder / CARD) if (folder / CARD).is_file() else ""
    try:
        card = model_card.parse(text)
        is_ours = card.version >= ADDRESSED_VERSION and model_card.is_as_rendered(text)
    except DataError:
        return  # the check reports what is wrong with it
    if is_ours:
        (folder / CARD).write_text(model_card.render(replace(card, address=address)), encoding="utf-8")
        write_manifest(folder)


def _write_dataset_card(
    repo: Repository, ready: Staged, head: Head | None, tag: str | None, address: str, warnings: Sequence[Finding]
) -> None:
    """Writes the card of a dataset, which keeps the versions and the importers that the card in the hub names."""
    text, earlier = read_card(ready.folder / CARD), _earlier_card(repo, head)
    changes = recorded_changes(text)
    write_dataset_documents(
        ready.folder,
        text,
        name=repo.name,
        address=address,
        changes=recorded_changes(earlier) or changes,
        date=datetime.now(timezone.utc).date().isoformat(),
        version=tag,
        warned_rows=warned_rows(warnings),
        importers=recorded_importers(earlier),
    )
    check_card(read_card(ready.folder / CARD), CARD)


def _earlier_card(repo: Repository, head: Head | None) -> str:
    """The card in a hub; empty where there is none that costhub could have written."""
    if head is None or CARD not in head.files or head.sizes.get(CARD, 0) > MAX_CARD_CHARACTERS:
        return ""
    try:
        return repo.fetch(head, CARD).read_text(encoding="utf-8")
    except UnicodeDecodeError:
        return ""


def _version_files(repo: Repository, head: Head) -> set[str]:
    """The files of the version in the repository; files that people add beside them stay."""
    if repo.kind == "dataset":
        tables = ("measurements/", "devices/", "workloads/", "splits/", f"{SAMPLE}/train-")
        return {path for path in head.files if path.startswith(tables) or path in (*PICTURES, CROISSANT)}
    if MANIFEST not in head.files or head.sizes.get(MANIFEST, 0) > MAX_MANIFEST_BYTES:
        return set()
    try:
        return {MANIFEST, *read_manifest(repo.fetch(head, MANIFEST).parent).files}
    except ModelError:  # not a costhub manifest
        return set()
