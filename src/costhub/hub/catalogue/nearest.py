"""Provides nearest_device: the device with a model that is most similar to a given one, by their descriptors alone."""

from __future__ import annotations

import math
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from costhub.hub.catalogue.devices import Device, load_devices
from costhub.hub.catalogue.hubs import list_models
from costhub.terminal_text import counted

# The distance is a sum, in units of one doubling of the core count:
#   4 for another microarchitecture, 2 for another vendor: which schedules win follows the core's design;
#   2 per doubling of the SIMD width: vector lengths and register tiles follow it;
#   1 per doubling of cores, 1/2 per doubling of each cache: tile sizes follow them.
# A fact known for only one side counts as one difference or doubling; one known for neither counts nothing.
NAMED_WEIGHTS = {"microarchitecture": 4.0, "vendor": 2.0}
SIZED_WEIGHTS = {"simd_bits": 2.0, "cores": 1.0, "l1d_bytes": 0.5, "l2_bytes": 0.5, "l3_bytes": 0.5}
STAND_INS = {"cpu": "any-cpu", "cuda": "any-gpu", "rocm": "any-gpu"}
"""Kind -> the name representing all devices of that kind without a model."""
MAX_DOUBLINGS = 6.0
"""Beyond a factor of 64, larger differences carry no further information."""


@dataclass(frozen=True)
class NearestDevice:
    """The device whose model is used instead."""

    device_id: str
    distance: float
    """0 for equal descriptors; the distance to one of `STAND_INS` counts every known fact."""
    reason: str
    """A readable explanation."""


def distance(a: Mapping[str, Any], b: Mapping[str, Any]) -> float:
    """The dissimilarity of two descriptors: 0 for equal ones, symmetric, infinite for different kinds.

    Args:
        a: A row of the `devices` table.
        b: Another one.

    Example:
        >>> distance({"kind": "cpu", "cores": 2}, {"kind": "cpu", "cores": 8})
        2.0
    """
    if a.get("kind") != b.get("kind"):
        return math.inf
    named = sum(weight for key, weight in NAMED_WEIGHTS.items() if _text(a, key) != _text(b, key))
    sized = sum(weight * _doublings(a.get(key), b.get(key)) for key, weight in SIZED_WEIGHTS.items())
    return named + sized


def nearest_device(descriptor: Mapping[str, Any], *, devices: Sequence[Device] | None = None) -> NearestDevice | None:
    """Finds the device with a model that is most similar to `descriptor`; None if no device of its kind has one.

    A device without a model gets that of its kind's `STAND_INS`, if one exists: it takes the device's figures as input
    and ranks the programs of an unseen device better than the model of a similar device does
    (docs/models.md, "One model for many devices"). Ties go to the device itself, then to the one whose id comes first,
    so the answer never depends on the order of the index.

    Args:
        descriptor: A row of the `devices` table.
        devices: The devices to search; the index by default.
    """
    with_model = {name for entry in list_models() for name in entry.devices}
    known = load_devices() if devices is None else devices
    stand_in = next((d for d in known if d.device_id == STAND_INS.get(str(descriptor.get("kind")))), None)
    if stand_in and stand_in.device_id in with_model and descriptor.get("device_id") not in with_model:
        name = stand_in.device_id
        reason = f"No model was trained for this device; {name} is used, which takes the device's figures as input."
        return NearestDevice(name, distance(descriptor, {**stand_in.row(), "kind": descriptor["kind"]}), reason)
    named = [entry for entry in _fitting(descriptor, with_model, known) if entry[1] not in STAND_INS.values()]
    if not named:
        return None
    best, device_id, device = named[0]
    return NearestDevice(device_id, best, _reason(descriptor, device, len(named)))


def nearest_order(descriptor: Mapping[str, Any], device_ids: Sequence[str]) -> list[str]:
    """Sorts the devices of the descriptor's kind, the most similar first.

    Unknown ones are left out; the descriptor's own is known even if no index lists it.

    Args:
        descriptor: A row of the `devices` table.
        device_ids: The devices to order.
    """
    return [name for _, name, _ in _fitting(descriptor, device_ids, load_devices())]


def _fitting(
    descriptor: Mapping[str, Any], device_ids: Collection[str], known: Sequence[Device]
) -> list[tuple[float, str, Device]]:
    """Distance, id and device of those of the descriptor's kind, the most similar first, then itself, then by id."""
    own = descriptor.get("device_id")
    if own in device_ids and all(device.device_id != own for device in known):
        known = [*known, Device.from_row(descriptor)]
    scored = [(distance(descriptor, d.row()), d.device_id, d) for d in known if d.device_id in device_ids]
    return sorted((s for s in scored if math.isfinite(s[0])), key=lambda s: (s[0], s[1] != own, s[1]))


def _text(row: Mapping[str, Any], key: str) -> str | None:
    value = row.get(key)
    return str(value).lower() if value is not None else None


def _doublings(x: float | None, y: float | None) -> float:
    if not x and not y:
        return 0.0
    if not x or not y:
        return 1.0
    return min(abs(math.log2(x) - math.log2(y)), MAX_DOUBLINGS)


def _reason(descriptor: Mapping[str, Any], device: Device, candidates: int) -> str:
    if descriptor.get("device_id") == device.device_id:
        return f"There is a model for {device.device_id} itself."
    row = device.row()
    same = [key for key in NAMED_WEIGHTS if row[key] and _text(descriptor, key) == _text(row, key)]
    facts = [f"same {' and '.join(same)}"] if same else []
    for key, label in (("cores", "core"), ("simd_bits", "SIMD bit")):
        if descriptor.get(key) and row[key] and descriptor[key] != row[key]:
            facts.append(f"{counted(row[key], label)} against {descriptor[key]} here")
    rank = "the only" if candidates == 1 else f"the nearest of {candidates}"
    noun = f"{device.kind} device" + ("" if candidates == 1 else "s")
    return f"{device.device_id} is {rank} {noun} with a model" + (f" ({'; '.join(facts)})." if facts else ".")
