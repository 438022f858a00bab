"""Provides train_model: a fitted cost model from measured programs."""

from __future__ import annotations

import datetime
import hashlib
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from costhub.dataset.features.per_store import PER_STORE
from costhub.dataset.programs import Programs
from costhub.dataset.splits.split import Split
from costhub.dataset.splits.split_rules import split_by_workload
from costhub.models.architectures import ARCHITECTURES, new_model
from costhub.models.info import ModelInfo
from costhub.models.protocol import CostModel
from costhub.versions import costhub_version, installed_versions

__all__ = ["ARCHITECTURES", "data_hash", "describe_model", "hold_out", "train_model"]


def train_model(
    programs: Programs,
    arch: str,
    *,
    valid: Programs | None = None,
    seed: int = 0,
    progress: bool = True,
    feature_spec: str | None = None,
) -> CostModel:
    """Trains a model from scratch.

    Args:
        programs: Programs of one device to learn from.
        arch: A key of `ARCHITECTURES`.
        valid: Programs of other workloads that tell when to stop; without them training runs its full length.
        seed: Equal seeds give equal models on one machine.
        progress: Show a progress bar on a terminal.
        feature_spec: Name and version of the layout of the rows; by default that of the programs, or
            `per_store@1` where they name none.

    Returns:
        The fitted model.

    Raises:
        UnknownNameError: There is no such architecture.
        DataError: No workload has two programs of different latency.

    Example:
        >>> rows = np.random.default_rng(0).normal(size=(32, 3)).astype(np.float32)
        >>> latency_s = np.exp(-rows[:, 0]).astype(np.float64)
        >>> programs = Programs(rows, np.ones(32, np.int64), np.zeros(32, np.int64), ("w",), latency_s)
        >>> train_model(programs, "gbt", progress=False, feature_spec="demo@1").arch
        'gbt'
    """
    model = new_model(arch, feature_spec=feature_spec or programs.spec or PER_STORE)
    model.fit(programs, valid, seed=seed, progress=progress)
    return model


def hold_out(workload_rows: Sequence[Mapping[str, Any]], *, seed: int, share: float = 0.2) -> Split:
    """Holds out a share of the workloads, and at least one of every operator family that can spare one.

    Args:
        workload_rows: Rows with `workload_id` and `operator`.
        seed: Chooses the workloads within each family.
        share: Of all workloads, to be tested on.

    Returns:
        The split; nothing is held out where no family has two workloads.
    """
    families: dict[str, int] = {}
    for row in workload_rows:
        families[row["operator"]] = families.get(row["operator"], 0) + 1
    able = [size for size in families.values() if size > 1]
    most = sum(able) - len(able)
    if not most:
        return Split("none", tuple(sorted(row["workload_id"] for row in workload_rows)), (), seed)
    wanted = round(share * len(workload_rows))
    return split_by_workload(workload_rows, held_out=min(max(wanted, len(able)), most), seed=seed)


def describe_model(
    model: CostModel,
    train: Programs,
    *,
    device_id: str,
    seed: int,
    licence: str,
    metrics: Mapping[str, float] | None = None,
    test_workloads: Sequence[str] = (),
    base: str | None = None,
) -> ModelInfo:
    """What the folder of a model says about it; date and versions are those of now.

    Args:
        model: The fitted model.
        train: What it learned from, programs that told when to stop included.
        device_id: The device that was measured.
        seed: Of the training.
        licence: An SPDX name.
        metrics: Metric -> mean over the held-out workloads.
        test_workloads: Their ids.
        base: The model it was continued from.
    """
    return ModelInfo(
        arch=model.arch,
        feature_spec=model.feature_spec,
        device_id=device_id,
        data_hash=data_hash(train),
        data_rows=train.n,
        seed=seed,
        versions={"costhub": costhub_version(), **installed_versions()},
        metrics=dict(metrics or {}),
        created=datetime.datetime.now(datetime.timezone.utc).isoformat(timespec="seconds"),
        licence=licence,
        base=base,
        train_workloads=tuple(sorted(train.workload_ids[i] for i in np.unique(train.workload))),
        test_workloads=tuple(sorted(test_workloads)),
    )


def data_hash(programs: Programs) -> str:
    """sha256 of what a model learns from: workloads, latencies and features; their order does not matter.

    Example:
        >>> pair = Programs.from_list([np.ones((1, 2))] * 2, np.array([0, 0]), ("w",), np.array([1e-3, 2e-3]))
        >>> data_hash(pair) == data_hash(pair.select(np.array([1, 0])))
        True
    """
    ends = np.cumsum(programs.counts)
    digests = sorted(
        hashlib.sha256(
            b"\0".join([
                programs.workload_ids[programs.workload[i]].encode(),
                np.float64(programs.latency_s[i]).tobytes(),
                programs.rows[ends[i] - programs.counts[i] : ends[i]].tobytes(),
            ])
        ).digest()
        for i in range(programs.n)
    )  # fmt: skip
    return hashlib.sha256(b"".join(digests)).hexdigest()
