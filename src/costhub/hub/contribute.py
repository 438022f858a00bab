"""Provides contribute: offers measurements to a dataset on a hub, as a single-commit pull request."""

from __future__ import annotations

import hashlib
import os
import shlex
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path

from costhub.dataset.check.folder import check_folder
from costhub.dataset.check.rule import Finding
from costhub.dataset.credit import contributor_fault
from costhub.dataset.folder import DataFolder
from costhub.dataset.schema import TABLES
from costhub.errors import ArgumentError, DataError, HubError, RefusedError
from costhub.hub.dataset_documents import DataFacts, data_facts
from costhub.hub.remote.address import HF_PREFIX, AddressError
from costhub.hub.remote.folder_repo import FolderRepo, Repository, open_repository
from costhub.hub.remote.manifest import hash_file
from costhub.hub.remote.remote_repo import Head, PushedCommit, RemoteRepo, StaleError, repeat_if_stale
from costhub.hub.staged_rows import (
    DISTURBED_RULES,
    LeftOut,
    leave_out_disturbed,
    leave_out_held,
    leave_out_unmeasured,
)
from costhub.hub.staging import Consent, check_consent, is_agreed, own_names_in, staged
from costhub.terminal_text import Printed, clean

CONTRIBUTE_VARIABLE = "COSTHUB_CONTRIBUTE_TO"
INBOX = "contributions"
"""The folder of a dataset with contributions that await review; readers ignore it."""
_HALF_DONE = "Nothing was left half done"
"""How errors of a hub begin to say that the same command can be run again."""


@dataclass(frozen=True)
class Offer:
    """Everything that a contribution will send."""

    to: str
    """Address of the dataset; empty in a dry run that names none."""
    contribution_id: str
    """Id of its content: equal rows make equal contributions."""
    files: Mapping[str, int]
    """Path within the contribution -> bytes."""
    facts: DataFacts
    networks: tuple[str, ...] = ()
    """Networks that the workloads are from, as the rows name them: those of files have the files' names."""
    left_out: LeftOut = field(default_factory=LeftOut)
    """The rows of the folder that are not sent."""
    not_checked: str = ""
    """What a dry run could not find out without the hub; empty if nothing is left open."""
    folder: str = ""
    """The data folder with the rows, as it was given."""

    @property
    def left_out_text(self) -> str:
        """The rows that are not sent, and the command that says why; empty if every row is sent."""
        why = f" (`costhub check --strict {self.folder}` says why)" if self.left_out.disturbed and self.folder else ""
        return f"{self.left_out}{why}" if str(self.left_out) else ""

    @property
    def bytes(self) -> int:
        """Total size of all files."""
        return sum(self.files.values())

    @property
    def title(self) -> str:
        """Title of the pull request."""
        return f"Measurements of {', '.join(self.facts.rows)}: {self.facts.total} rows [{self.contribution_id}]"


@dataclass(frozen=True, repr=False)
class Contribution(Printed):
    """What was sent, now or earlier; `print` shows it as `costhub contribute` does."""

    offer: Offer
    url: str
    """URL of the pull request, or path of the folder."""
    pull_request: int | None
    was_there: bool
    """Whether an earlier run already sent it."""
    is_merged: bool = False
    """Whether the dataset, in a folder hub, already holds all of its rows."""

    @property
    def review_command(self) -> str | None:
        """The command that reviews and merges it in a folder hub; None if there is nothing to review there."""
        if self.is_merged or self.url.startswith(("http", HF_PREFIX)):
            return None
        dataset = shlex.quote(self.url)
        inbox = shlex.quote(f"{self.url}/{INBOX}/{self.offer.contribution_id}")
        return f"costhub review {inbox} --against {dataset} --merge"

    def __str__(self) -> str:
        left_out = self.offer.left_out_text
        if self.is_merged:
            lines = [f"Nothing to send to {self.url}: {left_out}."]
        elif self.was_there:
            lines = [f"Already sent: {self.url}", *([f"Left out: {left_out}."] if left_out else [])]
        else:
            lines = [f"Sent: {self.url}"]
        return "\n".join([*lines, *([f"Review it: {self.review_command}"] if self.review_command else [])])


