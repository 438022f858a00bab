"""Chooses the model for the machine we are on: by name, or the nearest device's where it is `auto`."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from costhub.errors import ModelError
from costhub.hub.find import Found, find_model
from costhub.hub.nearest import nearest_device, nearest_order
from costhub.hub.shelf import list_models

AUTO = "auto"


def choose_model(name: str, descriptor: Mapping[str, Any], *, arch: str | None = None) -> Found:
    """The model that `name` stands for; `auto` is that of the device most like `descriptor`.

    Args:
        name: what `costhub pull` takes, or ``auto``.
        descriptor: the row of this machine in the devices table.
        arch: The architecture wanted; by default the best one there is.

    Raises:
        ModelError: no device of this kind has a model.
        CosthubError: as `find_model`.
    """
    if name != AUTO:
        return find_model(name, arch=arch)
    nearest = nearest_device(descriptor)
    if nearest is None:
        raise ModelError(
            f"No {descriptor.get('kind')} device has a model in the hub. Name one with --model, or train one "
            "with `costhub collect` and `costhub train`."
        )
    return replace(find_model(nearest.device_id, arch=arch), reason=nearest.reason)


def models_of_kind(descriptor: Mapping[str, Any], *, arch: str | None = None) -> list[Found]:
    """All models of devices of one kind in the hubs here, those of the most alike device first.

    Args:
        descriptor: The row of a device in the `devices` table.
        arch: The architecture wanted; any by default.

    Raises:
        ModelError: There is none.
    """
    entries = [entry for entry in list_models() if arch in (None, entry.arch)]
    order = nearest_order(descriptor, [name for entry in entries for name in entry.devices])
    names = [entry.name for device_id in order for entry in entries if device_id in entry.devices]
    found = [find_model(name) for name in dict.fromkeys(names)]
    if not found:
        raise ModelError(
            f"The hubs here hold no {f'{arch} ' if arch else ''}model of a {descriptor.get('kind')} device. "
            "Give the address of a model elsewhere, or train one with `costhub train`."
        )
    return found
