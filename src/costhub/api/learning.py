"""Provides train and adapt: models that learn from data by name, or from programs in memory."""

from __future__ import annotations

import logging
import os
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeAlias

from costhub.api.measuring import check_limits
from costhub.api.models import own_model, read_model
from costhub.dataset.folder import DataFolder
from costhub.dataset.load import load_programs
from costhub.dataset.programs import Programs
from costhub.errors import DataError, ModelError
from costhub.hub.catalogue.devices import complete_device_row, device_rows
from costhub.hub.catalogue.find import AUTO, ResolvedModel, find_model, is_alike, measured_in, models_of_kind
from costhub.hub.data import find_data
from costhub.models.architectures import ARCHITECTURES
from costhub.models.protocol import CostModel
from costhub.models.train import STOP_SHARE, train_model

if TYPE_CHECKING:
    from costhub.transfer.adapt import Adaptation
    from costhub.transfer.methods.method import TransferMethod
    from costhub.transfer.stopping import BatchVerdict

log = logging.getLogger("costhub")

Where: TypeAlias = str | Path


def train(
    programs: Where | Programs | Sequence[Programs],
    arch: str,
    *,
    valid: Programs | float = STOP_SHARE,
    seed: int = 0,
    progress: bool = True,
    feature_spec: str | None = None,
    devices: Mapping[str, Mapping[str, Any]] | None = None,
    options: Mapping[str, object] | None = None,
    checkpoint: str | Path | None = None,
) -> CostModel:
    """Trains a model from scratch, from all workloads of data given by name; to hold some out, use `load_programs`.

    Args:
        programs: Programs of one or more devices to learn from; blocks of them (`costhub.open_programs`) if they do
            not fit in memory; or data of one device, as for `costhub.load_programs`.
        arch: The architecture, such as ``gbt``, ``mlp`` or ``blend``; `costhub train --help` lists them.
        valid: Decides when to stop: programs of other workloads, or the share of the workloads to hold out for this.
            0 trains for the full length. With blocks, no share is held out.
        seed: Equal seeds give equal models on one machine.
        progress: Show a progress bar on a terminal.
        feature_spec: Name and version of the layout of the rows; by default that of the programs, or, for data given
            by name, that of the architecture.
        devices: Rows of the devices table by id, for an architecture whose scores depend on what a device can do; by
            default what the data and the device index say. Required for blocks.
        options: Options of the architecture.
        checkpoint: Folder that keeps the progress of a long training run, from which the same call resumes.

    Returns:
        The fitted model.

    Raises:
        UnknownNameError: There is no such architecture, option, dataset or device.
        ModelError: An option cannot be used, or the checkpoint belongs to another training run.
        DataError: The data do not exist, or no workload has two programs with different latencies.

    Example:
        >>> train("amd-epyc-zen5-1c", "gbt").feature_spec  # doctest: +SKIP
        'tiles@1'
    """
    if isinstance(programs, str | os.PathLike):
        feature_spec = feature_spec or ARCHITECTURES.find(arch).default_spec
        target = _target(programs, None)
        devices = devices or {target.device_id: target.row}
        programs = target.read(feature_spec)
    elif devices is None and isinstance(programs, Programs):
        devices = {name: complete_device_row({"device_id": name}) for name in programs.device_ids}
    return train_model(
        programs,
        arch,
        valid=valid,
        seed=seed,
        progress=progress,
        feature_spec=feature_spec,
        devices=devices,
        options=options,
        checkpoint=checkpoint,
    )