def contribute(
    folder: str | Path,
    to: str | None = None,
    *,
    agree: Consent[Offer],
    name: str | None = None,
    deep: bool = True,
    dry_run: bool = False,
) -> Contribution | None:
    """Checks measurements strictly, asks for consent, and opens a pull request with them in one commit.

    Sending the same measurements again finds the open pull request, so an interrupted run can simply be
    repeated. Rows measured beside other programs are left out, and so are rows that a dataset in a folder already
    holds; the offer counts both.

    Args:
        folder: A data folder.
        to: `hf-hub:ORG/NAME` or the folder of a hub; by default $COSTHUB_CONTRIBUTE_TO.
        agree: Your consent, which is never implied: True, or a function that is called with the planned contribution.
            Unless it returns True, nothing is sent.
        name: ORG/NAME in a folder hub.
        deep: Also replay a sample of the traces, like the review does.
        dry_run: Send nothing, whatever `agree` returns. The dataset need not be named then, nor its hub be reached: the
            offer says what was not checked.

    Returns:
        What was sent, now or earlier; otherwise None in a dry run, or if `agree` did not return True.

    Raises:
        CosthubError: One of its subclasses: `agree` is neither True nor a function, a finding of the check, personal
            data, the hub does not accept it.

    Example:
        >>> contribute("measurements", "hf-hub:acme/data", agree="yes")
        Traceback (most recent call last):
        costhub.errors.RefusedError: agree is 'yes'. Nothing was sent: pass agree=True, or a function that receives ...
    """
    check_consent(agree)
    to = _destination(to, name, dry_run=dry_run)
    with staged(folder) as ready:
        if ready.kind != "dataset":
            raise ArgumentError(f"{folder} is a model; `costhub publish` puts it into a hub.")
        repo = open_repository(to, name, "dataset") if to else None
        # The check takes minutes, so a missing folder is reported first. A remote hub only learns of valid rows.
        head = _head(repo) if isinstance(repo, FolderRepo) else None
        _refuse_contributors(ready.folder)
        disturbed = refuse_unfit(ready.folder, deep=deep)
        held, is_merged = _leave_out_held(ready.folder, repo)
        files = {path: local for path, local in ready.files().items() if path.split("/")[0] in TABLES}
        offer = _offer(repo.address if repo else "", ready.folder, files, LeftOut(disturbed, held), given=folder)
        if is_merged:
            return Contribution(offer, offer.to, None, was_there=True, is_merged=True)
        offer, sent = _compared(offer, repo, head, dry_run=dry_run)
        if sent is not None:
            return sent
        if not is_agreed(agree, offer) or repo is None or dry_run:
            return None
        return _send(repo, offer, files)


def _compared(
    offer: Offer, repo: Repository | None, head: Head | None, *, dry_run: bool
) -> tuple[Offer, Contribution | None]:
    """Asks the hub whether it has the contribution already; a dry run goes on without an answer, and says so.

    Args:
        offer: The contribution.
        repo: The dataset; None if a dry run names none.
        head: Its state, if it is known.
        dry_run: Whether nothing will be sent.

    Returns:
        The offer, which says what was not checked, and the contribution if an earlier run sent it.
    """
    if repo is None:
        return replace(offer, not_checked="whether a dataset holds some of these rows already: none is named"), None
    try:
        return offer, _sent_earlier(repo, head or _head(repo), offer)
    except HubError as error:
        if not dry_run:
            raise
        why = str(error).partition(_HALF_DONE)[0].rstrip()  # nothing was begun
        what = f"whether {repo.address} takes these rows, or holds some already. {why}"
        return replace(offer, not_checked=what), None


