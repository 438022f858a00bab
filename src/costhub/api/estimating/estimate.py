"""Provides estimate: how long a kernel or network takes on a device once a search has found its programs."""

from __future__ import annotations

import json
import math
import tempfile
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import lru_cache
from pathlib import Path
from typing import TYPE_CHECKING, Any

from costhub.api.compile_inputs import check_llvm, data_folders, own_folders, refuse_llvm_options, refuse_unprintable
from costhub.api.estimating.result import MEASURED, PREDICTED, Estimate, KernelEstimate, NetworkEstimate
from costhub.api.network_jobs import check_lowering, network_jobs, no_kernels_error
from costhub.api.subjects import Subjects, read_subjects
from costhub.errors import ArgumentError, DeviceError
from costhub.hub.catalogue.devices import (
    OF_A_FILE,
    Device,
    complete_device_row,
    is_device_file,
    load_devices,
    read_device,
)
from costhub.hub.catalogue.hubs import hub_roots
from costhub.hub.catalogue.names import resolve_device
from costhub.hub.remote.manifest import verify
from costhub.progress import bar

if TYPE_CHECKING:
    from costhub.collector.workloads.network_source import Lowering
    from costhub.models.latency.pools import Pool
    from costhub.models.latency.predictor import LatencyPredictor
    from costhub.models.latency.residuals import Uncertain
    from costhub.search.options import Job

PREDICTOR = Path("predictors") / "costhub" / "latency"
"""Place of the predictor in a hub."""
TRIALS = 64
MOST_TRIALS = 100_000
FEWEST_PROGRAMS = 8
"""Of fewer measured programs, the best one is no more than a bound of what a search finds."""
_GENERIC = {"kind": "llvm", "mtriple": "x86_64-linux-gnu", "num-cores": 1}
"""The target for which networks are split if a device's row has none. In torch's layouts, no kernel depends on it."""


@dataclass(frozen=True)
class _Setting:
    """What the figures of all kernels have in common."""

    predictor: LatencyPredictor
    device: Mapping[str, Any]
    folders: tuple[Path, ...]
    trials: int
    interval: float


def estimate(
    what: Any,
    device: str | Path | Mapping[str, Any] = "auto",
    *,
    trials: int = TRIALS,
    interval: float = 0.9,
    data: Sequence[str | Path] = (),
    fast_math: bool = False,
    predictor: str | Path | LatencyPredictor = "auto",
    progress: bool = True,
) -> Estimate:
    """Estimates how long workloads or whole networks take on a device after a search; nothing is measured.

    A kernel of which a hub has measured at least `FEWEST_PROGRAMS` programs on this very device gets the latency of the
    best one. All others are predicted from figures of the workload and the device, by trees that learned from the best
    programs of the hub; no prediction is slower than a program that was measured.
    Networks are split into kernels in torch's layouts, and the latencies of the kernels are added up.

    Args:
        what: As for `costhub.tune`.
        device: A name from `costhub devices`, `auto` for this machine's CPU, or a row as `costhub probe --json` prints
            it: a mapping, JSON, or a file.
        trials: How many programs the search measures, as assumed for predicted kernels.
        interval: The share of figures that should lie between `low_us` and `high_us`.
        data: Measurements of your own, in addition to those of the hubs on this machine.
        fast_math: Whether networks use polynomials for exp, tanh and erf.
        predictor: The folder of another predictor, or a loaded one; by default that of the hubs.
        progress: Show a progress bar on a terminal.

    Raises:
        CosthubError: One of its subclasses: there is no such workload, network, device or file, the device's peak and
            bandwidth are not known, or the predictor is damaged.

    Example:
        >>> found = estimate("resnet18.c7", "amd-epyc-zen5-2c", progress=False)
        >>> found.kernels[0].source
        'measured'
    """
    from costhub.collector.workloads.network_source import PLAIN, Lowering
    from costhub.models.latency.inputs import BORROWED_FROM

    _check(trials, interval)
    with tempfile.TemporaryDirectory(prefix="costhub-estimate-") as folder:
        subjects = read_subjects(what, Path(folder))
        subjects.check()
        lowering = Lowering(fast_math, PLAIN)
        check_lowering(subjects.networks, lowering)
        folders = tuple(data_folders(own_folders(data)))  # before TVM is loaded
        row, target = find_row(device)
        setting = _Setting(_loaded(predictor), row, folders, trials, interval)
        single, networks = _jobs(subjects, target, lowering)
    with bar(
        len(single) + sum(map(len, networks.values())), desc="estimating", unit="kernel", enabled=progress
    ) as shown:
        kernels, _ = _kernels(single, setting, shown)
        wholes = tuple(_network(name, *_kernels(jobs, setting, shown), setting) for name, jobs in networks.items())
    is_new = row["device_id"] not in setting.predictor.devices
    return Estimate(str(row["device_id"]), trials, interval, kernels, wholes, is_new, figures_of=row.get(BORROWED_FROM))


