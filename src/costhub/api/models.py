"""Provides load_model, save_model, pull, ModelChoice and advise: models by name, bound to a device, and as folders."""

from __future__ import annotations

import os
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

from costhub.errors import ArgumentError, CosthubError
from costhub.hub.catalogue.devices import find_device
from costhub.hub.catalogue.find import AUTO, ResolvedModel, check_kind, choose_model, find_model, kinds_of
from costhub.hub.catalogue.names import parse_name, resolve_name
from costhub.hub.pull import pull_resolved, verified_folder

if TYPE_CHECKING:
    from costhub.collector.measurer import Measurer
    from costhub.dataset.programs import Programs
    from costhub.hub.catalogue.hubs import ModelEntry
    from costhub.hub.data import DataAddress
    from costhub.models.info import ModelInfo
    from costhub.models.protocol import CostModel


def save_model(
    model: CostModel,
    out: str | Path,
    programs: Programs | Sequence[Programs],
    *,
    device: str | None = None,
    seed: int = 0,
    licence: str = "Apache-2.0",
    test_workloads: Sequence[str] = (),
    data: str | Path | None = None,
) -> Path:
    """Writes a fitted model as a folder, which `costhub.load_model`, `costhub.tune` and ``--model`` take.

    `costhub train` writes such a folder with a model card and figures; a hub asks for both.

    Args:
        model: What `costhub.train` returned, the `model` of `costhub.adapt`, or a fitted `CostModel` of your own.
        out: The folder to create; an older model folder is replaced.
        programs: What the model learned from, in one piece or in blocks; the folder says which workloads.
        device: What the model is for; by default the devices of the programs.
        seed: Seed of the training.
        licence: Licence of the model, an SPDX name.
        test_workloads: Ids of the workloads that were held out.
        data: Where the programs are from, as for `costhub.load_programs`: the folder and its card then name who
            measured them, under which licence and, for data of a hub, the dataset and its revision; otherwise nobody.

    Returns:
        The folder.

    Raises:
        ModelError: The model is not fitted, or `out` holds something else.
        ArgumentError: `model` is not a `CostModel`, or neither `device` nor the programs name a device.
        DataError: `data` cannot be read, or does not have the devices of the programs.

    Example:
        >>> programs = costhub.load_programs("nvidia-h200")  # doctest: +SKIP
        >>> trained = costhub.train(programs, "gbt")  # doctest: +SKIP
        >>> costhub.save_model(trained, "my-model", programs, data="nvidia-h200")  # doctest: +SKIP
        PosixPath('my-model')
    """
    from costhub.dataset.programs import Programs
    from costhub.models import folder
    from costhub.models.train import describe_model

    parts = [programs] if isinstance(programs, Programs) else programs
    devices = sorted({name for part in parts for name in part.measured_on})
    device = device or "+".join(devices)
    if not device:
        raise ArgumentError("The programs do not say which device they ran on: name it, as device=...")
    info = describe_model(
        own_model(model), parts, device_id=device, seed=seed, licence=licence, test_workloads=test_workloads
    )
    if len(devices) > 1 or device not in devices:
        info = replace(info, train_devices=tuple(devices))
    if data is not None:
        from costhub.hub.data import find_data

        info = with_data(info, find_data(data), devices)
    return folder.save_model(model, out, info)


def with_data(info: ModelInfo, place: DataAddress, devices: Sequence[str]) -> ModelInfo:
    """A model's description, with who measured its data and, for data of a hub, the dataset and its revision.

    Args:
        info: The description; with figures, they are of the same dataset.
        place: Where the data are.
        devices: The devices that the model learned from.

    Raises:
        DataError: The data cannot be read, or lack one of the devices.
    """
    from costhub.hub.dataset_documents import folder_credit

    known = dataset_revision(place)
    credit = folder_credit(place.folder, devices)
    return replace(info, data_credit=credit, datasets=known, test_datasets=known if info.metrics else ())


def dataset_revision(place: DataAddress) -> tuple[str, ...]:
    """(ORG/NAME@REVISION,) for data of a hub, as models record what they were trained or tested on; else empty."""
    from costhub.hub.dataset_documents import tables_revision

    return () if place.dataset is None else (f"{place.dataset}@{tables_revision(place.folder)}",)


def pull(name: str = AUTO, *, arch: str | None = None, out: str | Path | None = None) -> Path:
    """Copies a model into the cache, or into `out`, and checks every byte of it.

    Args:
        name: `auto` for the best model for this machine (one for its own device, or any-cpu or any-gpu otherwise); a
            device or model name, `hf-hub:ORG/NAME@REVISION`, `local-dir:/PATH` or the path of a folder.
        arch: The architecture; by default that of the model with the best figures.
        out: The model folder to create; by default a folder in the cache.

    Returns:
        The model folder. An identical one that already exists is kept; a different one is never overwritten.

    Raises:
        CosthubError: One of its subclasses: the name is unknown, the device has no model, the files are damaged, or
            `out` holds something else.

    Example:
        >>> pull("nvidia-h200", arch="mlp").is_dir()
        True
    """
    return pull_resolved(resolve_model(name, arch=arch), out=out)