def adapt(
    source: Where | CostModel,
    programs: Where | Programs,
    *,
    device: str | None = None,
    method: str | TransferMethod = "corrected",
    trials: int | None = None,
    seed: int = 0,
    source_programs: Programs | None = None,
    on_batch: Callable[[BatchVerdict], object] | None = None,
    progress: bool = True,
) -> Adaptation:
    """Adapts a model to another device, using a few hundred programs measured there.

    Args:
        source: A model for other devices, which is not changed; its name, address or folder, as for
            `costhub.load_model`; or `auto`, the model in the hubs that ranks some of the programs best.
        programs: What was measured on the target, in memory or as for `costhub.load_programs`.
        device: The target, if the data have several devices.
        method: How it learns: a name listed by `costhub adapt --list-options`, or a method with its own options.
        trials: How many programs to learn from (2 or more), a few from each workload in turn; all by default.
        seed: The only source of randomness.
        source_programs: Some of the programs that the source learned from, for methods that compare with it.
        on_batch: Called with what each batch showed.
        progress: Show a progress bar on a terminal.

    Returns:
        The model that ranked the target's programs best, and how it came about; `print` shows this as a table.

    Raises:
        UnknownNameError: There is no such method, model, dataset or device.
        DataError: The data do not exist, or no workload among the trials has two programs with different latencies.
        ModelError: The source cannot read the programs.
        ArgumentError: The source is neither a name nor a `CostModel`, or there are too few trials.

    Example:
        >>> found = adapt("nvidia-a100", "measurements", trials=256)  # doctest: +SKIP
        >>> found.model.predict_programs(programs)  # doctest: +SKIP
    """
    from costhub.transfer.adapt import Source
    from costhub.transfer.adapt import adapt as carry_over

    check_limits(trials, least=2)
    given = _given(source)
    target = _target(programs, device)
    if isinstance(given, CostModel):
        model, alike = target.bound(given), None
    elif given is not None:
        model, alike = target.bound(read_model(given)), target.is_like(given)
    else:
        model, alike = _best_source(target, seed)
    return carry_over(
        Source(model, source_programs, alike),
        target.read(model.feature_spec),
        method=method,
        trials=trials,
        seed=seed,
        on_batch=on_batch,
        progress=progress,
    )


def _given(source: Where | CostModel) -> CostModel | ResolvedModel | None:
    """A model of the caller's own, or what a name stands for; None for `auto`."""
    if not isinstance(source, str | os.PathLike):
        return own_model(source)
    return None if source == AUTO else find_model(os.fspath(source))


@dataclass(frozen=True)
class _Target:
    """A device, and the programs that were measured on it."""

    device_id: str
    row: Mapping[str, Any]
    programs: Programs | None
    """In memory; None if `folder` has them."""
    folder: Path

    def read(self, spec: str) -> Programs:
        """The programs with features of a spec."""
        return self.programs or load_programs(self.folder, device=self.device_id, spec=spec)

    def is_like(self, source: ResolvedModel) -> bool | None:
        """Whether a model learned from latencies like this device's; None if that is unknown."""
        # Programs in memory do not say whose code they ran; those of a device in the hubs were most likely read there.
        place = self.folder if self.programs is None else measured_in(self.device_id)
        return is_alike(source.entry, self.row, place)

    def bound(self, model: CostModel) -> CostModel:
        """A model for this device; the model itself if nothing is known about the device."""
        return model.bind(self.row) if self.row.get("kind") else model


def _target(programs: Where | Programs, device: str | None) -> _Target:
    if isinstance(programs, Programs):
        name = _only_device(programs, device)
        own = programs if device is None else programs.of_devices({device})
        return _Target(name, complete_device_row({"device_id": name}), own, Path())
    place = find_data(programs)
    name = device or place.device_id or DataFolder.open(place.folder).only_device(" with device=NAME.")
    return _Target(name, device_rows(place.path, [name])[name], None, place.folder)


def _only_device(programs: Programs, device: str | None) -> str:
    """The device given, or else the only one that the programs ran on; empty if they name none."""
    known = programs.measured_on
    if device is None and len(known) > 1:
        raise DataError(f"The programs ran on {len(known)} devices: {', '.join(known)}. Name one with device=NAME.")
    if device is not None and device not in known:
        raise DataError(
            f"None of the programs ran on {device!r}, only on {', '.join(known)}: give one of these as device=NAME."
            if known
            else f"The programs do not say which device they ran on, so {device!r} cannot be chosen: leave device= out."
        )
    return device or (known[0] if known else "")


def _best_source(target: _Target, seed: int) -> tuple[CostModel, bool | None]:
    """The model in the hubs that ranks some of the programs best, bound to the target, and whether they are alike."""
    from costhub.transfer.sources import rank_sources

    found = {each.entry.name: each for each in models_of_kind(target.row)}
    models = {name: target.bound(read_model(each)) for name, each in found.items()}
    if target.programs is not None:
        models = {name: model for name, model in models.items() if model.feature_spec == target.programs.spec}
        if not models:
            raise ModelError(
                f"No model in the hubs here reads {target.programs.spec or 'programs without a feature spec'}; give "
                "the data by name, or a model."
            )
    best, *_ = rank_sources(models, target.read, seed=seed, tell_apart=True)
    log.info("Source: %s. It ranks %.3f of the pairs in a sample of programs correctly.", best.name, best.pairwise)
    return models[best.name], target.is_like(found[best.name])
