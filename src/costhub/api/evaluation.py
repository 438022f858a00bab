"""Provides evaluate: how well a model ranks measured programs, each given by name or as an object."""

from __future__ import annotations

import logging
import os
from collections.abc import Mapping, Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol, TypeAlias

import numpy as np

from costhub.api.models import read_model, resolve_model
from costhub.dataset.features.specs import DEFAULT_SPEC
from costhub.dataset.folder import DataFolder, chosen_devices
from costhub.dataset.load import load_programs
from costhub.dataset.programs import FloatArray, IntArray, Programs, workload_uses
from costhub.dataset.splits.split import find_split
from costhub.errors import DataError, ModelError
from costhub.hub.catalogue.devices import complete_device_row, device_rows
from costhub.hub.catalogue.find import ResolvedModel
from costhub.hub.data import DataAddress, find_data
from costhub.models.evaluate import NOISE_FLOOR, Evaluation, by_network, by_operator, evaluate_blocks, network_top_k
from costhub.models.own_code import learned_from, name_of, scorer_given
from costhub.models.protocol import CostModel, Scores

if TYPE_CHECKING:
    from costhub.dataset.splits.split import Split

log = logging.getLogger("costhub")


class Ranker(Protocol):
    """Anything that can score programs: all that `evaluate` needs from a model."""

    def predict(self, rows: FloatArray, counts: IntArray, /) -> Any:
        """(n,) scores of programs; higher is faster.

        Args:
            rows: (r, d) feature rows of all programs, program after program; the object's `feature_spec` names their
                layout, which is `tiles@1` if it has none.
            counts: (n,) number of rows of each program.
        """


Data: TypeAlias = "str | Path | DataAddress | Programs | Sequence[Programs]"


def evaluate(
    model: str | Path | CostModel | Ranker,
    data: Data,
    *,
    device: str | Sequence[str] | None = None,
    split: str | Split | None = None,
    every: bool = False,
    noise_floor: float = NOISE_FLOOR,
) -> Evaluation:
    """Scores programs with a model and compares the scores with the measured latencies.

    Programs of different devices are never compared with one another; a model for many devices scores each
    program for the device that measured it.

    Args:
        model: A name, address or folder as for `costhub.load_model`; a model; FILE.py:NAME, MODULE:NAME or any
            object or class with `predict` (`Ranker`).
        data: Where the measurements are, as for `costhub.load_programs`; or programs, in memory or in blocks.
        device: Devices whose programs to use; not needed if the data or the split have only one.
        split: The split whose test workloads to use: its name in the data, its file, or a `Split`.
        every: Include workloads that the model has learned from. A good score on them does not mean a good model, so
            by default those that a model from a folder records are left out of data given by name. Programs given
            as objects are used as they are.
        noise_floor: Relative difference of throughput below which two programs count as equally fast.

    Returns:
        The figures; `print` shows them as a table.

    Raises:
        DataError: The data do not exist, the model has learned from all of the workloads, or no two programs of
            one workload differ by more than the noise.
        ModelError: The model cannot read these programs, or its own `predict` fails.
        ScoreError: A score is NaN or infinite.
        CosthubError: No model, device or split has this name, or FILE.py:NAME cannot be imported.

    Example:
        >>> print(evaluate("nvidia-h200", "nvidia-h200", split="workload-12-seed0"))  # doctest: +SKIP
        623 programs of 12 workloads on nvidia-h200
        top_1         0.968 ±0.016
        top_5         1.000 ±0.000
        pairwise      0.899 ±0.008
        spearman      0.928 ±0.010
    """
    choice = scorer_given(model) or resolve_model(str(model))
    if isinstance(data, str | os.PathLike | DataAddress):
        place = data if isinstance(data, DataAddress) else find_data(data)
        chosen, devices = find_measurements(place, device, split)  # before a model is named and loaded
        ranker = _loaded(model, choice)
        selected, learned = _selected(ranker, place, devices, chosen, every=every)
        rows = device_rows(place.path, selected.device_ids)
        found = evaluate_blocks([selected], partial(_scores, ranker, rows), noise_floor=noise_floor)
        return replace(found, learned=learned)
    ranker = _loaded(model, choice)
    # One block at a time: all of them may not fit into memory.
    blocks = (_given(block, device, split) for block in ([data] if isinstance(data, Programs) else data))
    return evaluate_blocks(blocks, partial(_scores_of_devices, ranker), noise_floor=noise_floor)


def _loaded(model: Any, choice: Any) -> Any:
    """The model that a name stands for, which is logged, or an object itself."""
    if isinstance(choice, ResolvedModel):
        log.info("Model %s (%s).", choice.entry.name or model, choice.entry.arch)
    elif isinstance(model, str):
        log.info("Model %s, from %s.", name_of(choice), model)
    return read_model(choice) if isinstance(choice, ResolvedModel) else choice


def find_measurements(
    place: DataAddress, device: str | Sequence[str] | None, split: str | Split | None
) -> tuple[Split | None, tuple[str, ...]]:
    """The split, and the devices that are named here, by the place or by the split; none of them means all.

    Raises:
        CosthubError: There is no such device or split, or the split does not test on one of the devices.
    """
    chosen = find_split(place.path, split) if isinstance(split, str) else split
    devices = _names(device) or ((place.device_id,) if place.device_id else ())
    folder = DataFolder.open(place.path)
    chosen_devices(folder, folder.device_ids(), devices)
    if chosen:
        devices = devices or chosen.test_devices
        for device_id in devices:
            chosen.check_device(device_id, "test")
    return chosen, devices