def resolve_model(name: str, *, arch: str | None = None) -> ResolvedModel:
    """The model that `name` stands for, with the reason; `auto` stands for the best one for this machine.

    Raises:
        CosthubError: As for `pull`.
    """
    if name != AUTO:
        return find_model(name, arch=arch)
    from costhub.collector.device.identity import identify

    return choose_model(AUTO, identify(), arch=arch)


def load_model(
    name: str | Path = AUTO, *, arch: str | None = None, device: str | Mapping[str, Any] = AUTO
) -> CostModel:
    """Loads a pretrained model, ready to score programs of a device.

    A model for many devices takes the device's figures as inputs and is bound to `device`. Other models score
    for the device that they learned from, wherever they are loaded. `latency_us` of the model estimates latencies on
    that device.

    Args:
        name: As for `pull`: `auto`, a device or model name, an address, or a model folder.
        arch: The architecture; by default that of the model with the best figures.
        device: The device to score for: an id of the device index, or a row of the devices table. `auto` stands for
            the device that `name` names; otherwise, for a model of one device, for that device, and for a model of
            many, for this machine's CPU (or, if the model is of another kind, for the model's own device).

    Returns:
        The model; its `info` says where it comes from, and `print` shows a summary of that.

    Raises:
        CosthubError: One of its subclasses: as for `pull`, there is no such device, or the model cannot score for it.

    Example:
        >>> model = load_model("nvidia-h200", arch="mlp")
        >>> print(model)  # doctest: +ELLIPSIS
        costhub/nvidia-h200-mlp: mlp model on tiles@1 for nvidia-h200
        learned from ... programs of ... workloads; on ... held-out workloads: top_1 0...
        >>> print(model.latency_us("matmul.512x512x512", progress=False))  # doctest: +ELLIPSIS
        nvidia-h200, search of 64 programs, 90 % intervals
        ...
    """
    from costhub.api.estimating.estimate import estimate

    row = _row_of(device)
    found = choose_model(os.fspath(name), row, arch=arch)
    if device == AUTO and os.fspath(name) != AUTO:
        device = _own_device(os.fspath(name), found.entry, row["kind"])
        known = find_device(device)
        row = known.row() if known else row
    model = _loaded(found, row)
    model.estimator = partial(estimate, device=device)
    return model


@dataclass(frozen=True)
class ChosenModel:
    """A model, ready to score for a device."""

    model: CostModel
    name: str
    reason: str
    """Why it was chosen; empty for a model of the caller's own."""
    devices: tuple[str, ...] = ()
    """The devices it is for; empty, since unknown, for a model of the caller's own."""

    @property
    def line(self) -> str:
        """The model and the first sentence of the reason, without the figures in it, for a terminal."""
        first = re.sub(r" \([^()]*\)(?=\.$)", "", re.split(r"(?<=\.) ", self.reason)[0])
        what = f"Model {self.name} ({self.model.arch})"
        return what + (first.removeprefix(self.name) if first.startswith(f"{self.name} ") else f". {first}".rstrip())

    @property
    def argument(self) -> str | ChosenModel:
        """What `call_text` takes for it: its name, or itself if the caller made it without one."""
        return self.name if self.model.name else self


class ModelChoice:
    """A model whose name is checked at once, and which is read once the device is known.

    Args:
        model: As for `load_model`, or a model of your own.
        arch: The architecture; by default that of the best model.
        allow_other_kind: Whether to accept a GPU model for a CPU, or the reverse.

    Raises:
        CosthubError: There is no such model, or one of your own is not a `CostModel`.
    """

    def __init__(
        self, model: str | Path | CostModel, arch: str | None = None, *, allow_other_kind: bool = False
    ) -> None:
        self._own: CostModel | None = None
        self._found: ResolvedModel | None = None
        self._arch, self._allow_other_kind = arch, allow_other_kind
        if not isinstance(model, str | os.PathLike):
            self._own = own_model(model)
        elif os.fspath(model) != AUTO:
            self._found = find_model(os.fspath(model), arch=arch)

    def check_local_kind(self, name: str) -> None:
        """Refuses a named GPU model for a CPU of this machine, and the reverse, before TVM is loaded.

        Args:
            name: Name of the device of this machine, or `auto`.

        Raises:
            ModelError: The model is for another kind of device, and that was not allowed.
        """
        if self._found is not None and not self._allow_other_kind:
            check_local_kind(self._found.entry, name)

    def for_device(self, row: Mapping[str, Any]) -> ChosenModel:
        """The model, bound to a device.

        Args:
            row: The device's row of the devices table.

        Raises:
            CosthubError: No device of this kind has a model, or the model cannot score for this one.
        """
        if self._own is not None:
            name = self._own.name or f"a {self._own.arch} model of your own"
            return ChosenModel(self._own.bind(_completed(row)), name, "")
        found = self._found or choose_model(AUTO, row, arch=self._arch)
        check_kind(found.entry, row["kind"], device=row["device_id"], allow=self._allow_other_kind)
        return ChosenModel(_loaded(found, row), found.entry.name, found.reason, found.entry.devices)