def _destination(to: str | None, name: str | None, *, dry_run: bool) -> str | None:
    """The address that is given, or that of the environment; a dry run needs none."""
    to = to or os.environ.get(CONTRIBUTE_VARIABLE)
    if not (to or dry_run):
        raise AddressError(f"Name the dataset with --to hf-hub:ORG/NAME, or set {CONTRIBUTE_VARIABLE}.")
    if name is not None and not to:
        raise AddressError("--as names a dataset in a hub's folder: give --to as well (to= in Python).")
    return to


def _leave_out_held(folder: Path, repo: Repository | None) -> tuple[int, bool]:
    """Leaves out the rows that a dataset in a folder holds, then workloads without a row, and checks what is left.

    Returns:
        How many rows it holds, and whether these are all.
    """
    held, rows = 0, data_facts(folder).total
    if isinstance(repo, FolderRepo):
        held = leave_out_held(folder, repo.folder)
        if 0 < held < rows and (findings := check_folder(folder)):  # without the others, a session may break a rule
            raise RefusedError(_refusal(findings))
    leave_out_unmeasured(folder)
    return held, held == rows


def _offer(to: str, folder: Path, files: Mapping[str, Path], left_out: LeftOut, *, given: str | Path) -> Offer:
    """What will be sent of a staged folder.

    Args:
        to: The address of the dataset.
        folder: The staged folder.
        files: Its files to send, by path.
        left_out: The rows that are no longer in it.
        given: The folder of which it is a copy.
    """
    name = contribution_id({path: hash_file(local).sha256 for path, local in files.items()})
    sizes = {path: local.stat().st_size for path, local in files.items()}
    return Offer(to, name, sizes, data_facts(folder), _networks(folder), left_out, folder=str(given))


def _networks(folder: Path) -> tuple[str, ...]:
    uses = DataFolder.open(folder).workloads(["networks"])["networks"].to_pylist()
    return tuple(sorted({str(each["name"]) for networks in uses for each in networks or ()}))


def contribution_id(files: Mapping[str, str]) -> str:
    """Names a contribution by its content.

    Args:
        files: Path -> sha256.

    Example:
        >>> contribution_id({"devices/train-00000-of-00001.parquet": "ab"})
        'e92c6a228126f042'
    """
    lines = "".join(f"{path} {sha256}\n" for path, sha256 in sorted(files.items()))
    return hashlib.sha256(lines.encode()).hexdigest()[:16]


def _refuse_contributors(folder: Path) -> None:
    """Refuses contributors that are no names, in a second: the check, which finds them too, takes minutes.

    Args:
        folder: A copy of the data folder.

    Raises:
        RefusedError: A contributor is an e-mail address, a folder or the name of a machine.
    """
    try:
        batches = DataFolder.open(folder).iter_measurements(columns=["contributor"])
        names = {name for batch in batches for name in batch["contributor"].unique().to_pylist() if name}
    except DataError:
        return  # the check says what is damaged
    for name in sorted(names):
        if fault := contributor_fault(name):
            raise RefusedError(
                f"The contributor {clean(name, 60)!r} of the rows {fault}, and hubs refuse such rows. Nothing was "
                "sent. A row keeps its contributor: collect or import again into a new folder, with a name as "
                "--contributor."
            )


def refuse_unfit(folder: Path, *, deep: bool) -> int:
    """Rejects what a review would reject, and anything that identifies this machine's user.

    Rows that only other programs on the machine made unfit are no reason to reject the others: they are removed.

    Args:
        folder: A copy of the data folder.
        deep: Also replay a sample of the traces.

    Returns:
        Number of rows removed.

    Raises:
        RefusedError: A rule is broken, or a text contains personal data.
    """
    findings, disturbed = check_folder(folder, deep=deep), 0
    while findings and all(finding.rule in DISTURBED_RULES for finding in findings):
        # What is usual changes with the rows that are left, so a second pass may find more.
        if not (count := leave_out_disturbed(folder)):
            break
        disturbed += count
        findings = check_folder(folder)
    if findings:
        raise RefusedError(_refusal(findings))
    if not data_facts(folder).total:
        why = ", since all of its rows were measured beside other programs" * bool(disturbed)
        raise RefusedError(f"The folder has no measurements to send{why}. Collect some while the machine is quiet.")
    names = own_names_in(folder)
    if names:
        raise RefusedError(f"{names[0]} Nothing was sent; remove it from the rows, or from the device.")
    return disturbed


