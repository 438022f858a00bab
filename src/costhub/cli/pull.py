"""Provides `costhub pull`: a verified copy of a model, by name or address."""

from __future__ import annotations

import json
from pathlib import Path

import click

from costhub.hub.catalogue.find import AUTO, ResolvedModel, choose_model, find_model
from costhub.hub.pull import pull_resolved

EXAMPLE = """
\b
Example:
  costhub pull auto
  costhub pull amd-epyc-zen5-2c --arch gbt --out my-model
"""


@click.command("pull", epilog=EXAMPLE)
@click.argument("name")
@click.option("--arch", help="Architecture, for example mlp; by default the best one.")
@click.option("--out", type=click.Path(path_type=Path), help="Model folder to write; by default in the cache.")
@click.option("--json", "as_json", is_flag=True, help="Print JSON for programs.")
def command(name: str, arch: str | None, out: Path | None, as_json: bool) -> None:
    """Fetch a cost model by the name of its device.

    NAME is a device id or alias, with @REVISION to pin one version; `auto` for the model of the device most
    similar to this machine; hf-hub:ORG/NAME@REVISION for the Hugging Face hub; or local-dir:/PATH.
    """
    found = _here(arch) if name == AUTO else find_model(name, arch=arch)
    folder = pull_resolved(found, out=out)
    entry = found.entry
    if as_json:
        fields = {
            "folder": str(folder),
            "name": entry.name,
            "device": entry.device_id,
            "arch": entry.arch,
            "revision": found.revision,
            "origin": entry.origin,
            "top_1": entry.top_1,
            "reason": found.reason,
        }
        click.echo(json.dumps(fields, indent=2))
        return
    click.echo(f"{entry.name}: the {entry.arch} model for {entry.device_id}, from {entry.origin}.")
    click.echo(found.reason)
    if found.revision:
        click.echo(f"revision {found.revision[:12]}")
    click.echo(str(folder))


def _here(arch: str | None) -> ResolvedModel:
    from costhub.collector.device.identity import identify

    return choose_model(AUTO, identify(), arch=arch)
