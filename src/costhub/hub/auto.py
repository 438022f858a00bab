"""Chooses the model for the machine we are on: by name, or the nearest device's where it is `auto`."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from costhub.errors import ModelError
from costhub.hub.find import Found, find_model
from costhub.hub.nearest import nearest_device

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
