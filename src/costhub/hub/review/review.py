"""Provides review: judges a contribution or a model, from a folder or a pull request."""

from __future__ import annotations

import contextlib
import shlex
import shutil
import tempfile
from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import Path

from costhub.cards.card_check import check_card
from costhub.cards.markdown import CARD, MAX_CARD_CHARACTERS
from costhub.dataset.check.files import FEATURES_FOLDER
from costhub.dataset.folder import DataFolder
from costhub.dataset.shards.lock import LOCK
from costhub.errors import ArgumentError, DataError, ModelError, RefusedError, first_line
from costhub.files import copy_regular
from costhub.hub.catalogue.hubs import embedded_root
from costhub.hub.contribute import INBOX
from costhub.hub.data import find_data, load_measurements
from costhub.hub.model_check.model_gate import check_model
from costhub.hub.remote.address import HF_PREFIX
from costhub.hub.remote.folder_repo import place_in_hub
from costhub.hub.remote.manifest import MAX_TOTAL_BYTES
from costhub.hub.remote.remote_repo import Kind
from costhub.hub.review.comparison import Reason, ReviewVerdict
from costhub.hub.review.contribution import review_contribution
from costhub.hub.review.fetch import MOST_FILES, PullRequest, fetch_compared, find_pull_request
from costhub.hub.review.merge import close_known, merge_into, merge_pull_request
from costhub.hub.staging import folder_kind, read_card
from costhub.terminal_text import Printed, clean


@dataclass(frozen=True, repr=False)
class ReviewOutcome(Printed):
    """A verdict, and the merge that followed it; `print` shows both as `costhub review` does."""

    verdict: ReviewVerdict
    merged: str | None = None
    """Where it was merged, i.e. a commit or a folder; None if it was not merged."""
    not_removed: str | None = None
    """Why a folder whose rows are in the tables is still in the inbox; None if it is gone, or was never in one."""
    repository: str | None = None
    """ORG/NAME of the dataset on the Hugging Face hub into which a pull request was merged; None for folders."""
    closed: bool = False
    """Whether a contribution was closed because all of its rows were in the tables already."""
    removed: bool = False
    """Whether its folder was removed from the inbox."""

    @property
    def renewing(self) -> list[str]:
        """The commands that write the card of the dataset again; empty if nothing was merged."""
        if self.merged is None:
            return []
        if self.repository is not None:
            # Without --local-dir, the client makes links, which `publish` refuses.
            # A merge renames the shards, so an earlier copy must not be downloaded into again.
            folder = f"renewed-{self.merged[:7]}/"
            return [
                f"hf download {self.repository} --repo-type dataset --local-dir {folder}",
                f"costhub publish {folder} --to hf-hub:{self.repository}",
            ]
        place = place_in_hub(self.merged)
        if place is None:
            return ["costhub publish DATASET_FOLDER --to HUB --as ORG/NAME"]
        hub, name = place
        return [shlex.join(["costhub", "publish", str(Path(self.merged).resolve()), "--to", str(hub), "--as", name])]

    def __str__(self) -> str:
        lines, subject = [str(self.verdict)], self.verdict.subject
        is_waiting = Path(subject).parent.name == INBOX and Path(subject).is_dir()
        if not self.verdict.is_accepted and is_waiting:
            lines.append(f"Remove the folder {subject} to close the contribution.")
        if self.merged:
            lines.append(f"Merged: {self.merged}")
        if self.removed:
            lines.append(f"Removed: {subject}, which awaited the review")
        if self.not_removed:
            why = f"({self.not_removed}). Its rows are in the tables"
            lines.append(f"Not removed: {subject} {why}; its owner must remove it.")
        if self.merged:
            commands = ", then ".join(f"`{each}`" for each in self.renewing)
            lines.append(f"The card is unchanged; {commands} renews its licences and contributors.")
        if self.closed:
            lines.append("Closed: all of its rows were in the tables already.")
        return "\n".join(lines)


