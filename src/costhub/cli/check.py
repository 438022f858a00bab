"""Provides `costhub check`: a data folder against every rule."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from dataclasses import asdict
from itertools import groupby
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from costhub.cli.shared.options import ListingCommand, print_listing

if TYPE_CHECKING:
    from costhub.dataset.check.rule import Finding, Rule

EXAMPLE = """
\b
Example:
  costhub check measurements/
  costhub check amd-epyc-zen5
  costhub check --strict measurements/     before they are published
"""

PLACES_SHOWN = 5


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
    """Check the data folder FOLDER against every rule, or a model folder as a hub does.

    FOLDER may also be the name of a dataset in the hubs here. The exit code is 0 if no error was found (with
    --strict, no warning either), 1 if one was found, and 2 if FOLDER is not a data folder, or is a model that is
    not safe to load. --rules lists the rules.
    """
    if (Path(where) / "config.json").is_file():
        return _check_model(Path(where), as_json)
    from costhub.dataset.check.folder import check_folder
    from costhub.hub.data import find_data

    folder = find_data(where).folder

    findings = check_folder(folder, deep=deep or strict, progress=not as_json)
    errors = sum(finding.severity == "error" for finding in findings)
    if as_json:
        click.echo(json.dumps({"folder": str(folder), "findings": [asdict(f) for f in findings]}, indent=2))
    else:
        for line in _lines(findings):
            click.echo(line)
        click.echo(f"{folder}: {_count(errors, 'error')}, {_count(len(findings) - errors, 'warning')}.")
    if errors or (strict and findings):
        context.exit(1)


def _check_model(folder: Path, as_json: bool) -> None:
    from costhub.hub.model_check.model_gate import check_model
    from costhub.terminal_text import clean

    info = check_model(folder, needs_card=False)
    if as_json:
        click.echo(json.dumps({"folder": str(folder), "findings": []}, indent=2))
    else:
        click.echo(f"{folder}: a sound {clean(info.arch, 60)} model for {clean(info.device_id, 200)}.")


def _lines(findings: Sequence[Finding]) -> Iterator[str]:
    """The findings by rule: its title, the first places, and the remedy."""
    from costhub.dataset.check.rules import RULES

    for rule_id, group in groupby(findings, key=lambda finding: finding.rule):
        rule, places = RULES[rule_id], list(group)
        yield click.style(f"{rule.id} {rule.severity}: {rule.title}", bold=True)
        for finding in places[:PLACES_SHOWN]:
            yield f"  {finding.where}"
            yield f"    {finding.message}"
        if len(places) > PLACES_SHOWN:
            yield f"  ... and {len(places) - PLACES_SHOWN} more; --json lists them all"
        yield f"  To do: {rule.fix}"
        yield ""


def _count(number: int, what: str) -> str:
    return f"{number or 'no'} {what}{'' if number == 1 else 's'}"
