"""Provides `costhub publish`: sends a model or a dataset to a hub."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING

import click

from costhub.cards.tables import one_line
from costhub.cli.shared.interaction import confirmed, size_text
from costhub.cli.shared.options import yes_option
from costhub.terminal_text import counted

if TYPE_CHECKING:
    from costhub.hub.publish import PublishPlan

EXAMPLE = """
\b
Example:
  costhub publish my-model --to hf-hub:ORG/my-model --tag v1 --dry-run
  costhub publish my-model --to /shared/hub --as lab/my-model
"""


@click.command("publish", epilog=EXAMPLE)
@click.argument("folder", type=click.Path(path_type=Path))
@click.option("--to", metavar="ADDRESS", required=True, help="hf-hub:ORG/NAME, or the folder of a hub.")
@click.option("--as", "name", metavar="ORG/NAME", help="ORG/NAME, if --to is a folder.")
@click.option(
    "--tag",
    metavar="TAG",
    help="A permanent name for this version on the Hugging Face hub, such as v1. The folder of a hub has no versions.",
)
@click.option(
    "--replace",
    is_flag=True,
    help="Of a dataset: also remove from the hub any measurements and splits that FOLDER lacks.",
)
@click.option("--dry-run", is_flag=True, help="Check, and show what would be sent.")
@yes_option
@click.option("--json", "as_json", is_flag=True, help="Print JSON for programs.")
def command(
    folder: Path,
    to: str,
    name: str | None,
    tag: str | None,
    replace: bool,
    dry_run: bool,
    yes: bool,
    as_json: bool,
) -> None:
    """Publish a model or a dataset to a hub, in one commit.

    FOLDER is a model folder with its card, or a data folder. Nothing is sent if `costhub check`, or the model
    check, refuses it. Locks and features are never sent; rows of an unfinished collection are.
    """
    from costhub.hub.publish import publish
    from costhub.hub.remote.address import HF_PREFIX

    plans: list[PublishPlan] = []

    def ask(plan: PublishPlan) -> bool:
        plans.append(plan)
        for line in _lines(plan):
            if not as_json or not (yes or dry_run):
                click.echo(line, err=as_json)
        is_public = plan.is_new and plan.to.startswith(HF_PREFIX)
        public = ", a new repository, which everyone may be able to read" if is_public else ""
        return not dry_run and confirmed(f"Publish to {plan.to}{public}?", yes=yes, verb="publish")

    done = publish(folder, to, name=name, tag=tag, replace=replace, agree=ask)
    plan = plans[0]
    if as_json:
        fields = {
            "to": plan.to,
            "kind": plan.kind,
            "files": dict(plan.files),
            "removed": list(plan.removed),
            "bytes": plan.bytes,
            "warnings": [asdict(found) for found in plan.warnings],
            "low_figures": list(plan.low_figures),
            "published": done is not None,
            "commit": done.commit if done else None,
            "url": done.url if done else None,
            "tag": done.tag if done else None,
        }
        click.echo(json.dumps(fields, indent=2))
    else:
        click.echo("Nothing was sent." if done is None else str(done))


def _lines(plan: PublishPlan) -> Iterator[str]:
    yield f"{plan.to}, a {plan.kind}" + (", which is new:" if plan.is_new else ":")
    for path, size in plan.files.items():
        yield f"  {size_text(size):>9}  {one_line(path)}"
    for path in plan.removed:
        yield f"    removed  {one_line(path)}"
    yield f"{counted(len(plan.files), 'file')}, {size_text(plan.bytes)}; {plan.unchanged} are already there."
    yield from _warnings(plan)
    if plan.low_figures:
        yield from plan.low_figures
        yield (
            "Other programs may have disturbed the probe, and reviews compare contributions with these figures. Run "
            "`costhub probe --out FOLDER` on the idle device, which keeps the best figures of all its probes, and "
            "publish again. This does not keep the data from being published."
        )


def _warnings(plan: PublishPlan) -> Iterator[str]:
    """What the check warns of, a line for each rule, and what becomes of it."""
    if not plan.warnings:
        return
    from costhub.dataset.check.rules import RULES
    from costhub.hub.publish import warned_rows

    rows = warned_rows(plan.warnings)
    for rule in dict.fromkeys(found.rule for found in plan.warnings):
        places = sum(found.rule == rule for found in plan.warnings)
        what = counted(rows[rule], "row") if rule in rows else counted(places, "place")
        yield f"{rule} warns of {what}; it expects that {RULES[rule].title}. To do: {RULES[rule].fix}"
    marked = "the card counts such rows under Limits, and " if rows else ""
    yield (
        f"Warnings do not keep data from being published: {marked}`costhub contribute` leaves out rows that other "
        "programs disturbed, and refuses other warnings."
    )
