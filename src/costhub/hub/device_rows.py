"""Provides device_rows: what is known of devices, from a data folder and the device index together."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

from costhub.cache import cache_root
from costhub.dataset.folder import DataFolder
from costhub.hub.index import Device, find_device, read_devices, register_device


def device_rows(data: str | Path, device_ids: Iterable[str]) -> dict[str, dict[str, Any]]:
    """The rows of some devices; one of which nothing is known has its id only.

    Args:
        data: A data folder, whose own rows count more than the index.
        device_ids: The devices wanted.

    Raises:
        DataError: There is no data folder, or its table of devices cannot be read.
    """
    own = {row["device_id"]: row for row in DataFolder.open(data).devices().to_pylist()}
    return {name: completed(own.get(name, {"device_id": name})) for name in device_ids}


def completed(row: Mapping[str, Any]) -> dict[str, Any]:
    """A row of the `devices` table with what it leaves open from the index, or else from `keep_figures`.

    Raises:
        CosthubError: An index, or the file of `keep_figures`, cannot be read.

    Example:
        >>> completed({"device_id": "nvidia-h200", "cores": 64})["kind"]
        'cuda'
    """
    name = row["device_id"]
    known = _row(find_device(name))
    here = _row(next((device for device in read_devices(_figures_file()) if device.device_id == name), None))
    # Where both have a figure the index counts: models have learned from that one.
    return {**known, **_stated(here), **_stated(known), **_stated(row)}


def keep_figures(row: Mapping[str, Any]) -> None:
    """Keeps in the cache what was probed on this machine, where `completed` finds it."""
    register_device(row, path=_figures_file())


def _figures_file() -> Path:
    return cache_root() / "devices.json"


def _row(device: Device | None) -> dict[str, Any]:
    return device.row() if device else {}


def _stated(row: Mapping[str, Any]) -> dict[str, Any]:
    """What a row says; a fact that is not known is no statement."""
    return {name: value for name, value in row.items() if value is not None and value != []}
