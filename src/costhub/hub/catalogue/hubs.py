"""Provides the hubs on this machine, and the models and datasets in them; none of them is loaded."""

from __future__ import annotations

import json
import math
import os
import statistics
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path
from typing import Any

from costhub.errors import CosthubError, ModelError
from costhub.files import as_number, read_regular
from costhub.hub.remote.address import AddressError, expanded
from costhub.hub.remote.manifest import MANIFEST, Manifest, read_manifest, scan
from costhub.names import is_plain_name

EMBEDDED = Path(__file__).parents[1] / "embedded"
"""The hub shipped in the package."""

HUB_VARIABLE = "COSTHUB_HUB"
CONFIG = "config.json"
EVALUATION = "evaluation.json"
CONDITIONED = "conditioned"
"""The architecture of models that take the device as an input."""
MAX_CONFIG_BYTES = 16 << 20
"""The configuration of a tree model may contain its scaler and splits, and its figures one row per workload."""


@dataclass(frozen=True)
class HubRoot:
    """A folder laid out as `{models,datasets}/<org>/<name>/`, with a `devices.json`."""

    path: Path
    label: str
    """Its readable name."""

    @property
    def devices_file(self) -> Path:
        """Its device index; a shared folder may lack one."""
        return self.path / "devices.json"


def hub_roots() -> tuple[HubRoot, ...]:
    """The hubs to search: the shared folder named by $COSTHUB_HUB, then the embedded one.

    Raises:
        AddressError: $COSTHUB_HUB does not name a folder.
    """
    embedded = embedded_root()
    shared = os.environ.get(HUB_VARIABLE)
    if not shared:
        return (embedded,)
    path = expanded(shared)
    if not path.is_dir():
        raise AddressError(f"{HUB_VARIABLE} names {path}, which is not a folder. Set it to a hub folder, or unset it.")
    return (HubRoot(path, f"the hub {path}"), embedded)


def hubs_searched() -> str:
    """A sentence for messages about names that no hub has, on where else they could come from.

    Raises:
        AddressError: As for `hub_roots`.
    """
    shared, *embedded = hub_roots()
    if embedded:
        return f"{HUB_VARIABLE} names {shared.path}, which was searched too."
    return f"{HUB_VARIABLE} can name the folder of a further hub to search."


def embedded_root() -> HubRoot:
    """The hub shipped in the package."""
    return HubRoot(EMBEDDED, "the embedded hub")


def folder_root(path: str | Path) -> HubRoot:
    """Makes a hub from its folder.

    Raises:
        AddressError: It is not a hub: it has no models, no datasets and no device index.
    """
    root = HubRoot(Path(path), f"the hub {path}")
    if not (root.devices_file.is_file() or any((root.path / kind).is_dir() for kind in ("models", "datasets"))):
        raise AddressError(
            f"{path} is not the folder of a hub, which has models/ORG/NAME, datasets/ORG/NAME or a devices.json."
        )
    return root


@dataclass(frozen=True)
class ModelEntry:
    """A model folder in a hub."""

    name: str
    """ORG/NAME; `local/NAME` for a folder outside the hubs."""
    folder: Path
    device_id: str
    arch: str
    top_1: float | None
    """Top-1 figure on held-out workloads: the mean over its devices, or that of one device; None if it was not
    evaluated."""
    origin: str
    """Readable name of the hub that holds it."""
    trained_on: tuple[str, ...] = ()
    """Devices that a conditioned model was trained on."""
    is_published: bool = True
    """Whether it comes from a hub, where every folder has a manifest."""

    @property
    def devices(self) -> tuple[str, ...]:
        """All devices that it is for."""
        return self.device_id, *self.trained_on

    @property
    def has_manifest(self) -> bool:
        """False for a new folder that was never published."""
        return self.is_published or (self.folder / MANIFEST).exists()

    @cached_property
    def manifest(self) -> Manifest:
        """The expected contents of its files, read once; without a manifest, their current contents.

        Raises:
            ModelError: The manifest cannot be used, or is missing from a hub.
        """
        return read_manifest(self.folder) if self.has_manifest else scan(self.folder)


def list_models() -> tuple[ModelEntry, ...]:
    """Lists the models of all hubs, best first.

    A model in the shared hub hides one of the same ORG/NAME in the embedded hub.
    A folder that is not a model is left out (see `unreadable_models`): one bad folder must not hide the others.
    """
    entries: dict[str, ModelEntry] = {}
    for entry in _scan_models():
        if isinstance(entry, ModelEntry):
            entries.setdefault(entry.name, entry)
    return _best_first(entries.values())


def models_for(device_id: str, entries: Iterable[ModelEntry] | None = None) -> tuple[ModelEntry, ...]:
    """Lists the models for one device with their figures on it, best first.

    Args:
        device_id: The device.
        entries: The models to choose from; by default those of all hubs.
    """
    candidates = list_models() if entries is None else entries
    return _best_first(_with_figure_on(entry, device_id) for entry in candidates if device_id in entry.devices)


