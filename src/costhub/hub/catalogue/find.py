"""Provides find_model and choose_model: the one model that an address stands for, and why it is that one."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from costhub.errors import ModelError, UnknownNameError
from costhub.hub.catalogue.devices import Device, load_devices
from costhub.hub.catalogue.hubs import CONFIG, ModelEntry, list_models, read_entry
from costhub.hub.catalogue.names import resolve_name
from costhub.hub.catalogue.nearest import nearest_device, nearest_order
from costhub.hub.remote.address import Address, AddressError, parse_address
from costhub.hub.remote.hugging_face import fetch_snapshot
from costhub.hub.remote.manifest import MANIFEST, read_manifest

_PINNED_REVISION = re.compile(r"[0-9a-f]{7,64}")


@dataclass(frozen=True)
class ResolvedModel:
    """A model, its folder, and why it was chosen."""

    entry: ModelEntry
    revision: str | None
    """The sha256 of its content, or the commit on the Hugging Face hub; None without a manifest."""
    reason: str
    """A sentence for people."""
    fetched: bool = False
    """Whether it comes from the Hugging Face hub, where anyone may have written it."""


def find_model(text: str, *, arch: str | None = None) -> ResolvedModel:
    """Finds the model that `text` stands for.

    Args:
        text: A device or model name, `hf-hub:ORG/NAME@REVISION`, `local-dir:/PATH` or the path of a folder.
        arch: The architecture; by default that of the best model.

    Raises:
        CosthubError: One of its kinds: an unknown or ambiguous name, no model, another architecture.
    """
    address = parse_address(text)
    if address.source == "hf-hub":
        return _from_hugging_face(address, arch)
    if address.source == "local-dir":
        return _from_folder(Path(address.name), arch)
    try:
        return _from_index(address, arch)
    except UnknownNameError:
        # A bare word is a name first, and a model folder in the working directory second.
        if (Path(text) / CONFIG).is_file():
            return _from_folder(Path(text), arch)
        raise


def _from_hugging_face(address: Address, arch: str | None) -> ResolvedModel:
    snapshot = fetch_snapshot(address.name, address.revision)
    read_manifest(snapshot.folder)
    entry = read_entry(snapshot.folder, name=address.name, origin="the Hugging Face hub")
    _check_arch(entry, arch)
    return ResolvedModel(entry, snapshot.commit, f"It is {address} at commit {snapshot.commit[:12]}.", True)


def _from_folder(folder: Path, arch: str | None) -> ResolvedModel:
    if not folder.is_dir():
        raise ModelError(f"{folder} is not a folder. Give the folder that `costhub train --out` wrote.")
    entry = read_entry(folder, name=f"local/{folder.resolve().name}", origin=f"the folder {folder}")
    _check_arch(entry, arch)
    revision = read_manifest(folder).revision if (folder / MANIFEST).exists() else None
    return ResolvedModel(entry, revision, f"It is the folder {folder}.")


def _check_arch(entry: ModelEntry, arch: str | None) -> None:
    if arch is not None and arch != entry.arch:
        raise ModelError(f"{entry.name} has the architecture {entry.arch}, not {arch}. Leave --arch out to take it.")


def _from_index(address: Address, arch: str | None) -> ResolvedModel:
    entries = list_models()
    exact = [e for e in entries if e.name == address.name]
    if exact:
        _check_arch(exact[0], arch)
        return _pinned(exact, address, f"It is the model named {address.name} in {exact[0].origin}.")
    named = resolve_name(address.name, models=entries)
    if named.arch and arch not in (None, named.arch):
        raise AddressError(
            f"{address.name!r} names the {named.arch} model, but --arch names {arch}. Give only one of the two."
        )
    wanted = named.arch or arch
    fitting = list_models(named.device.device_id)
    if not fitting:
        raise ModelError(_no_model_message(named.device))
    of_arch = [e for e in fitting if wanted in (None, e.arch)]
    if not of_arch:
        have = ", ".join(sorted({e.arch for e in fitting}))
        raise ModelError(
            f"{named.device.device_id} has no {wanted} model; it has {have}. Leave --arch out to take the best."
        )
    return _pinned(of_arch, address, _reason_for_best(of_arch, named.device.device_id, wanted))


def _pinned(entries: Sequence[ModelEntry], address: Address, reason: str) -> ResolvedModel:
    """The first entry, or the first one of the address's revision."""
    if address.revision is None:
        return ResolvedModel(entries[0], read_manifest(entries[0].folder).revision, reason)
    if not _PINNED_REVISION.fullmatch(address.revision):
        raise AddressError(
            f"{address} pins the revision {address.revision!r}; outside the Hugging Face hub a revision is "
            "7 or more hexadecimal digits of the content's sha256, as `costhub pull` prints them."
        )
    for entry in entries:
        revision = read_manifest(entry.folder).revision
        if revision.startswith(address.revision):
            return ResolvedModel(entry, revision, f"It is the model with the pinned revision {address.revision}.")
    have = ", ".join(f"{e.name}@{read_manifest(e.folder).revision[:12]}" for e in entries)
    raise ModelError(f"No model for {address.name} has the revision {address.revision}; there is {have}.")


def _reason_for_best(entries: Sequence[ModelEntry], device_id: str, arch: str | None) -> str:
    kind = f"{arch} model" if arch else "model"
    if len(entries) == 1:
        return f"It is the only {kind} for {device_id} in the hubs here."
    figures = ", ".join(f"{e.name} {'not evaluated' if e.top_1 is None else format(e.top_1, '.3f')}" for e in entries)
    if entries[0].top_1 is None:
        return f"No {kind} for {device_id} was evaluated on held-out workloads; this one is first by name."
    count = len(entries)
    return f"Of the {count} {kind}s for {device_id} it has the highest top_1 on held-out workloads ({figures})."


def _no_model_message(device: Device) -> str:
    near = nearest_device(device.row(), devices=load_devices())
    text = f"{device.device_id} is in the index but has no model yet."
    if near is None:
        return f"{text} Measure programs with `costhub collect` and train one with `costhub train`."
    return f"{text} The nearest device with one is {near.device_id}: `costhub pull {near.device_id}` fetches it."


AUTO = "auto"


def choose_model(name: str, descriptor: Mapping[str, Any], *, arch: str | None = None) -> ResolvedModel:
    """The model that `name` stands for; `auto` is that of the device most like `descriptor`.

    Args:
        name: What `costhub pull` takes, or ``auto``.
        descriptor: The row of this machine in the devices table.
        arch: The architecture; by default that of the best model.

    Raises:
        ModelError: No device of this kind has a model.
        CosthubError: As `find_model`.
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


def models_of_kind(descriptor: Mapping[str, Any], *, arch: str | None = None) -> list[ResolvedModel]:
    """All models of devices of one kind in the hubs here, those of the most alike device first.

    Args:
        descriptor: The row of a device in the `devices` table.
        arch: The architecture; any by default.

    Raises:
        ModelError: The hubs hold no such model.
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
