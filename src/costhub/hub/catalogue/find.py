"""Provides find_model and choose_model: the single model that an address refers to, and the reason."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from costhub.dataset.credit import is_replayed
from costhub.errors import ModelError, UnknownNameError
from costhub.hub.catalogue.devices import Device, find_device, load_devices
from costhub.hub.catalogue.hubs import CONFIG, ModelEntry, folders_with, list_models, models_for, read_entry
from costhub.hub.catalogue.names import ResolvedName, parse_name, resolve_name
from costhub.hub.catalogue.nearest import STAND_INS, NearestDevice, nearest_device, nearest_order
from costhub.hub.remote.address import Address, AddressError
from costhub.hub.remote.hugging_face import fetch_snapshot

AUTO = "auto"
_PINNED_REVISION = re.compile(r"[0-9a-f]{7,64}")


@dataclass(frozen=True)
class ResolvedModel:
    """The model that an address refers to."""

    entry: ModelEntry
    reason: str
    """Why it was chosen, in a readable sentence."""
    commit: str | None = None
    """Commit on the Hugging Face hub, where anyone may have written the model; None for a folder on this machine."""

    @property
    def revision(self) -> str | None:
        """The sha256 of its content, or the commit on the Hugging Face hub; None for a folder without a manifest."""
        return self.commit or (self.entry.manifest.revision if self.entry.has_manifest else None)


def find_model(text: str, *, arch: str | None = None) -> ResolvedModel:
    """Finds the model that `text` refers to: a model folder at that path, or else a model by name.

    `costhub/NAME` is the model in the hub, `./NAME` is always a folder.

    Args:
        text: A device or model name, `hf-hub:ORG/NAME@REVISION`, `local-dir:/PATH` or the path of a folder.
        arch: The architecture; by default that of the best model.

    Raises:
        CosthubError: One of its subclasses: an unknown or ambiguous name, no model, another architecture.
    """
    if text and (Path(text) / CONFIG).is_file():
        return _from_folder(Path(text), arch)
    try:
        address = parse_name(text)
        if address.source == "hf-hub":
            return _from_hugging_face(address, arch)
        if address.source == "local-dir":
            return _from_folder(Path(address.name), arch)
        return _from_index(address, arch)
    except (AddressError, UnknownNameError):
        if Path(text).exists():
            return _from_folder(Path(text), arch)  # which reports what it is instead
        raise


def choose_model(name: str, descriptor: Mapping[str, Any], *, arch: str | None = None) -> ResolvedModel:
    """Finds the model that `name` refers to; `auto` means the best model for `descriptor`.

    Args:
        name: A name accepted by `costhub pull`, or ``auto``.
        descriptor: This machine's row in the devices table.
        arch: The architecture; by default that of the best model.

    Raises:
        ModelError: No device of this kind has a model.
        CosthubError: As for `find_model`.
    """
    if name != AUTO:
        return find_model(name, arch=arch)
    nearest = nearest_device(descriptor)
    if nearest is None:
        raise ModelError(
            f"No {descriptor.get('kind')} device has a model in the hub. Name one with --model, or train one "
            "with `costhub collect` and `costhub train`."
        )
    # In the hubs alone: a folder here may have the name of the device.
    found = _from_index(Address("index", nearest.device_id), arch)
    return replace(found, reason=_nearest(found, nearest, descriptor.get("device_id")))


def kinds_of(entry: ModelEntry) -> tuple[str, ...]:
    """The kinds of device that a model is for, such as ``cpu`` or ``cuda``; empty if the index lacks its devices."""
    found = (find_device(device_id) for device_id in entry.devices)
    return tuple(dict.fromkeys(device.kind for device in found if device is not None))


def is_of_kind(entry: ModelEntry, descriptor: Mapping[str, Any]) -> bool | None:
    """Whether a model is for a device's kind; None if the model's devices are unknown.

    Args:
        entry: The model.
        descriptor: The row of a device in the `devices` table.
    """
    meant = kinds_of(entry)
    return descriptor.get("kind") in meant if meant else None


def is_alike(entry: ModelEntry, descriptor: Mapping[str, Any], data: Path | None = None) -> bool | None:
    """Whether a model learned from latencies like the target's: of its kind of device, and of the same compiler's code.

    A GPU's programs that were replayed from the logs of Ansor have the latencies of another code generator. Between
    the two, less carries over than between two GPUs that ran TVM's own code.

    Args:
        entry: The model.
        descriptor: The row of the target in the `devices` table.
        data: The folder with measurements of the target; None if they are in memory, or not measured yet.

    Returns:
        None if the model's devices are unknown, or if no dataset in the hubs says how a GPU was measured.
    """
    same_kind = is_of_kind(entry, descriptor)
    if not same_kind:
        return same_kind
    places = {name: measured_in(name) for name in entry.devices}
    learned = {is_replayed(folder, name) for name, folder in places.items() if folder is not None}
    if not learned:
        return True if descriptor.get("kind") == "cpu" else None
    return (data is not None and is_replayed(data, str(descriptor.get("device_id")))) in learned


def measured_in(device_id: str) -> Path | None:
    """The dataset with measurements of a device, that of a shared hub first; None if there is none."""
    return next(iter(folders_with(device_id).values()), None)


def check_kind(entry: ModelEntry, kind: str, *, device: str, allow: bool = False) -> None:
    """Rejects a GPU model for a CPU and vice versa: it would rank programs no better than chance.

    Args:
        entry: The model.
        kind: The kind of device to score programs for.
        device: The name of that device, for the message.
        allow: Whether the user explicitly allows it.

    Raises:
        ModelError: The model is for other kinds of device, and `allow` is False.
    """
    meant = kinds_of(entry)
    if allow or not meant or kind in meant:
        return
    raise ModelError(
        f"{entry.name} is a model for {' and '.join(meant)} devices, but {device} is a {kind} device, whose programs "
        "it ranks about as well as chance. Name a model of that kind, or auto; --allow-other-kind (in Python "
        "allow_other_kind=True) takes this one anyway."
    )


def models_of_kind(descriptor: Mapping[str, Any], *, arch: str | None = None) -> list[ResolvedModel]:
    """Lists all models for devices of one kind in the hubs here, the most similar devices first.

    Args:
        descriptor: The row of a device in the `devices` table.
        arch: The architecture; any by default.

    Raises:
        ModelError: The hubs hold no such model.
    """
    entries = [entry for entry in list_models() if arch in (None, entry.arch)]
    order = nearest_order(descriptor, [name for entry in entries for name in entry.devices])
    chosen = dict.fromkeys(entry for device_id in order for entry in entries if device_id in entry.devices)
    if not chosen:
        raise ModelError(
            f"The hubs here hold no {f'{arch} ' if arch else ''}model of a {descriptor.get('kind')} device. "
            "Give the address of a model elsewhere, or train one with `costhub train`."
        )
    return [ResolvedModel(entry, _named(entry)) for entry in chosen]


def _from_hugging_face(address: Address, arch: str | None) -> ResolvedModel:
    snapshot = fetch_snapshot(address.name, address.revision)
    entry = read_entry(snapshot.folder, name=address.name, origin="the Hugging Face hub")
    _check_arch(entry, arch)
    return ResolvedModel(entry, f"It is {address} at commit {snapshot.commit[:12]}.", snapshot.commit)


def _from_folder(folder: Path, arch: str | None) -> ResolvedModel:
    if not folder.is_dir():
        what = "is a file" if folder.exists() else "is not a folder"
        own = f", or {folder}:NAME for a model of your own, where that is allowed" if folder.suffix == ".py" else ""
        raise ModelError(f"{folder} {what}. Give the folder that `costhub train` or `adapt` wrote with --out{own}.")
    entry = read_entry(folder, name=f"local/{folder.resolve().name}", origin=f"the folder {folder}")
    _check_arch(entry, arch)
    return ResolvedModel(replace(entry, is_published=False), f"It is the folder {folder}.")


def _check_arch(entry: ModelEntry, arch: str | None) -> None:
    if arch is not None and arch != entry.arch:
        raise ModelError(f"{entry.name} has the architecture {entry.arch}, not {arch}. Leave --arch out to take it.")


def _from_index(address: Address, arch: str | None) -> ResolvedModel:
    entries = list_models()
    exact = [entry for entry in entries if entry.name == address.name]
    if exact:
        _check_arch(exact[0], arch)
        return _pinned(exact, address, _named(exact[0]))
    resolved = _resolved(address.name, entries)
    if resolved.arch and arch not in (None, resolved.arch):
        raise AddressError(
            f"{address.name!r} names the {resolved.arch} model, but --arch names {arch}. Give only one of the two."
        )
    device_id, arch = resolved.device.device_id, resolved.arch or arch
    of_device = models_for(device_id, entries)
    if not of_device:
        raise ModelError(_no_model_message(resolved.device))
    of_arch = [entry for entry in of_device if arch in (None, entry.arch)]
    if not of_arch:
        have = ", ".join(sorted({entry.arch for entry in of_device}))
        raise ModelError(f"{device_id} has no {arch} model; it has {have}. Leave --arch out to take the best.")
    return _pinned(of_arch, address, _best(of_arch, device_id, arch))


def _resolved(name: str, entries: Sequence[ModelEntry]) -> ResolvedName:
    """The device that a name refers to: one from the index, or else one mentioned only by a model."""
    indexed = load_devices()
    known = {device.device_id for device in indexed}
    named = dict.fromkeys(device_id for entry in entries for device_id in entry.devices if device_id not in known)
    try:
        return resolve_name(name, indexed, entries)
    except UnknownNameError:
        return resolve_name(name, [*indexed, *(Device(device_id=each, kind="unknown") for each in named)], entries)


def _pinned(entries: Sequence[ModelEntry], address: Address, reason: str) -> ResolvedModel:
    """The first entry, for a reason, or the first one with the address's revision."""
    pin = address.revision
    if pin is None:
        return ResolvedModel(entries[0], reason)
    if not _PINNED_REVISION.fullmatch(pin):
        raise AddressError(
            f"{address} pins the revision {pin!r}; outside the Hugging Face hub a revision is "
            "7 or more hexadecimal digits of the content's sha256, as `costhub pull` prints them."
        )
    for entry in entries:
        if entry.manifest.revision.startswith(pin):
            return ResolvedModel(entry, f"It is the model with the pinned revision {pin}.")
    have = ", ".join(f"{entry.name}@{entry.manifest.revision[:12]}" for entry in entries)
    raise ModelError(f"No model for {address.name} has the revision {pin}; there is {have}.")


