"""One row of a comparison of models: fitted, timed, weighed and evaluated."""

from __future__ import annotations

import dataclasses
import datetime
import os
import tempfile
import time
from pathlib import Path
from typing import Any

import numpy as np

from costhub.dataset.folder import DataFolder
from costhub.dataset.programs import Programs
from costhub.models.compound.conditioned import Conditioned
from costhub.models.evaluate import evaluate_scores
from scripts.bench.common.data import SplitPart
from scripts.bench.models.baselines import TensetMlp, TvmXgb
from scripts.bench.models.grid import BASELINES, CEILING, RANDOM, TWO_PASSES, GridEntry
from scripts.bench.models.noise_ceiling import gap_noise, noise_ceiling, repeat_noise
from scripts.bench.models.tasks import DeviceData

SCORED = 2048
"""Programs scored at once for the rate, as many as a search scores."""
KEY = ("dataset", "device", "split", "fold", "seed", "model", "objective", "spec", "variant", "also")
"""The keys that identify a row."""


def key_of(source: DeviceData, part: SplitPart, entry: GridEntry, seed: int) -> dict[str, Any]:
    """The values of KEY."""
    return {
        "dataset": source.data.name,
        "device": source.device,
        "split": part.split,
        "fold": part.fold,
        "seed": seed,
        "model": entry.model,
        "objective": entry.objective,
        "spec": "" if entry.model in (RANDOM, CEILING) else entry.spec,
        "variant": _variant(source, entry),
        "also": source.also.name if source.also else "",
    }


def _variant(source: DeviceData, entry: GridEntry) -> str:
    """What sets a row apart: also that its model, if it learns at all, saw only some programs of each workload."""
    capped = source.each is not None and entry.model not in (RANDOM, CEILING)
    return ", ".join(filter(None, (entry.variant, f"{source.each} of each workload" if capped else "")))


def run(
    source: DeviceData, part: SplitPart, entry: GridEntry, seed: int, *, valid_share: float = 0.0
) -> dict[str, Any]:
    """Fits an entry on one side and evaluates it on the other."""
    if entry.model == CEILING:
        measured = source.measured(part)
        gap = source.median_gap() if entry.variant == TWO_PASSES else None
        draw = repeat_noise(measured) if gap is None else gap_noise(measured.programs, gap)
        evaluation = noise_ceiling(measured.programs, draw, seed=seed)
        facts: dict[str, Any] = {}
    elif entry.model == RANDOM:  # constant scores get the exact expectation of random choice, and need no features
        programs = source.measured(part).programs
        evaluation, facts = evaluate_scores(np.zeros(programs.n), programs), {"test_programs": programs.n}
    else:
        train, test = source.sides(part, entry, seed)
        model = _new(entry, source)
        scores, facts = _scores(model, train, test, seed, valid_share)
        evaluation = evaluate_scores(scores, test)
    known = dataclasses.replace(evaluation, uses=source.uses)
    return {**known.row(key_of(source, part, entry, seed)), **facts, **_when()}


def _new(entry: GridEntry, source: DeviceData) -> Any:
    """The model, not yet fitted."""
    if entry.model in BASELINES:
        return BASELINES[entry.model]()
    model = entry.make()
    if isinstance(model, Conditioned):
        model.devices = {row["device_id"]: row for row in DataFolder.open(source.data).devices().to_pylist()}
    return model


def _scores(model: Any, train: Programs, test: Programs, seed: int, valid_share: float) -> tuple[Any, dict[str, Any]]:
    began, began_cpu = time.perf_counter(), time.process_time()
    if isinstance(model, TvmXgb | TensetMlp):
        model.fit(train.measured(), seed=seed)
    else:
        rest, valid = train.split_off(valid_share, seed=seed) if valid_share else (train, None)
        model.fit(rest, valid, seed=seed, progress=False)
    if isinstance(model, Conditioned):
        model = model.bind(model.devices[test.device_ids[0]])
    facts = {
        "train_s": time.perf_counter() - began,
        "train_cpu_s": time.process_time() - began_cpu,
        "predictions_per_s": rate(model, test),
        "bytes": _size(model),
        "train_programs": train.n,
        "train_workloads": len(np.unique(train.workload)),
        "test_programs": test.n,
    }
    return model.predict(test.rows, test.counts), facts


def rate(model: Any, test: Programs) -> float:
    """Programs scored in a second, the best of three calls; the features are there already."""
    some = test.select(np.arange(SCORED) % test.n)
    seconds = []
    for _ in range(3):
        began = time.perf_counter()
        model.predict(some.rows, some.counts)
        seconds.append(time.perf_counter() - began)
    return some.n / min(seconds)


def _size(model: Any) -> int:
    """Bytes of the weights on disk."""
    if isinstance(model, TensetMlp):
        return model.size_bytes()
    if hasattr(model, "save_weights"):
        with tempfile.TemporaryDirectory() as folder:
            model.save_weights(Path(folder))
            return sum(path.stat().st_size for path in Path(folder).rglob("*") if path.is_file())
    return len(model.booster.save_raw("ubj"))


def _when() -> dict[str, Any]:
    now = datetime.datetime.now(datetime.timezone.utc).isoformat(timespec="seconds")
    return {"at": now, "load_average": round(os.getloadavg()[0], 2)}