def _refusal(findings: Sequence[Finding]) -> str:
    """What the check found: its first finding, and which other rules are broken."""
    first = findings[0]
    others = sorted({finding.rule for finding in findings} - {first.rule})
    also = f" Also found: {', '.join(others)}; `costhub check --strict` tells all." if others else ""
    return (
        f"`costhub check --strict` does not pass: {first.rule} in {first.where}: {first.message} {first.fix}{also} "
        "Nothing was sent."
    )


def _head(repo: Repository) -> Head:
    head = repo.head()
    if head is None:
        raise ArgumentError(
            f"{repo.address} does not exist, or you may not read it. Check its name; `costhub publish` creates a new "
            "one."
        )
    return head


def _sent_earlier(repo: Repository, head: Head, offer: Offer) -> Contribution | None:
    """The same contribution, if an earlier run already sent it."""
    pull = repo.find_pull_request(f"[{offer.contribution_id}]")  # its page, also after a merge there
    if pull is not None:
        return Contribution(offer, pull.url, pull.pull_request, was_there=True)
    is_there = any(path.startswith(f"{INBOX}/{offer.contribution_id}/") for path in head.files)
    return Contribution(offer, offer.to, None, was_there=True) if is_there else None


def _send(repo: Repository, offer: Offer, files: Mapping[str, Path]) -> Contribution:
    added = {f"{INBOX}/{offer.contribution_id}/{path}": local for path, local in files.items()}

    def commit() -> PushedCommit:
        head = _head(repo)
        return repo.commit(head, added, [], message=offer.title, description=describe(offer), pull_request=True)

    try:
        pushed = repeat_if_stale(commit)
    except StaleError:
        raise
    except HubError:
        # The commit may exist, with only the answer lost.
        sent = _sent_earlier(repo, _head(repo), offer)
        if sent is None:
            raise
        return sent
    return _first_sent(repo, offer, pushed)


def _first_sent(repo: Repository, offer: Offer, pushed: PushedCommit) -> Contribution:
    """The contribution sent; if another run has just sent the same, its pull request, while ours is closed."""
    try:
        first = repo.find_pull_request(f"[{offer.contribution_id}]")
    except HubError:  # it arrived nevertheless
        first = None
    if first is None or first.pull_request == pushed.pull_request or not isinstance(repo, RemoteRepo):
        return Contribution(offer, pushed.url, pushed.pull_request, was_there=False)
    if pushed.pull_request is not None:
        repo.close(pushed.pull_request, f"The same measurements are already in {first.url}.")
    return Contribution(offer, first.url, first.pull_request, was_there=True)


def describe(offer: Offer) -> str:
    """The text of the pull request, in Markdown."""
    facts = offer.facts
    devices = "\n".join(f"- `{device}`: {rows} rows" for device, rows in facts.rows.items())
    who = ", ".join(f"`{clean(name, 60)}`" for name in facts.contributors) or "not named"
    left_out = f"- left out: {offer.left_out}\n" if str(offer.left_out) else ""
    return (
        f"Measured programs, checked with `costhub check --strict`.\n\n{devices}\n\n"
        f"- rows with a latency: {facts.ok}\n- workloads: {facts.workloads}\n- size: {offer.bytes} bytes\n"
        f"- licence: {', '.join(facts.licences)}\n- contributor: {who}\n"
        f"- TVM: {', '.join(facts.tvm_versions) or 'not named'}\n{left_out}\n"
        "To review it: `costhub review` with the address of this pull request."
    )
