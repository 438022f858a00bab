"""Provides `costhub devices`: the device index, and which of its devices this machine is."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any

import click

from costhub.cards.tables import TableColumn, plain_table
from costhub.errors import CosthubError
from costhub.hub.catalogue.devices import Device, load_devices
from costhub.hub.catalogue.hubs import ModelEntry, list_datasets, models_for, unreadable_models
from costhub.hub.catalogue.names import resolve_device

EXAMPLE = """
\b
Example:
  costhub devices nvidia-h200
"""

COLUMNS = (
    TableColumn("device", "device"),
    TableColumn("kind", "kind"),
    TableColumn("models", "models"),
    TableColumn("data", "data"),
    TableColumn("aliases", "aliases"),
    TableColumn("note", ""),
)
UNITS = {
    "l1d_bytes": "bytes per core",
    "l2_bytes": "bytes",
    "l3_bytes": "bytes",
    "memory_bytes": "bytes",
    "peak_gflops": "GFLOP/s",
    "peak_gflops_float64": "GFLOP/s",
    "peak_gflops_float16": "GFLOP/s",
    "peak_gflops_bfloat16": "GFLOP/s",
    "peak_gops_int8": "GOP/s",
    "l1_gbs": "GB/s",
    "l2_gbs": "GB/s",
    "l3_gbs": "GB/s",
    "dram_gbs": "GB/s",
    "launch_overhead_us": "us",
}


@click.command("devices", epilog=EXAMPLE)
@click.argument("name", required=False)
@click.option("--json", "as_json", is_flag=True, help="Print JSON for programs.")
def command(name: str | None, as_json: bool) -> None:
    """List the devices costhub knows and the models for them.

    With NAME, a device id or an alias, show everything known about that device.
    """
    here = this_machine()
    devices = load_devices() if name is None else (resolve_device(name),)
    rows = [describe(device, here) for device in devices]
    if as_json:
        click.echo(json.dumps({"this_machine": here, "devices": rows}, indent=2))
    elif name is None:
        click.echo(plain_table([_line(row) for row in rows], COLUMNS))
        _report_this_machine(here, devices)
    else:
        click.echo("\n".join(_facts(rows[0])))
    for sentence in unreadable_models():
        click.echo(f"Left out: {sentence}", err=True)


def this_machine() -> str | None:
    """The device id of this machine; None if it cannot be identified."""
    from costhub.collector.device.identity import identify

    try:
        device_id = identify()["device_id"]
    # The index is worth showing even on a machine that cannot be identified.
    except (CosthubError, OSError, RuntimeError, LookupError, ValueError, ImportError):
        return None
    return str(device_id)


def describe(device: Device, here: str | None) -> dict[str, Any]:
    """Everything known about a device, for people and programs."""
    models = [_model(entry) for entry in models_for(device.device_id)]
    extra = {
        "models": models,
        "datasets": list(list_datasets(device.device_id)),
        "this_machine": device.device_id == here,
    }
    return {**device.row(), **extra}


def _model(entry: ModelEntry) -> dict[str, Any]:
    return {
        "name": entry.name,
        "arch": entry.arch,
        "top_1": entry.top_1,
        "origin": entry.origin,
        "folder": str(entry.folder),
    }


def _line(row: dict[str, Any]) -> dict[str, str]:
    return {
        "device": row["device_id"],
        "kind": row["kind"],
        "models": ", ".join(model["arch"] for model in row["models"]) or "-",
        "data": ", ".join(row["datasets"]) or "-",
        "aliases": ", ".join(row["aliases"]) or "-",
        "note": "<- this machine" if row["this_machine"] else "",
    }


def _report_this_machine(here: str | None, devices: Sequence[Device]) -> None:
    if here is None:
        click.echo("\nThis machine could not be identified; `costhub probe` says why.")
    elif here not in [device.device_id for device in devices]:
        click.echo(f"\nThis machine is {here}, which is not in the index; `costhub probe` measures it.")


def _facts(row: dict[str, Any]) -> list[str]:
    """One line per known fact."""
    shown = {key: value for key, value in row.items() if value not in (None, [], False) and key != "models"}
    lines = [f"{key:20} {_fact(value)}{' ' + UNITS[key] if key in UNITS else ''}" for key, value in shown.items()]
    for model in row["models"]:
        figure = "not evaluated" if model["top_1"] is None else f"top_1 {model['top_1']:.3f} on held-out workloads"
        lines.append(f"{'model':20} {model['name']} ({figure}; {model['origin']})")
    return lines if row["models"] else [*lines, f"{'model':20} none yet"]


def _fact(value: Any) -> str:
    if isinstance(value, bool):
        return "yes"
    if isinstance(value, float):
        return f"{value:,.4g}"
    return ", ".join(value) if isinstance(value, list) else str(value)
