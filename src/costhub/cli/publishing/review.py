"""Provides `costhub review`: the gate of a hub, for maintainers and their CI, and what waits before it."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import asdict
from typing import TYPE_CHECKING

import click

from costhub.cards.tables import TableColumn, number, plain_table
from costhub.terminal_text import clean

if TYPE_CHECKING:
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
        click.echo(str(done))
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
