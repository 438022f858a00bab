"""Provides `costhub check`: a data folder against every rule."""

from __future__ import annotations

import json
from dataclasses import asdict
from pathlib import Path

import click

EXAMPLE = """
\b
Example:
  costhub check measurements/
"""


def _list_rules(context: click.Context, _parameter: click.Parameter, value: bool) -> None:
    if not value or context.resilient_parsing:
        return
    from costhub.dataset.check.folder import RULES

    for rule_id, rule in RULES.items():
        click.echo(f"{rule_id}  {rule.title}{' (with --deep)' if rule.deep else ''}")
    context.exit(0)


@click.command("check", epilog=EXAMPLE)
@click.argument("folder", type=click.Path(path_type=Path))
@click.option("--deep", is_flag=True, help="Also load every module into TVM and compare its hash.")
@click.option("--json", "as_json", is_flag=True, help="Print JSON for programs.")
@click.option(
    "--rules", is_flag=True, is_eager=True, expose_value=False, callback=_list_rules, help="List the rules."
)
@click.pass_context
def command(context: click.Context, folder: Path, deep: bool, as_json: bool) -> None:
    """Check the data folder FOLDER against every rule.

    Exits with 0 where all is well, 1 where a rule is broken, and 2 where the folder cannot be read at all.
    """
    from costhub.dataset.check.folder import RULES, check_folder

    findings = check_folder(folder, deep=deep)
    checked = sum(deep or not rule.deep for rule in RULES.values())
    if as_json:
        click.echo(json.dumps({"folder": str(folder), "findings": [asdict(f) for f in findings]}, indent=2))
    else:
        for finding in findings:
            click.echo(f"{finding.rule}  {finding.where}: {finding.message}")
        broken = len({finding.rule for finding in findings})
        click.echo(f"{folder}: {checked} rules, {broken or 'none'} broken, {len(findings)} findings.")
    if findings:
        context.exit(1)
