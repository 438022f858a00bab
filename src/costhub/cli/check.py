"""Provides `costhub check`: a data folder against every rule."""

from __future__ import annotations

import json
from dataclasses import asdict
from typing import TYPE_CHECKING, Any

import click

from costhub.cli.shared.options import ListingCommand, print_listing

if TYPE_CHECKING:
    from costhub.dataset.check.rule import Rule

EXAMPLE = """
\b
Example:
  costhub check measurements/
  costhub check amd-epyc-zen5
  costhub check --strict measurements/     # as before contributing
"""


def _list_rules(context: click.Context, _parameter: click.Parameter, value: bool) -> None:
    if not value or context.resilient_parsing:
        return
    from costhub.dataset.check.rules import RULES

    def text() -> str:
        lines = [f"{r.id}  {r.severity:<7}  {r.title}{' (with --deep)' if r.is_deep else ''}" for r in RULES.values()]
        return "\n".join(lines)

    print_listing(context, text, lambda: [_rule_values(rule) for rule in RULES.values()])


def _rule_values(rule: Rule) -> dict[str, Any]:
    """A rule as JSON values."""
    return {"id": rule.id, "severity": rule.severity, "title": rule.title, "fix": rule.fix, "deep": rule.is_deep}


@click.command("check", cls=ListingCommand, epilog=EXAMPLE)
@click.argument("where", metavar="FOLDER")
@click.option("--deep", is_flag=True, help="Also load every module into TVM and replay a sample of traces.")
@click.option("--strict", is_flag=True, help="Apply the deep rules too, and count warnings as errors.")
@click.option("--json", "as_json", is_flag=True, help="Print JSON for programs.")
@click.option("--rules", is_flag=True, is_eager=True, expose_value=False, callback=_list_rules, help="List the rules.")
@click.pass_context
def command(context: click.Context, where: str, deep: bool, strict: bool, as_json: bool) -> None:
    """Check the data folder FOLDER against every rule, or a model folder the way a hub does.

    FOLDER may also be the name of a dataset in the hubs on this machine. The exit code is 0 if no error was found (with
    --strict, no warning either), 1 if one was found, and 2 if FOLDER is not a data folder, or is a model that is
    not safe to load. --rules lists the rules.
    """
    from costhub.api.check import check

    found = check(where, deep=deep or strict, progress=not as_json)
    if as_json:
        click.echo(json.dumps({"folder": str(found.folder), "findings": [asdict(each) for each in found]}, indent=2))
    else:
        click.echo(found.shown(strict=strict))
    if found.errors or (strict and found):
        context.exit(1)
