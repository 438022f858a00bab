"""Provides device_rows: what is known of devices, from a data folder and the device index together."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

from costhub.dataset.folder import DataFolder
from costhub.hub.index import find_device


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
    """A row of the `devices` table with what it leaves open filled in from the index.

    Example:
        >>> completed({"device_id": "nvidia-h200", "cores": 64})["kind"]
        'cuda'
    """
    known = find_device(row["device_id"])
    stated = {name: value for name, value in row.items() if value is not None and value != []}
    return {**(known.row() if known else {}), **stated}