def _check(trials: int, interval: float) -> None:
    if not 1 <= trials <= MOST_TRIALS:
        raise ArgumentError(f"A search has 1 to {MOST_TRIALS:,} trials, got {trials}.")
    if not 0 < interval < 1:
        raise ArgumentError(f"An interval is a share between 0 and 1 such as 0.9, got {interval}.")


def _loaded(predictor: str | Path | LatencyPredictor) -> LatencyPredictor:
    if not isinstance(predictor, str | Path):
        return predictor
    if predictor == "auto":
        return load_predictor()
    from costhub.models.latency.predictor import LatencyPredictor

    return LatencyPredictor.load(Path(predictor))


def load_predictor() -> LatencyPredictor:
    """The latency predictor of the hubs on this machine; its files are checked against their hashes.

    Raises:
        ModelError: It is damaged.
    """
    places = [root.path / PREDICTOR for root in hub_roots()]
    folder = next((place for place in places if place.is_dir()), places[-1])
    return _read(folder, verify(folder).revision)


@lru_cache(maxsize=2)
def _read(folder: Path, revision: str | None) -> LatencyPredictor:
    from costhub.models.latency.predictor import LatencyPredictor

    return LatencyPredictor.load(folder)


def find_row(device: str | Path | Mapping[str, Any]) -> tuple[dict[str, Any], dict[str, Any] | None]:
    """The row of a device with the figures that predictions need, and its TVM target if known.

    Args:
        device: As for `estimate`.

    Raises:
        CosthubError: No device has that name, the file holds no row, or its figures are not known.
    """
    from costhub.collector.device.local import find_local, limits_of
    from costhub.models.latency.inputs import device_figures

    from_caller = True
    if isinstance(device, Mapping):
        row = Device.from_row(device).row()
    elif isinstance(device, Path) or device.lstrip().startswith("{") or is_device_file(device):
        row = read_device(device).row()
    elif device in ("auto", "cuda") or limits_of(device):
        (local,) = find_local([device])
        row, from_caller = {**complete_device_row(local.row), "target": json.dumps(local.target)}, False
    else:
        row, from_caller = resolve_device(device, advice=OF_A_FILE).row(), False
    figures = device_figures(row, {each.device_id: each.row() for each in load_devices()})
    target = _target_of(row)
    if from_caller and target is not None and target.get("kind") == "llvm":
        refuse_llvm_options(target, str(row["device_id"]))
        refuse_unprintable(target)
        check_llvm(target, advice=f"The row of {row['device_id']} has it in its target.")
    return figures, target


def _target_of(row: Mapping[str, Any]) -> dict[str, Any] | None:
    """The TVM target in a row of the devices table; None if it has none.

    Raises:
        DeviceError: It is not a target.
    """
    if not row.get("target"):
        return None
    try:
        target = json.loads(row["target"])
    except (ValueError, TypeError, RecursionError):
        target = None
    if not isinstance(target, dict):
        raise DeviceError(f"The target {row['target']!r:.99} of {row['device_id']} is not a TVM target in JSON.")
    return target