def review(subject: str, *, against: str | None = None, merge: bool = False, deep: bool = True) -> ReviewOutcome:
    """Judges a contribution or a model, and merges an accepted contribution on request.

    Args:
        subject: A data or model folder, `hf-hub:ORG/NAME@refs/pr/N`, or the address of a pull request's page.
        against: Data to compare a contribution with: `hf-hub:ORG/NAME`, a data folder, or the name of a dataset in the
            hubs on this machine; by default the dataset of the pull request, or the one in whose inbox the folder is,
            and nothing for another folder.
        merge: Merge an accepted contribution into the tables of the dataset; a folder into `against`.
        deep: Replay a sample of the traces.

    Raises:
        ArgumentError: A model has nothing to compare with, and no traces to replay.
        CosthubError: One of its subclasses: there is nothing to review, or the hub cannot be reached.
    """
    pull = find_pull_request(subject)
    kind = folder_kind(Path(subject)) if pull is None else pull.repo.kind
    if kind == "model" and not merge and (against is not None or not deep):
        raise ArgumentError(
            f"{subject} is a model, and --against and --shallow (against= and deep=False in Python) are for "
            "measurements: leave them out."
        )
    against = None if against is None else _found(against, merge=merge)
    against = against or (_dataset_of(Path(subject)) if pull is None else pull.repo.address)
    if merge:
        _refuse_merge(kind, pull, against)
    with tempfile.TemporaryDirectory(prefix="costhub-review-") as temporary:
        files = Path(temporary) / "files"
        folder = Path(subject) if pull is None else pull.fetch(files)
        if kind == "model":
            return ReviewOutcome(_review_model(folder, subject))
        if pull is None:
            folder = _private_copy(folder, files)
        held = fetch_compared(against, DataFolder.open(folder).device_ids()) if against else None
        known = load_measurements(against, columns=["record_id", "device_id"]) if against and held else None
        verdict = review_contribution(folder, held, deep=deep, known=known)
        beside = [] if pull is None else [*_files_beside(pull), *_card_beside(pull)]
        verdict = replace(verdict, subject=subject, reasons=[*verdict.reasons, *beside])
        if not merge or not (verdict.is_accepted or _is_known(verdict)):
            return ReviewOutcome(verdict)
        if pull is None:
            return _merge_folder(folder, verdict, Path(subject), str(against))
        if not verdict.is_accepted:
            close_known(pull)
            return ReviewOutcome(verdict, closed=True)
        merged = merge_pull_request(pull, folder).commit
        return ReviewOutcome(verdict, merged, repository=pull.repo.name)


def _found(against: str, *, merge: bool) -> str:
    """An address on the Hugging Face hub or a folder as it is, and the folder of a dataset that is given by name.

    Raises:
        ArgumentError: The name is that of a dataset of the package, and something is to be merged into it.
    """
    if against.startswith(HF_PREFIX) or Path(against).is_dir():
        return against
    place = find_data(against)
    if merge and place.dataset is not None and place.folder.is_relative_to(embedded_root().path):
        raise ArgumentError(
            f"{place.dataset} comes with costhub, and a merge would change the installed package. If that is meant, "
            f"name its folder: --against {place.folder}"
        )
    return str(place.folder)


def _dataset_of(contribution: Path) -> str | None:
    """The dataset in a folder hub in whose inbox a folder is; None for other folders."""
    inbox = contribution.resolve().parent
    return str(inbox.parent) if inbox.name == INBOX and (inbox.parent / "measurements").is_dir() else None


def _merge_folder(folder: Path, verdict: ReviewVerdict, subject: Path, against: str) -> ReviewOutcome:
    """Merges the copy of a folder, and empties the inbox if the folder is in one."""
    if verdict.is_accepted:
        merge_into(folder, against)
    merged, not_removed, removed = against if verdict.is_accepted else None, None, False
    if subject.resolve().parent == (Path(against) / INBOX).resolve():
        try:
            shutil.rmtree(subject.resolve())  # the current folder cannot be removed as `.`
            removed = True
        except OSError as error:  # the rows are in the tables all the same
            not_removed = error.strerror or first_line(error)
        with contextlib.suppress(OSError):  # others may be waiting in it
            (Path(against) / INBOX).rmdir()
    return ReviewOutcome(verdict, merged, not_removed, closed=removed and merged is None, removed=removed)