def _selected(
    model: CostModel | Ranker, place: DataAddress, devices: tuple[str, ...], split: Split | None, *, every: bool
) -> tuple[Programs, int]:
    """The programs of a data folder on which to evaluate a model, and how many workloads were left out as known."""
    folder = DataFolder.open(place.path)
    wanted = set(split.test) if split else set(folder.workloads()["workload_id"].to_pylist())
    trained_devices, known = learned_from(model, devices or folder.device_ids())
    learned: set[str] = set()
    if known and not every:
        # On devices that are new to the model, a workload it knows from another device is a fair test.
        is_new = split is not None and bool(split.test_devices) and set(trained_devices).isdisjoint(devices)
        learned = set() if is_new else wanted & known
        wanted -= learned
    if not wanted:
        is_adapted = getattr(getattr(model, "info", None), "base", None)
        base = ", or the model that it was adapted from," if is_adapted else ""
        raise DataError(
            f"{getattr(model, 'name', '') or 'The model'}{base} has learned from all of these workloads. Use --all "
            "(every=True in Python) to evaluate on them anyway."
        )
    spec = getattr(model, "feature_spec", DEFAULT_SPEC)
    if learned:  # --all brings in those that were measured.
        batches = folder.iter_measurements(devices or folder.device_ids(), ["workload_id"])
        learned &= {name for batch in batches for name in batch["workload_id"].unique().to_pylist()}
    return load_programs(place.path, device=devices or None, workloads=wanted, spec=spec), len(learned)


def _given(programs: Programs, device: str | Sequence[str] | None, split: str | Split | None) -> Programs:
    """The part of programs in memory on which to evaluate a model."""
    if isinstance(split, str):
        raise DataError(f"Programs have no split named {split!r}; load it with costhub.load_split, and pass that.")
    devices = _names(device) or (() if split is None else split.test_devices)
    if split is not None:
        for device_id in devices:
            split.check_device(device_id, "test")
    part = programs.of_devices(set(devices)) if devices else programs
    return part if split is None else part.of_workloads(set(split.test))


def _names(device: str | Sequence[str] | None) -> tuple[str, ...]:
    return (device,) if isinstance(device, str) else tuple(device or ())


def _scores_of_devices(model: CostModel | Ranker, programs: Programs) -> Scores:
    """(n,) scores of programs in memory, whose devices are looked up by name."""
    rows = {name: complete_device_row({"device_id": name}) for name in programs.device_ids}
    return _scores(model, rows, programs)


def _scores(model: CostModel | Ranker, rows: Mapping[str, Mapping[str, Any]], programs: Programs) -> Scores:
    """(n,) scores, each for the device of its program if it is known."""
    if not isinstance(model, CostModel):
        reads = getattr(model, "feature_spec", None)
        if reads and programs.spec and reads != programs.spec:
            raise ModelError(
                f"The model reads features of {reads}, and the programs hold those of {programs.spec}: load them with "
                f"spec={reads!r}."
            )
        found: Scores = model.predict(programs.rows, programs.counts)
        return found
    scores = np.zeros(programs.n)
    for number in np.unique(programs.device):
        row, own = rows.get(programs.device_ids[number], {}), programs.device == number
        bound = model.bind(row) if row.get("kind") else model
        scores[own] = bound.predict_programs(programs if own.all() else programs.select(own))
    return scores


def described_figures(evaluation: Evaluation, data: Path) -> dict[str, Any]:
    """The evaluation as JSON values, with the name and operator of every workload, as cards use it.

    Adds to `Evaluation.to_json`: `operators` and `networks`, the same figures by family and by network, and
    `variants`, the totals of the literature if the data name networks.
    """
    about = DataFolder.open(data).workloads(["workload_id", "name", "operator", "networks"])
    known: dict[str, Mapping[str, Any]] = {row["workload_id"]: row for row in about.to_pylist()}
    uses = workload_uses(about)
    figures = evaluation.to_json()
    for row in figures["workloads"]:
        found = known.get(row["workload_id"], {})
        row["workload"] = found.get("name") or row["workload_id"][:12]
        row["operator"] = found.get("operator")
        row["programs"] = row.pop("n")
    figures["workloads"].sort(key=lambda row: (row["operator"] or "", row["workload"], row["device_id"]))
    figures["operators"] = [
        {"operator": name, **_part_figures(part)} for name, part in by_operator(evaluation, uses).items()
    ]
    networks = {k: network_top_k(evaluation, uses, k=k) for k in (1, 5)}
    figures["networks"] = [
        {
            "network": name,
            **_part_figures(part),
            **{f"top_{k}_weighted": found.networks[name] for k, found in networks.items() if found},
        }
        for name, part in by_network(evaluation, uses).items()
    ]
    figures["variants"] = {
        f"top_{k}_{name}": getattr(found, name) for name in ("tenset", "tlp") for k, found in networks.items() if found
    }
    return figures


def _part_figures(part: Evaluation) -> dict[str, Any]:
    errors = part.to_json()["standard_errors"]
    return {
        "workloads": len(part.workloads),
        "programs": sum(row.n for row in part.workloads),
        **part.totals,
        "standard_errors": errors,
    }