def _jobs(
    subjects: Subjects, target: dict[str, Any] | None, lowering: Lowering
) -> tuple[list[Job], dict[str, list[Job]]]:
    """The single workloads, and the kernels of each network."""
    from costhub.collector.workloads.network_kernels import name_networks

    text = json.dumps(target or _GENERIC)
    named = name_networks(subjects.networks)
    found = {label: network_jobs([name], text, lowering) for label, name in named.items()}
    if empty := [label for label, jobs in found.items() if not jobs]:
        raise no_kernels_error(empty, "estimated")
    return subjects.jobs(), found


def _kernels(
    jobs: Sequence[Job], setting: _Setting, shown: Any
) -> tuple[tuple[KernelEstimate, ...], tuple[Uncertain, ...]]:
    from costhub.dataset.operator_class import classify
    from costhub.dataset.workload import workload_id
    from costhub.models.latency.residuals import MEASURED as OF_ANOTHER_SEARCH

    ids = [workload_id(job.mod) for job in jobs]
    pools = _pools(set(ids), setting)
    kernels, figures = [], []
    for job, identity in zip(jobs, ids, strict=True):
        operator, pool = classify(job.mod), pools.get(identity)
        figure = _figure(job, operator, pool, setting)
        low, high = setting.predictor.residuals.interval(figure, setting.interval)
        is_measured = figure.case == OF_ANOTHER_SEARCH
        source, programs = (MEASURED, len(pool.latency_s)) if pool and is_measured else (PREDICTED, None)
        kernels.append(
            KernelEstimate(job.name, identity, operator, float(job.weight), figure.us, low, high, source, programs)
        )
        figures.append(figure)
        shown.update(1)
    return tuple(kernels), tuple(figures)


def _figure(job: Job, operator: str, pool: Pool | None, setting: _Setting) -> Uncertain:
    """The best latency measured, or else a prediction."""
    from costhub.dataset.workload_numbers import workload_numbers
    from costhub.models.latency.pools import family
    from costhub.models.latency.residuals import MEASURED as OF_ANOTHER_SEARCH
    from costhub.models.latency.residuals import Uncertain

    best_log_us = math.inf if pool is None else math.log(pool.best_s * 1e6)
    if pool is not None and len(pool.latency_s) >= FEWEST_PROGRAMS:
        return Uncertain(best_log_us, OF_ANOTHER_SEARCH, family(setting.device["kind"]), operator)
    found = setting.predictor.predict(workload_numbers(job.mod), operator, setting.device, trials=setting.trials)
    return replace(found, log_us=min(found.log_us, best_log_us))


def _pools(ids: set[str], setting: _Setting) -> dict[str, Pool]:
    """The data folders' programs of some workloads on the device; if several have one, those of the largest pool."""
    from costhub.dataset.folder import DataFolder
    from costhub.models.latency.pools import read_pools

    name, found = str(setting.device["device_id"]), dict[str, "Pool"]()
    for folder in map(DataFolder.open, setting.folders if ids else ()):
        if name in folder.device_ids():
            for pool in read_pools(folder, name, setting.device["kind"], workloads=ids):
                if len(pool.latency_s) > len(getattr(found.get(pool.workload_id), "latency_s", ())):
                    found[pool.workload_id] = pool
    return found


def _network(
    name: str, kernels: tuple[KernelEstimate, ...], figures: tuple[Uncertain, ...], setting: _Setting
) -> NetworkEstimate:
    """Adds up kernels; the interval is that of the sum, over draws in which kernels are off together."""
    import numpy as np

    from costhub.models.latency.pools import CPU, family

    calls = np.array([kernel.calls for kernel in kernels])
    total = sum(kernel.calls * kernel.latency_us for kernel in kernels)
    draws = calls @ setting.predictor.residuals.draws(figures)
    shares = setting.predictor.rest_shares if family(setting.device["kind"]) == CPU else ()
    if shares:
        places = np.random.default_rng(1).uniform(size=draws.shape)
        draws = draws * (1 + np.quantile(shares, places))
    rest = total * float(np.median(shares)) if shares else None
    low, high = np.quantile(draws, [(1 - setting.interval) / 2, (1 + setting.interval) / 2])
    whole = total + (rest or 0.0)
    return NetworkEstimate(name, kernels, total, rest, min(float(low), whole), max(float(high), whole))
