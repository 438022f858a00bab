"""Provides resolve_device and resolve_name: an id or an alias in full, never a prefix."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from costhub.errors import AmbiguousNameError, UnknownNameError, either
from costhub.hub.catalogue.devices import Device, load_devices
from costhub.hub.catalogue.hubs import ModelEntry, hubs_searched, list_models
from costhub.hub.catalogue.nearest import STAND_INS
from costhub.hub.remote.address import Address, parse_address
from costhub.names import close_names

LISTING = "`costhub devices`"
HARDWARE_NAMES = {
    "gpu-amd-mi50": "amd-mi50",
    "gpu-nvidia-a100": "nvidia-a100",
    "gpu-nvidia-h200": "nvidia-h200",
    "gpu-nvidia-v100": "nvidia-v100",
    "epyc-3th-generation-(milan)": "amd-epyc-zen3-2c",
    "epyc-3th-generation-zen-3-(milan)": "amd-epyc-zen3-2c",
    "epyc-4th-generation-(genoa)": "amd-epyc-zen4-2c",
    "epyc-4th-generation-zen-4-(genoa)": "amd-epyc-zen4-2c",
    "epyc-5th-generation-zen-5-(turin)": "amd-epyc-zen5-2c",
}
"""The Hugging Face hub's names of devices in its hardware list (`packages/tasks/src/hardware.ts` of huggingface.js),
in the form that `normalise` gives it, where that is neither an id nor an alias: of a GPU the words of its `sku`, of a
CPU the name of its generation, spelt as there. The list now names the core of an EPYC as well (`Zen 4`); both
spellings are taken. What has no device here is left out."""


@dataclass(frozen=True)
class ResolvedName:
    """The device, and perhaps the architecture, that a name refers to."""

    device: Device
    arch: str | None = None
    """The architecture at the end of the name, or None."""


def normalise(name: str) -> str:
    """Converts a name to the form used for comparison: lower case, with hyphens.

    Example:
        >>> normalise("NVIDIA H200")
        'nvidia-h200'
    """
    return re.sub(r"[\s_]+", "-", name.strip().lower())


def resolve_device(name: str, devices: Sequence[Device] | None = None, *, advice: str = "") -> Device:
    """Finds the single device with this id or alias.

    Args:
        name: The name as typed by a person.
        devices: The devices to search; the index by default.
        advice: A sentence on what to do if no device has that name; by default which model serves it.

    Raises:
        UnknownNameError: No device has that name; the message lists similar ones.
        AmbiguousNameError: It is an alias of several devices and not the id of any.
    """
    searched = load_devices() if devices is None else devices
    device = _lookup(normalise(name), searched)
    if device is None:
        close = _close_to(name, _all_names(searched))
        raise UnknownNameError("device", name, close, LISTING, advice=advice or _unlisted(searched))
    return device


def resolve_name(
    name: str, devices: Sequence[Device] | None = None, models: Sequence[ModelEntry] | None = None
) -> ResolvedName:
    """Reads a name as a device, or as a device followed by an architecture that some model in the hubs has.

    Raises:
        UnknownNameError: It is neither; the message lists similar ones.
        AmbiguousNameError: Its device part fits several devices.
    """
    searched = load_devices() if devices is None else devices
    entries = list_models() if models is None else models
    normalised = normalise(name)
    device = _lookup(normalised, searched)
    if device is not None:
        return ResolvedName(device)
    archs = {entry.arch for entry in entries}
    # Longest first, so that the full name wins over an architecture that is its suffix.
    for arch in sorted(archs, key=lambda a: (-len(a), a)):
        if normalised.endswith(f"-{normalise(arch)}"):
            device = _lookup(normalised.removesuffix(f"-{normalise(arch)}"), searched)
            if device is not None:
                return ResolvedName(device, arch)
    names = {*_all_names(searched), *(f"{name}-{e.arch}" for e in entries for name in e.devices)}
    if "/" in name:
        names |= {entry.name for entry in entries if entry.name}
    advice = hubs_searched() if "/" in name else _unlisted(searched)
    raise UnknownNameError("device or model", name, _close_to(name, names), LISTING, advice=advice)


def _lookup(normalised: str, devices: Sequence[Device]) -> Device | None:
    for device in devices:
        if normalise(device.device_id) == normalised:
            return device
    hits = [device for device in devices if normalised in map(normalise, device.aliases)]
    if len(hits) > 1:
        raise AmbiguousNameError("device", normalised, [device.device_id for device in hits])
    if not hits:
        named = hardware_device(normalised)
        hits = [device for device in devices if device.device_id == named]
    return hits[0] if hits else None


def parse_name(text: str) -> Address:
    """Parses an address, in which a device may have its name in the Hugging Face hub's list of hardware.

    Raises:
        AddressError: It has no form of an address.

    Example:
        >>> parse_name("GPU NVIDIA A100").name, parse_name("nvidia-a100@v1").name
        ('nvidia-a100', 'nvidia-a100')
    """
    return parse_address(hardware_device(text) or text)


def hardware_device(name: str) -> str | None:
    """Finds the device with this name in the Hugging Face hub's list of hardware; None if the list has no such name.

    Example:
        >>> hardware_device("EPYC 4th Generation (Genoa)"), hardware_device("GPU NVIDIA A100")
        ('amd-epyc-zen4-2c', 'nvidia-a100')
        >>> hardware_device("EPYC 2th Generation (Rome)") is None
        True
    """
    normalised = normalise(name)
    for kind in ("cpu-amd-", "cpu-intel-"):  # a sku begins with kind and vendor
        normalised = normalised.removeprefix(kind)
    return HARDWARE_NAMES.get(normalised)


def _unlisted(devices: Sequence[Device]) -> str:
    """Explains, in a sentence, what to use for a device without an entry."""
    ids = {device.device_id for device in devices}
    stand_ins = [name for name in dict.fromkeys(STAND_INS.values()) if name in ids]
    use = f"uses {either(stand_ins)}" if stand_ins else "has no model of its own"
    return f"A device that is not listed, or a part of one, {use}; on the device itself, `auto` takes the best model."


def _all_names(devices: Sequence[Device]) -> set[str]:
    return {name for device in devices for name in (device.device_id, *device.aliases)}


def _close_to(name: str, names: Iterable[str]) -> list[str]:
    return close_names(normalise(name), sorted(names))
