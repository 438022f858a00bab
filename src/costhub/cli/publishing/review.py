"""Provides `costhub review`: the gate of a hub, for maintainers and their CI, and what waits before it."""

from __future__ import annotations

import json
import shlex
from collections.abc import Iterator, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING

import click

from costhub.cards.tables import TableColumn, number, plain_table
from costhub.terminal_text import clean, counted

if TYPE_CHECKING:
    from costhub.hub.review.comparison import ReviewVerdict
    from costhub.hub.review.waiting import WaitingContribution

EXAMPLE = """
\b
Example:
  costhub review
  costhub review --list hf-hub:ORG/NAME
  costhub review hf-hub:ORG/NAME@refs/pr/3
  costhub review hf-hub:ORG/NAME@refs/pr/3 --merge
  costhub review measurements/ --against /shared/data
"""

SHOWN = 20
_COLUMNS = (
    TableColumn("address", "contribution"),
    TableColumn("device", "device"),
    number("rows", "rows", ",d"),
    number("workloads", "workloads", ",d"),
    TableColumn("licence", "licence"),
    TableColumn("contributor", "from"),
    TableColumn("since", "since"),
)


@click.command("review", epilog=EXAMPLE)
@click.argument("subject", required=False)
@click.option(
    "--list",
    "lists",
    is_flag=True,
    help="List what awaits a review in SUBJECT: the folder of a hub, or a dataset by folder, name or hf-hub:ORG/NAME; "
    "by default in the hubs on this machine.",
)
@click.option(
    "--against",
    metavar="ADDRESS",
    help="What to compare with: hf-hub:ORG/NAME, a data folder, or the name of a dataset in the hubs on this machine.",
)
@click.option("--merge", is_flag=True, help="If it is accepted, merge it into the dataset's tables, and remove it.")
@click.option("--shallow", is_flag=True, help="Do not replay traces.")
@click.option("--json", "as_json", is_flag=True, help="Print JSON for programs.")
@click.pass_context
def command(
    context: click.Context,
    subject: str | None,
    lists: bool,
    against: str | None,
    merge: bool,
    shallow: bool,
    as_json: bool,
) -> None:
    """Judge a contribution or a model before a hub accepts it.

    SUBJECT is a pull request (hf-hub:ORG/NAME@refs/pr/3 or the address of its page), or a data or model
    folder. Exits with 0 if it is accepted, or closed by --merge because all of its rows are known, with 1 if it is
    refused, and with 2 if it cannot be read. Without SUBJECT, the contributions that await a review are listed.
    """
    if lists or subject is None:
        if merge or shallow:
            raise click.UsageError("--merge and --shallow are for one contribution: name it, and leave --list out.")
        if subject is not None and against is not None:
            raise click.UsageError("--list takes the dataset as SUBJECT: leave --against out.")
        return _print_waiting(subject or against, as_json=as_json)
    from costhub.errors import CosthubError, RefusedError
    from costhub.hub.contribute import INBOX
    from costhub.hub.review.review import review

    try:
        done = review(subject, against=against, merge=merge, deep=not shallow)
    except CosthubError as error:
        # Exit code 1 means that the contribution is at fault.
        if not isinstance(error, RefusedError):
            error.exit_code = 2
        raise
    verdict = done.verdict
    if as_json:
        outcome = {"merged": done.merged, "not_removed": done.not_removed, "closed": done.closed}
        click.echo(json.dumps({**verdict.to_json(), **outcome}, indent=2))
    else:
        for line in _lines(verdict):
            click.echo(line)
        if done.merged:
            click.echo(f"Merged: {done.merged}")
        if merge and Path(subject).parent.name == INBOX and not Path(subject).exists():
            click.echo(f"Removed: {subject}, which awaited the review")
        if done.not_removed:
            why = f"({done.not_removed}). Its rows are in the tables"
            click.echo(f"Not removed: {subject} {why}; its owner must remove it.")
        if done.merged:
            commands = ", then ".join(f"`{each}`" for each in _renewing(done.merged, done.repository))
            click.echo(f"The card is unchanged; {commands} renews its licences and contributors.")
        if done.closed:
            click.echo("Closed: all of its rows were in the tables already.")
    if not (verdict.is_accepted or done.closed):
        context.exit(1)


def _print_waiting(where: str | None, *, as_json: bool) -> None:
    """Lists the contributions that await a review, one a line."""
    from costhub.hub.catalogue.hubs import hubs_searched
    from costhub.hub.review.waiting import list_waiting

    found = list_waiting(where)
    if as_json:
        click.echo(json.dumps([asdict(each) for each in found], indent=2))
    elif found:
        click.echo(plain_table([_waiting_line(each) for each in found], _COLUMNS))
        click.echo("`costhub review CONTRIBUTION` judges one; with --merge, it also adds it to the tables.")
    else:
        searched = f"in {where}." if where is not None else f"in the hubs on this machine. {hubs_searched()}"
        click.echo(f"No contribution awaits a review {searched}")


def _waiting_line(waiting: WaitingContribution) -> dict[str, str | int | None]:
    def joined(texts: Sequence[str]) -> str | None:
        return clean(", ".join(text or "none" for text in texts), 60) or None

    return {
        "address": waiting.address,
        "device": joined(waiting.devices) if waiting.problem is None else f"({waiting.problem})",
        "rows": waiting.rows,
        "workloads": waiting.workloads,
        "licence": joined(waiting.licences),
        "contributor": joined(waiting.contributors),
        "since": waiting.since,
    }


def _renewing(merged: str, repository: str | None) -> list[str]:
    """The commands that write the card of a dataset again, after a merge into it.

    Args:
        merged: Where it was merged: a folder, or the commit in a repository.
        repository: ORG/NAME on the Hugging Face hub; None for a folder.
    """
    from costhub.hub.remote.folder_repo import place_in_hub

    if repository is not None:
        # Without --local-dir, the client makes links, which `publish` refuses.
        # A merge renames the shards, so an earlier copy must not be downloaded into again.
        folder = f"renewed-{merged[:7]}/"
        return [
            f"hf download {repository} --repo-type dataset --local-dir {folder}",
            f"costhub publish {folder} --to hf-hub:{repository}",
        ]
    place = place_in_hub(merged)
    if place is None:
        return ["costhub publish DATASET_FOLDER --to HUB --as ORG/NAME"]
    hub, name = place
    return [shlex.join(["costhub", "publish", str(Path(merged).resolve()), "--to", str(hub), "--as", name])]


def _lines(verdict: ReviewVerdict) -> Iterator[str]:
    from costhub.hub.contribute import INBOX

    for found in verdict.comparisons:
        shift = "-" if found.shift is None else f"{found.shift:.2f}"
        agreement = "-" if found.agreement is None else f"{found.agreement:.2f}"
        if found.rows == found.replayed:  # a reason below says so
            continue
        yield (
            f"{clean(found.device_id, 60)}: {counted(found.rows, 'row')} beside {found.held:,} in the hub; "
            f"{counted(found.repeated, 'program')} in both, latency ratio {shift}, rank correlation {agreement}"
        )
    for reason in verdict.reasons[:SHOWN]:
        yield f"  {reason.weight}: {clean(reason.what, 1000)}"
    if len(verdict.reasons) > SHOWN:
        yield f"  ... and {len(verdict.reasons) - SHOWN} more; --json lists them all"
    yield f"{verdict.subject}: {'accepted' if verdict.is_accepted else 'refused'}."
    if not verdict.is_accepted and Path(verdict.subject).parent.name == INBOX and Path(verdict.subject).is_dir():
        yield f"Remove the folder {verdict.subject} to close the contribution."