def _named(entry: ModelEntry) -> str:
    return f"It is the model named {entry.name} in {entry.origin}."


def _nearest(found: ResolvedModel, nearest: NearestDevice, device_id: Any) -> str:
    """Explains why the model of a device was chosen; a model of many devices goes by another name."""
    if found.entry.device_id == nearest.device_id:
        return nearest.reason
    others = len(found.entry.trained_on) - 1
    learned = f"{found.entry.name} learned from {nearest.device_id}" + (f" and {others} more." if others else ".")
    if nearest.device_id == device_id:
        return f"{learned} {found.reason}"
    return f"{nearest.reason} {learned}"


def _best(entries: Sequence[ModelEntry], device_id: str, arch: str | None) -> str:
    """Explains why the first of several models of a device was chosen."""
    kind = f"{arch} model" if arch else "model"
    if len(entries) == 1:
        return f"It is the only {kind} for {device_id} in the hubs here."
    if entries[0].top_1 is None:
        return f"No {kind} for {device_id} was evaluated on held-out workloads; this one is first by name."
    figures = ", ".join(f"{e.name} {'not evaluated' if e.top_1 is None else format(e.top_1, '.3f')}" for e in entries)
    return f"Of the {len(entries)} {kind}s for {device_id} it has the highest top_1 on held-out workloads ({figures})."


def _no_model_message(device: Device) -> str:
    near = nearest_device(device.row(), devices=load_devices())
    text = f"{device.device_id} is in the index but has no model yet."
    if near is None:
        return f"{text} Measure programs with `costhub collect` and train one with `costhub train`."
    what = "Such devices use" if near.device_id in STAND_INS.values() else "The nearest device with one is"
    return f"{text} {what} {near.device_id}: `costhub pull {near.device_id}` fetches it."