def own_model(model: object) -> CostModel:
    """A model that the caller made, if it can do more than score programs.

    Raises:
        ArgumentError: It is not a `CostModel`.
    """
    from costhub.models.protocol import CostModel

    if isinstance(model, CostModel):
        return model
    what = (
        f"The class {model.__name__}" if isinstance(model, type) else f"An object of the class {type(model).__name__}"
    )
    raise ArgumentError(
        f"{what} cannot be used as a model here. Give the name of a model, or an object whose class derives from "
        "costhub.models.protocol.CostModel; docs/testing.md shows a complete one. An object that has only `predict` "
        "can be evaluated, with costhub.evaluate."
    )


def _own_device(name: str, entry: ModelEntry, local_kind: str) -> str:
    """The device that a model is for when it is called by this name.

    Returns:
        One of many devices that it has learned from, if the name stands for that; `auto` for a model of many devices
        that suits this machine's CPU; otherwise the device of the model.
    """
    try:
        named = resolve_name(parse_name(name).name).device.device_id
    except CosthubError:  # a folder, or the name of the model itself
        named = entry.device_id
    if named in entry.trained_on:
        return named
    is_general = bool(entry.trained_on) and entry.device_id not in entry.trained_on
    return AUTO if is_general and local_kind in (kinds_of(entry) or (local_kind,)) else entry.device_id


def _loaded(found: ResolvedModel, row: Mapping[str, Any]) -> CostModel:
    model = read_model(found)
    bound = model.bind(_completed(row))
    bound.name, bound.info = model.name, model.info
    return bound


def read_model(found: ResolvedModel) -> CostModel:
    """Reads a model as it is in its folder, without binding it to another device.

    Raises:
        CosthubError: As for `load_model`.
    """
    from costhub.models.folder import load_model as read_folder

    model, info = read_folder(verified_folder(found))
    model.name, model.info = found.entry.name, info
    return model


def _completed(row: Mapping[str, Any]) -> dict[str, Any]:
    from costhub.hub.catalogue.devices import complete_device_row

    return complete_device_row(row)


def _row_of(device: str | Mapping[str, Any]) -> Mapping[str, Any]:
    """The row of a device of this machine or of the index; a row given as such is returned as it is."""
    if not isinstance(device, str):
        return device
    if device != AUTO:
        from costhub.hub.catalogue.names import resolve_device

        return resolve_device(device).row()
    from costhub.collector.device.identity import identify

    return identify()


def check_local_kind(entry: ModelEntry, name: str) -> None:
    """Refuses a GPU model for a CPU of this machine, and the reverse, before TVM is loaded.

    Args:
        entry: The model.
        name: Name of the device of this machine, or `auto`.

    Raises:
        ModelError: The model is for another kind of device.
    """
    from costhub.collector.device.identity import identify
    from costhub.collector.device.local import local_kind

    kind = local_kind(name)
    if kind is not None:
        check_kind(entry, kind, device=str(identify()["device_id"]) if name == AUTO else name)


def advise(model: ChosenModel, measurer: Measurer) -> list[str]:
    """Says how to give the model this device's figures, and how to make a model for the device.

    Says nothing for boards, which are probed on the board itself, or for a device that the model is for.
    """
    from costhub.collector.device.local import limits_of, probe_command
    from costhub.hub.catalogue.devices import complete_device_row, find_device, knows_instructions

    device_id = str(measurer.device["device_id"])
    if measurer.boards is not None or device_id in model.devices or not model.devices:
        return []
    sentences = []
    if complete_device_row(measurer.device).get("peak_gflops") is None:
        sentences.append(
            f"{device_id} has not been probed, so models that use a device's figures get the average of others: run "
            f"`{probe_command(measurer.device)}` (25 s) once."
        )
    parts = [name for name in model.devices if limits_of(name)] if measurer.device["kind"] == "cpu" else []
    if len(model.devices) == len(parts) == 1:
        sentences.append(
            f"{model.name} is a model for {parts[0]}, a part of this machine, and this search is for {device_id}: "
            f"`--device {parts[0]}` tunes for the model's device, `--model auto` takes the best model for this one."
        )
    elif any(find_device(name) for name in model.devices) and not knows_instructions(model.devices, measurer.device):
        sentences.append(
            f"No model here has learned from {device_id} or its instruction set: "
            f"`costhub adapt auto --device {device_id} --out my-model/` makes one from measurements, and "
            "`--model my-model/` uses it."
        )
    elif sentences and not parts and measurer.device["kind"] == "cpu":
        sentences.append(
            f"This model has learned from other CPUs with {device_id}'s instruction set; a model for it alone would "
            f"hardly be better. To make one anyway: `costhub adapt auto --device {device_id} --out my-model/`, then "
            "`costhub tune ... --model my-model/`."
        )
    return sentences