def _private_copy(folder: Path, place: Path) -> Path:
    """Makes a private copy, so that exactly the checked files are merged. Links stay links, to be rejected.

    Raises:
        RefusedError: It holds more than a review accepts, or things other than files.
        DataError: It cannot be read.
    """
    try:
        size = 0
        for number, path in enumerate(_below(folder)):
            if number >= MOST_FILES:
                raise RefusedError(f"{folder} holds more than {MOST_FILES:,} files. Ask for smaller ones.")
            target = place / path.relative_to(folder)
            target.parent.mkdir(parents=True, exist_ok=True)
            if path.is_symlink():
                target.symlink_to(path.readlink())
            elif path.is_dir():
                target.mkdir(exist_ok=True)
            else:
                left = MAX_TOTAL_BYTES - size
                size += copy_regular(path, target, limit=left, follow=False, error=RefusedError)
    except OSError as error:
        raise DataError(
            f"{folder} cannot be copied ({clean(first_line(error), 200)}). It must hold plain files "
            "that do not change in the meantime."
        ) from error
    return place


def _below(folder: Path) -> Iterator[Path]:
    """The contents of a data folder, without locks and the features that costhub 0.1 stored there."""
    waiting = [path for path in folder.iterdir() if path.name != FEATURES_FOLDER]
    while waiting:
        path = waiting.pop()
        if path.name != LOCK:
            yield path
            if path.is_dir() and not path.is_symlink():
                waiting += path.iterdir()


def _is_known(verdict: ReviewVerdict) -> bool:
    """Whether the only problem is that the hub has every row, as after a merge whose response was lost."""
    rows = sum(comparison.rows for comparison in verdict.comparisons)
    refusals = sum(reason.weight == "refuse" for reason in verdict.reasons)
    return refusals == 1 and 0 < rows == sum(comparison.replayed for comparison in verdict.comparisons)


def _files_beside(pull: PullRequest) -> Iterator[Reason]:
    if pull.beside:
        yield Reason(
            "look",
            f"{len(pull.beside):,} files outside the contribution differ from the main branch "
            f"({clean(pull.beside[0], 100)}). --merge leaves them out; a merge on the page may not.",
        )


def _card_beside(pull: PullRequest) -> Iterator[Reason]:
    """Rejects a pull request with a hostile card: a merge on the page would include it, and reviewers look at it."""
    head = pull.repo.head(pull.commit) if CARD in pull.beside else None
    if head is None or CARD not in head.files:
        return
    try:
        if head.sizes.get(CARD, 0) > MAX_CARD_CHARACTERS:
            raise DataError(f"{CARD} is longer than {MAX_CARD_CHARACTERS:,} characters.")
        check_card(read_card(pull.repo.fetch(head, CARD)), CARD)
    except DataError as error:
        yield Reason("refuse", f"The pull request also changes the card. {error}")


def _refuse_merge(kind: Kind, pull: PullRequest | None, against: str | None) -> None:
    if kind == "model":
        raise ArgumentError("Only measurements are merged; `costhub publish` puts a model into a hub.")
    if pull is not None and against != pull.repo.address:
        raise ArgumentError(
            "A pull request is merged into its own dataset and must be compared with that: leave --against out."
        )
    if pull is None and (against is None or not Path(against).is_dir()):
        raise ArgumentError(
            "A folder can only be merged into a data folder: name that data folder with --against. For a dataset on "
            "the Hugging Face hub, review the pull request that `costhub contribute` opened."
        )


def _review_model(folder: Path, subject: str) -> ReviewVerdict:
    try:
        check_model(folder)
    except (ModelError, DataError) as error:
        return ReviewVerdict(subject, "model", [Reason("refuse", clean(str(error), 1000))])
    return ReviewVerdict(subject, "model", [])
