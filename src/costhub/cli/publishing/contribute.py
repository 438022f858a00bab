"""Provides `costhub contribute`: measurements for a dataset on a hub."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import click

from costhub.cli.shared.interaction import confirmed, size_text
from costhub.cli.shared.options import yes_option
from costhub.terminal_text import clean, counted

if TYPE_CHECKING:
    from costhub.hub.contribute import Offer

SHOWN = 10
"""Networks that are named."""
EXAMPLE = """
\b
Example:
  costhub contribute measurements/ --dry-run
  costhub contribute measurements/ --to hf-hub:ORG/NAME
  costhub contribute measurements/ --to /shared/hub --as lab/NAME
"""


@click.command("contribute", epilog=EXAMPLE)
@click.argument("folder", type=click.Path(path_type=Path))
@click.option(
    "--to", metavar="ADDRESS", help="hf-hub:ORG/NAME or the folder of a hub; by default $COSTHUB_CONTRIBUTE_TO."
)
@click.option("--as", "name", metavar="ORG/NAME", help="ORG/NAME, if --to is a folder.")
@click.option(
    "--dry-run",
    is_flag=True,
    help="Check, and show what would be sent. Works without a network and without --to, and says what was not checked.",
)
@yes_option
@click.option("--json", "as_json", is_flag=True, help="Print JSON for programs.")
def command(folder: Path, to: str | None, name: str | None, dry_run: bool, yes: bool, as_json: bool) -> None:
    """Offer the measurements in FOLDER to a dataset on a hub, as a pull request.

    They are checked as with `costhub check --strict`, and for names of this machine and its user. Everything
    to be sent is shown first. Rows measured beside other programs are left out. After an interruption, run
    the command again.
    """
    from costhub.hub.contribute import contribute

    offers: list[Offer] = []

    def ask(offer: Offer) -> bool:
        offers.append(offer)
        for line in _lines(offer):
            if not as_json or not (yes or dry_run):
                click.echo(line, err=as_json)
        question = f"Send this to {offer.to}, where everyone can read it?"
        return not dry_run and confirmed(question, yes=yes, verb="contribute")

    done = contribute(folder, to, name=name, agree=ask, dry_run=dry_run)
    if as_json:
        offer = done.offer if done else offers[0]
        fields = {
            "to": offer.to or None,
            "id": offer.contribution_id,
            "rows": dict(offer.facts.rows),
            "ok": offer.facts.ok,
            "workloads": offer.facts.workloads,
            "bytes": offer.bytes,
            "licences": list(offer.facts.licences),
            "contributors": list(offer.facts.contributors),
            "sent": done is not None and not done.is_merged,
            "was_there": done.was_there if done else False,
            "url": done.url if done else None,
            "left_out": {"disturbed": offer.left_out.disturbed, "held": offer.left_out.held},
            "not_checked": offer.not_checked or None,
        }
        click.echo(json.dumps(fields, indent=2))
    else:
        click.echo("Nothing was sent." if done is None else str(done))


def _lines(offer: Offer) -> Iterator[str]:
    facts = offer.facts
    yield f"To {offer.to or 'no dataset yet'}, as contribution {offer.contribution_id}:"
    for device, rows in facts.rows.items():
        yield f"  device       {device}: {counted(rows, 'row')}"
    others = "" if facts.ok == facts.total else "; the others are failures and their errors"
    yield f"  latencies    {facts.ok:,} of {counted(facts.total, 'row')}{others}"
    if offer.left_out_text:
        yield f"  left out     {offer.left_out_text}"
    yield f"  workloads    {facts.workloads}"
    if offer.networks:
        more = f" and {len(offer.networks) - SHOWN} more" if len(offer.networks) > SHOWN else ""
        yield f"  networks     {', '.join(clean(name, 60) for name in offer.networks[:SHOWN])}{more}"
    yield f"  size         {size_text(offer.bytes)} in {counted(len(offer.files), 'file')}"
    yield f"  licence      {', '.join(facts.licences)}"
    yield f"  contributor  {', '.join(facts.contributors) or 'not named'}"
    yield "  personal     no folder, account, address or machine name was found in the texts"
    if offer.not_checked:
        yield f"  not checked  {offer.not_checked}"
