"""Provides train_model, which makes a fitted cost model from measured programs, and what its folder says about it."""

from __future__ import annotations

import datetime
import hashlib
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from costhub.dataset.features.per_store import PER_STORE
from costhub.dataset.programs import Programs
from costhub.dataset.splits.split import Split
from costhub.dataset.splits.split_rules import split_by_workload
from costhub.models.architectures import new_model
from costhub.models.info import ModelInfo
from costhub.models.protocol import CostModel
from costhub.versions import costhub_version, installed_versions

STOP_SHARE = 0.1
"""Share of the workloads held out by default to decide when to stop. Training on all of them afterwards, for the
length found best, or to full length from the start, ranked the H200's workloads no better."""


def train_model(
    programs: Programs | Sequence[Programs],
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
    """Trains a model from scratch.

    Args:
        programs: Programs of one or more devices to learn from, or blocks of them (`ProgramBlocks`) if they do
            not fit in memory.
        arch: A key of `ARCHITECTURES`.
        valid: Decides when to stop: programs of other workloads, or the share of the workloads to hold out for this.
            0 trains for the full length. With blocks, no share is held out.
        seed: Equal seeds give equal models on one machine.
        progress: Show a progress bar on a terminal.
        feature_spec: Name and version of the layout of the rows; by default that of the programs, or
            `per_store@1` if they name none.
        devices: Rows of the `devices` table by id, for an architecture whose scores depend on what a device can do.
        options: Options of the architecture, as in `new_model`.
        checkpoint: Folder in which an architecture that can resume keeps the progress of a long training run:
            after an interruption, the same call continues from there and ends with the same model. The folder
            may be removed afterwards.

    Returns:
        The fitted model.

    Raises:
        UnknownNameError: There is no such architecture or option.
        ModelError: An option cannot be used, or the checkpoint belongs to another training run.
        DataError: No workload has two programs with different latencies.

    Example:
        >>> rows = np.random.default_rng(0).normal(size=(32, 3)).astype(np.float32)
        >>> latency_s = np.exp(-rows[:, 0]).astype(np.float64)
        >>> programs = Programs(rows, np.ones(32, np.int64), np.zeros(32, np.int64), ("w",), latency_s)
        >>> train_model(programs, "gbt", progress=False, feature_spec="demo@1").arch
        'gbt'
    """
    first = programs if isinstance(programs, Programs) else next(iter(programs), None)
    spec = feature_spec or (first.spec if first is not None else "") or PER_STORE
    model = new_model(arch, feature_spec=spec, options=options)
    model.checkpoint = None if checkpoint is None else Path(checkpoint)
    model.add_devices(devices or {})
    held_out = valid if isinstance(valid, Programs) else None
    if not isinstance(programs, Programs):
        model.fit_blocks(programs, held_out, seed=seed, progress=progress)
        return model
    if not isinstance(valid, Programs):
        programs, held_out = programs.split_off(valid, seed=seed)
    model.fit(programs, held_out, seed=seed, progress=progress)
    return model


def hold_out(workload_rows: Sequence[Mapping[str, Any]], *, seed: int, share: float = 0.2) -> Split:
    """Holds out a share of the workloads, including at least one of every operator family that can spare one.

    Args:
        workload_rows: Rows with `workload_id` and `operator`.
        seed: Chooses the workloads within each family.
        share: The share of all workloads to test on.

    Returns:
        The split; nothing is held out if no family has two workloads.
    """
    families: dict[str, int] = {}
    for row in workload_rows:
        families[row["operator"]] = families.get(row["operator"], 0) + 1
    divisible = [size for size in families.values() if size > 1]
    most = sum(divisible) - len(divisible)
    if not most:
        return Split("none", tuple(sorted(row["workload_id"] for row in workload_rows)), (), seed)
    count = round(share * len(workload_rows))
    return split_by_workload(workload_rows, held_out=min(max(count, len(divisible)), most), seed=seed)


def describe_model(
    model: CostModel,
    train: Programs | Sequence[Programs],
    *,
    device_id: str,
    seed: int,
    licence: str,
    metrics: Mapping[str, float] | None = None,
    test_workloads: Sequence[str] = (),
) -> ModelInfo:
    """What a model's folder says about the model, with the current date and versions.

    `dataclasses.replace` adds what only some models have: `base`, `method`, `data_credit`, `train_devices`.

    Args:
        model: The fitted model.
        train: What it learned from, in one piece or in blocks, including the programs that decided when to stop.
        device_id: What it is for: the device that was measured, or the ids of several joined by `+`.
        seed: Seed of the training.
        licence: An SPDX name.
        metrics: Metric -> mean over the held-out workloads.
        test_workloads: Ids of the held-out workloads.
    """
    used: set[str] = set()
    digests: list[bytes] = []
    for part in [train] if isinstance(train, Programs) else train:
        used.update(part.workload_ids[i] for i in np.unique(part.workload))
        digests += _digests(part)
    return ModelInfo(
        arch=model.arch,
        feature_spec=model.feature_spec,
        device_id=device_id,
        data_hash=_hash_of(digests),
        data_rows=len(digests),
        seed=seed,
        versions={"costhub": costhub_version(), **installed_versions()},
        metrics=dict(metrics or {}),
        created=datetime.datetime.now(datetime.timezone.utc).isoformat(timespec="seconds"),
        licence=licence,
        train_workloads=tuple(sorted(used)),
        test_workloads=tuple(sorted(test_workloads)),
    )


def data_hash(programs: Programs) -> str:
    """sha256 of what a model learns from: workloads, latencies and features; their order does not matter.

    Example:
        >>> pair = Programs.from_list([np.ones((1, 2))] * 2, np.array([0, 0]), ("w",), np.array([1e-3, 2e-3]))
        >>> data_hash(pair) == data_hash(pair.select(np.array([1, 0])))
        True
    """
    return _hash_of(_digests(programs))


def _hash_of(digests: list[bytes]) -> str:
    return hashlib.sha256(b"".join(sorted(digests))).hexdigest()


def _digests(programs: Programs) -> list[bytes]:
    """One for each program."""
    ends = np.cumsum(programs.counts)
    return [
        hashlib.sha256(
            b"\0".join(
                [
                    programs.workload_ids[programs.workload[i]].encode(),
                    np.float64(programs.latency_s[i]).tobytes(),
                    programs.rows[ends[i] - programs.counts[i] : ends[i]].tobytes(),
                ]
            )
        ).digest()
        for i in range(programs.n)
    ]
