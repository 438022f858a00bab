"""Provides `costhub devices`: the device index, and which of its devices this machine is."""

from __future__ import annotations

import json

import click

EXAMPLE = """
\b
Example:
  costhub devices nvidia-h200
"""


@click.command("devices", epilog=EXAMPLE)
@click.argument("name", required=False)
@click.option("--json", "as_json", is_flag=True, help="Print JSON for programs.")
def command(name: str | None, as_json: bool) -> None:
    """List the devices costhub knows and the models for them.

    With NAME, a device id or an alias, show everything known about that device.
    """
    from costhub.api.devices import DeviceTable, devices, this_machine
    from costhub.hub.catalogue.hubs import unreadable_models

    found = devices() if name is None else devices(name)
    if as_json:
        rows = [dict(row) for row in found] if isinstance(found, DeviceTable) else [dict(found)]
        click.echo(json.dumps({"this_machine": this_machine(), "devices": rows}, indent=2))
    else:
        click.echo(str(found))
    for sentence in unreadable_models():
        click.echo(f"Left out: {sentence}", err=True)