def _best_first(entries: Iterable[ModelEntry]) -> tuple[ModelEntry, ...]:
    return tuple(sorted(entries, key=lambda e: (e.top_1 is None, -(e.top_1 or 0.0), e.name)))


def _with_figure_on(entry: ModelEntry, device_id: str) -> ModelEntry:
    """The entry with its figure on one of its devices, which is more informative than the mean over all of them."""
    figure = _top_1_on(entry.folder, device_id) if device_id in entry.trained_on else None
    return entry if figure is None else replace(entry, top_1=figure)


def _top_1_on(folder: Path, device_id: str) -> float | None:
    """The mean over the held-out workloads of a device; None without a readable file."""
    try:
        rows = json.loads(read_regular(folder / EVALUATION, limit=MAX_CONFIG_BYTES))["workloads"]
        mean = statistics.fmean(float(row["top_1"]) for row in rows if row["device_id"] == device_id)
    except (CosthubError, ValueError, TypeError, LookupError, RecursionError):
        return None
    return mean if math.isfinite(mean) else None


def unreadable_models() -> tuple[str, ...]:
    """A sentence for each folder among the models that is not a model."""
    return tuple(str(entry) for entry in _scan_models() if isinstance(entry, ModelError))


def dataset_folders() -> dict[str, Path]:
    """ORG/NAME -> folder of the datasets of all hubs, with those in the shared hub first."""
    return named_folders(hub_roots(), "datasets")


def named_folders(roots: Iterable[HubRoot], kind: str) -> dict[str, Path]:
    """ORG/NAME -> folder for some hubs; if two share a name, the one in the earlier hub.

    Args:
        roots: The hubs.
        kind: `models` or `datasets`.
    """
    folders: dict[str, Path] = {}
    for root in roots:
        for folder in folders_in(root, kind):
            folders.setdefault(f"{folder.parent.name}/{folder.name}", folder)
    return folders


def list_datasets(device_id: str, folders: Mapping[str, Path] | None = None) -> tuple[str, ...]:
    """ORG/NAME of the datasets that hold measurements of the device; see `folders_with`."""
    return tuple(sorted(folders_with(device_id, folders)))


def folders_with(device_id: str, folders: Mapping[str, Path] | None = None) -> dict[str, Path]:
    """ORG/NAME -> folder of the datasets with measurements of the device, with those in the shared hub first.

    Args:
        device_id: The device.
        folders: The datasets to choose from; by default those of all hubs.
    """
    found = (dataset_folders() if folders is None else folders).items()
    return {name: folder for name, folder in found if (folder / "measurements" / device_id).is_dir()}


def read_entry(folder: Path, *, name: str, origin: str) -> ModelEntry:
    """Reads the device and architecture of a model from its configuration.

    Raises:
        ModelError: The folder does not hold the configuration of a model.
    """
    config = read_config(folder)
    device_id, arch, top_1 = config["device_id"], config["arch"], held_out_top_1(config)
    return ModelEntry(name, folder, device_id, arch, top_1, origin, training_devices(config))


def read_config(folder: Path) -> dict[str, Any]:
    """Reads `config.json` of a model folder, and checks that it names an architecture and a device.

    Raises:
        ModelError: It is missing, not a regular file, too large, not JSON, or lacks one of the two.
    """
    path = folder / CONFIG
    if not os.path.lexists(path):
        raise ModelError(f"{folder} is not a model folder: it holds no {CONFIG}.")
    try:
        config = json.loads(read_regular(path, limit=MAX_CONFIG_BYTES, error=ModelError))
    except (ValueError, RecursionError) as error:
        raise ModelError(f"{path} is not JSON ({error}); the model cannot be read.") from error
    # Both become parts of paths, so only plain names are allowed.
    if not isinstance(config, dict) or not all(is_plain_name(config.get(key)) for key in ("arch", "device_id")):
        raise ModelError(
            f"{path} does not say which architecture and device the model is for; expected arch, device_id."
        )
    return config


def training_devices(config: Mapping[str, Any]) -> tuple[str, ...]:
    """The devices that a conditioned model was trained on; empty for other models."""
    devices = config.get("train_devices")
    if config["arch"] != CONDITIONED or not isinstance(devices, list):
        return ()
    return tuple(name for name in devices if is_plain_name(name))


def held_out_top_1(config: Mapping[str, Any]) -> float | None:
    """The top-1 figure that the configuration of a model records, if it is a finite number, or None."""
    metrics = config.get("metrics")
    return as_number(metrics.get("top_1")) if isinstance(metrics, Mapping) else None


def _scan_models() -> Iterator[ModelEntry | ModelError]:
    for root in hub_roots():
        for folder in folders_in(root, "models"):
            try:
                yield read_entry(folder, name=f"{folder.parent.name}/{folder.name}", origin=root.label)
            except ModelError as error:
                yield error


def folders_in(root: HubRoot, kind: str) -> Iterator[Path]:
    """The folders ORG/NAME of one hub, in order.

    Args:
        root: The hub.
        kind: `models` or `datasets`.
    """
    base = root.path / kind
    if base.is_dir():
        yield from sorted(p for p in base.glob("*/*") if p.is_dir() and not p.name.startswith("."))
