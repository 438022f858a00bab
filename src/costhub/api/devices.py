"""Provides devices: what costhub knows about devices, as a table and as facts, and which of them this machine is."""

from __future__ import annotations

import json
import os
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, overload

from costhub.cards.tables import TableColumn, plain_table
from costhub.errors import CosthubError, DeviceError, ModelError, UnknownNameError
from costhub.hub.catalogue.devices import Device, complete_device_row, load_devices
from costhub.hub.catalogue.find import choose_model
from costhub.hub.catalogue.hubs import (
    ModelEntry,
    dataset_folders,
    list_datasets,
    list_models,
    models_for,
    unreadable_models,
)
from costhub.hub.catalogue.names import resolve_device
from costhub.terminal_text import Printed, clean
from costhub.versions import load_pandas

_COLUMNS = (
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
"""Column of the devices table -> its unit."""


@dataclass(frozen=True, repr=False)
class DeviceFacts(Mapping[str, Any], Printed):
    """What is known about a device: a row of the devices table; `print` shows the facts that are known.

    Example:
        >>> devices("nvidia-h200")["kind"]
        'cuda'
    """

    row: Mapping[str, Any]
    text: str = ""
    """What `print` shows; by default a line for each known fact."""

    def __getitem__(self, name: str) -> Any:
        """The value of a column."""
        return self.row[name]

    def __iter__(self) -> Iterator[str]:
        return iter(self.row)

    def __len__(self) -> int:
        return len(self.row)

    def to_pandas(self) -> Any:
        """A ``pandas.DataFrame`` with one row."""
        return load_pandas().DataFrame([dict(self.row)])

    def __str__(self) -> str:
        return self.text or "\n".join(_facts(self.row))


@dataclass(frozen=True, repr=False)
class DeviceTable(Sequence[DeviceFacts], Printed):
    """The devices that costhub knows; `print` shows them as a table."""

    rows: tuple[DeviceFacts, ...]
    this_machine: str | None
    """The device id of this machine; None if it cannot be identified."""
    left_out: tuple[str, ...] = ()
    """Sentences about models in the hubs that cannot be read."""
    parts: tuple[str, ...] = ()
    """Devices that this machine becomes when its threads or instructions are limited."""
    cores: int = 1
    """Of this machine; every number of threads up to it is a device."""

    @overload
    def __getitem__(self, place: int) -> DeviceFacts: ...
    @overload
    def __getitem__(self, place: slice) -> tuple[DeviceFacts, ...]: ...
    def __getitem__(self, place: int | slice) -> DeviceFacts | tuple[DeviceFacts, ...]:
        """One device, or several."""
        return self.rows[place]

    def __len__(self) -> int:
        return len(self.rows)

    def to_pandas(self) -> Any:
        """A ``pandas.DataFrame`` with a row per device."""
        return load_pandas().DataFrame([dict(row) for row in self.rows])

    def __str__(self) -> str:
        text = plain_table([_line(row) for row in self.rows], _COLUMNS)
        if self.this_machine is None:
            return f"{text}\n\nThis machine could not be identified; `costhub probe` says why."
        is_listed = self.this_machine in [row["device_id"] for row in self.rows]
        if not is_listed:
            here = f"This machine is {self.this_machine}, which is not in the index"
            text = f"{text}\n\n{here}{_what_next(self.this_machine)}"
        if self.parts:
            more = ", and other numbers of threads (-4c)" if self.cores > 2 else ""
            text += "\n\n" if is_listed else "\n"
            text += f"`--device` also takes parts of this machine: {', '.join(self.parts)}{more}."
        return text


@overload
def devices(name: None = None) -> DeviceTable: ...
@overload
def devices(name: str) -> DeviceFacts: ...
def devices(name: str | None = None) -> DeviceTable | DeviceFacts:
    """The devices that costhub knows, with the models and data for each; or everything known about one.

    Args:
        name: A device id or an alias, or a device of this machine even if it is not in the index (`auto` for its whole
            CPU); by default all devices.

    Returns:
        All devices as a sequence that prints as a table, or the facts of one as a mapping.

    Raises:
        UnknownNameError: No device has that name.
        DeviceError: It is the name of a file.
        AmbiguousNameError: It is an alias of several devices.

    Example:
        >>> [device["device_id"] for device in devices() if device["kind"] == "cuda"]
        ['any-gpu', 'nvidia-a100', 'nvidia-h200', 'nvidia-k80', 'nvidia-v100']
        >>> devices("h200")["models"][0]["name"]
        'costhub/nvidia-h200-blend'
    """
    here = this_machine()
    if name is not None:
        try:
            return DeviceFacts(_described(resolve_device(name), here, list_models(), dataset_folders()))
        except UnknownNameError:
            own = _own_device(name)
            if own is not None:
                return own
            if os.path.isfile(name):
                raise DeviceError(
                    f"{name} is a file: `costhub compile` and `costhub estimate` take it with --device. This command "
                    "lists devices by name."
                ) from None
            raise
    from costhub.collector.device.cpu_state import core_count

    known, models, datasets = load_devices(), list_models(), dataset_folders()
    rows = tuple(DeviceFacts(_described(device, here, models, datasets)) for device in known)
    return DeviceTable(rows, here, tuple(unreadable_models()), _parts(here), core_count() if here else 1)


def this_machine() -> str | None:
    """The device id of this machine; None if it cannot be identified."""
    from costhub.collector.device.identity import identify

    try:
        device_id = identify()["device_id"]
    # The index is worth showing even on a machine that cannot be identified.
    except (CosthubError, OSError, RuntimeError, LookupError, ValueError, ImportError):
        return None
    return str(device_id)


def _parts(here: str | None) -> tuple[str, ...]:
    """The names of the other devices that the CPU of this machine can be."""
    from costhub.collector.device.local import local_names

    return () if here is None else tuple(name for name in local_names() if name != here)


def _own_device(name: str) -> DeviceFacts | None:
    """A device of this machine with its probed figures; None if it has no device of this name."""
    from costhub.collector.device.local import find_local

    try:
        (local,) = find_local([name])
    except (CosthubError, OSError):
        return None
    device_id = str(local.row["device_id"])
    extra = {
        "target": json.dumps(local.target),
        "models": [_model(entry) for entry in models_for(device_id)],
        "datasets": list(list_datasets(device_id)),
        "this_machine": True,
    }
    return DeviceFacts({**complete_device_row(local.row), **extra})


def _what_next(device_id: str) -> str:
    """What to do on a machine that is not listed."""
    if complete_device_row({"device_id": device_id}).get("peak_gflops") is None:
        return "; `costhub probe` measures it."
    return f". It has been probed: `costhub devices {device_id}` shows its figures, and `costhub tune` uses them."


def _described(
    device: Device, here: str | None, entries: Sequence[ModelEntry], folders: Mapping[str, Path]
) -> dict[str, Any]:
    """Everything known about a device, as text and as data, with those of the models and datasets that are for it."""
    models = [_model(entry) for entry in models_for(device.device_id, entries)]
    extra = {
        "models": models,
        "datasets": list(list_datasets(device.device_id, folders)),
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


def _line(row: Mapping[str, Any]) -> dict[str, str]:
    return {
        "device": row["device_id"],
        "kind": row["kind"],
        "models": ", ".join(model["arch"] for model in row["models"]) or "-",
        "data": ", ".join(row["datasets"]) or "-",
        "aliases": ", ".join(row["aliases"]) or "-",
        "note": "<- this machine" if row["this_machine"] else "",
    }


def _facts(row: Mapping[str, Any]) -> list[str]:
    """One line per known fact."""
    shown = {key: value for key, value in row.items() if value not in (None, [], False) and key != "models"}
    # Texts of a shared hub come from anybody.
    lines = [
        f"{key:20} {clean(_fact(value), 2000)}{' ' + UNITS[key] if key in UNITS else ''}"
        for key, value in shown.items()
    ]
    for model in row["models"]:
        figure = "not evaluated" if model["top_1"] is None else f"top_1 {model['top_1']:.3f} on held-out workloads"
        lines.append(f"{'model':20} {clean(model['name'], 200)} ({figure}; {clean(model['origin'], 200)})")
    return lines if row["models"] else [*lines, f"{'model':20} {_stand_in(row)}"]


def _stand_in(row: Mapping[str, Any]) -> str:
    """What a device without a model of its own gets instead."""
    try:
        return f"none of its own; `auto` takes {choose_model('auto', row).entry.name}"
    except ModelError:
        return "none yet"


def _fact(value: Any) -> str:
    if isinstance(value, bool):
        return "yes"
    if isinstance(value, float):
        return f"{value:,.4g}"
    return ", ".join(value) if isinstance(value, list) else str(value)
