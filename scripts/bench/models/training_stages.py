"""The stages of the training benchmark, each run in a process of its own under a memory limit.

python -m scripts.bench.models.training_stages STAGE PROGRAMS FOLDER LIMIT_GIB ROUNDS EPOCHS
"""

from __future__ import annotations

import json
import os
import resource
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from costhub.dataset.features.cache import FeatureCache
from costhub.dataset.features.specs import find_spec
from costhub.dataset.load import load_programs
from costhub.dataset.programs import FloatArray
from costhub.files import CACHE_VARIABLE, cache_root
from scripts.bench.common.data import DEVICE, copy_dataset
from scripts.bench.common.synthetic import DEVICES, good_keys, program_keys, record_id, write_measurements

SPEC = find_spec("per_store@1")
TILES = 3
"""How often the rows of a real program are repeated, to have 7 rows per program, as on a GPU."""
JITTER = 0.01
HELD_OUT = 8
"""Workloads on which the trained models are evaluated; their programs are not counted."""


def write_folder(path: Path, programs: int) -> None:
    """Writes measurements of four devices, made from real ones, and their features.

    A program's latency is within 5 % of a real one, and its features are within 1 % of the same program's, so
    there is as much to learn as in the real data. Traces do not match the features.
    """
    write_measurements(path, programs, like=DEVICE)
    with tempfile.TemporaryDirectory() as temporary:
        features = real_features(copy_dataset(temporary))
    for device in DEVICES:
        write_features(path, device, features, programs // len(DEVICES))


def real_features(data: Path) -> list[FloatArray | None]:
    """The features of the good programs of DEVICE, computed in the folder."""
    load_programs(data, device=DEVICE, spec=SPEC.name, progress=False)
    cache = FeatureCache(DEVICE, SPEC)
    entries = cache.find(good_keys(data, DEVICE))
    ends = np.cumsum(np.maximum(entries.counts, 0))
    parts = np.split(cache.read(entries), ends[:-1])
    return [part if count >= 0 else None for part, count in zip(parts, entries.counts, strict=True)]


def write_features(path: Path, device: str, features: list[FloatArray | None], programs: int) -> None:
    """Puts features into the cache in the order of the measurements, as if they had been computed."""
    numbers = pa.array([record_id(device, number) for number in range(programs)])
    cache, rng = FeatureCache(device, SPEC), np.random.default_rng(0)
    for record_ids, keys in program_keys(path, device):
        places = pc.index_in(record_ids, value_set=numbers).to_numpy() % len(features)
        cache.append(keys.to_pylist(), list(_jittered([features[i] for i in places], rng)))
    cache.merge()


def _jittered(features: list[FloatArray | None], rng: np.random.Generator) -> Iterator[FloatArray | None]:
    present = [np.tile(rows, (TILES, 1)) for rows in features if rows is not None]
    rows = np.concatenate(present)
    rows *= 1.0 + JITTER * rng.standard_normal(rows.shape, dtype=np.float32)
    pieces = iter(np.split(rows, np.cumsum([len(part) for part in present])[:-1]))
    for own in features:
        yield None if own is None else next(pieces)


@dataclass(frozen=True)
class StageSettings:
    """The settings of a stage."""

    path: Path
    programs: int
    rounds: int
    epochs: int


Stage = Callable[[StageSettings], dict[str, Any]]


def write(run: StageSettings) -> dict[str, Any]:
    """The folder and its features."""
    write_folder(run.path, run.programs)
    size = sum(file.stat().st_size for place in (run.path, cache_root()) for file in place.rglob("*.parquet"))
    return {"gigabytes": size / 1e9}


def read(run: StageSettings) -> dict[str, Any]:
    """Opening the blocks and reading each once."""
    from costhub.dataset.blocks import ProgramBlocks

    start = time.perf_counter()
    blocks = ProgramBlocks.open(run.path, device=DEVICES, spec=SPEC.name, progress=False)
    opened = time.perf_counter() - start
    programs = rows = 0
    for block in blocks:
        programs, rows = programs + block.n, rows + len(block.rows)
    return {
        "programs": programs,
        "rows": rows,
        "blocks": len(blocks),
        "open_s": opened,
        "seconds": time.perf_counter() - start,
    }


def gbt(run: StageSettings) -> dict[str, Any]:
    """Trees, their bins in files."""
    return _trees(run, external=True)


def gbt_bins_in_memory(run: StageSettings) -> dict[str, Any]:
    """Trees, their bins in memory."""
    return _trees(run, external=False)


def gbt_in_memory(run: StageSettings) -> dict[str, Any]:
    """Trees on all programs at once, as `costhub train` does without --stream."""
    from costhub.models.trees.gbt import Gbt, GbtOptions

    options = GbtOptions(rounds=run.rounds)
    return _in_memory(run, Gbt(feature_spec="per_store@1", options=options), run.rounds)


def mlp(run: StageSettings) -> dict[str, Any]:
    """A network from a stream."""
    from costhub.models.networks.mlp import Mlp
    from costhub.models.networks.network_options import MlpOptions

    model = Mlp(feature_spec="per_store@1", options=MlpOptions(epochs=run.epochs))
    return _streamed(run, model, run.epochs, lambda blocks: model.fit_blocks(blocks, None, seed=0))


def mlp_in_memory(run: StageSettings) -> dict[str, Any]:
    """A network on all programs at once."""
    from costhub.models.networks.mlp import Mlp
    from costhub.models.networks.network_options import MlpOptions

    options = MlpOptions(epochs=run.epochs)
    return _in_memory(run, Mlp(feature_spec="per_store@1", options=options), run.epochs)


def _trees(run: StageSettings, *, external: bool) -> dict[str, Any]:
    from costhub.models.trees.gbt import Gbt, GbtOptions

    model = Gbt(feature_spec="per_store@1", options=GbtOptions(rounds=run.rounds))
    return _streamed(
        run,
        model,
        run.rounds,
        lambda blocks: model.fit_blocks(blocks, None, seed=0, external=external, cache=run.path),
    )


def _streamed(run: StageSettings, model: Any, passes: int, fit: Callable[[Any], None]) -> dict[str, Any]:
    from costhub.dataset.blocks import ProgramBlocks
    from costhub.dataset.programs import Programs

    start = time.perf_counter()
    blocks = ProgramBlocks.open(run.path, device=DEVICES, spec=SPEC.name, progress=False)
    names = sorted(blocks.counts())
    train = blocks.of_workloads(set(names[HELD_OUT:]))
    fit(train)
    seconds = time.perf_counter() - start
    # One device is enough to show that something was learned.
    test = Programs.join(list(blocks.of_workloads(set(names[:HELD_OUT])).share(0, len(DEVICES))))
    return {**_figures(sum(train.sizes), seconds, passes), **_evaluated(model, test)}


def _in_memory(run: StageSettings, model: Any, passes: int) -> dict[str, Any]:
    from costhub.dataset.load import load_programs

    start = time.perf_counter()
    programs = load_programs(run.path, device=DEVICES, spec=SPEC.name, progress=False)
    names = sorted(programs.workload_ids)
    train = programs.of_workloads(set(names[HELD_OUT:]))
    model.fit(train, None, seed=0)
    seconds = time.perf_counter() - start
    test = programs.of_workloads(set(names[:HELD_OUT])).of_devices({DEVICES[0]})
    return {**_figures(train.n, seconds, passes), **_evaluated(model, test)}


def _figures(programs: int, seconds: float, passes: int) -> dict[str, Any]:
    """A pass is a tree or an epoch; the time includes opening the folder and what comes before training."""
    return {"programs": programs, "passes": passes, "seconds": seconds, "per_s": programs * passes / seconds}


def _evaluated(model: Any, test: Any) -> dict[str, Any]:
    from costhub.models.evaluate import evaluate

    return evaluate(model, test).totals


STAGES: dict[str, Stage] = {
    stage.__name__: stage for stage in (write, read, gbt, gbt_bins_in_memory, gbt_in_memory, mlp, mlp_in_memory)
}


def main(stage: str, programs: str, path: str, limit_gib: str, rounds: str, epochs: str) -> None:
    """Runs one stage and prints its figures as JSON."""
    if stage != "write":
        # It limits the address space, which is more than resident memory: a stage that ends was well below.
        limit = int(float(limit_gib) * 2**30)
        resource.setrlimit(resource.RLIMIT_AS, (limit, limit))
    os.environ[CACHE_VARIABLE] = f"{path}-cache"  # the features are made up
    start = time.perf_counter()
    figures = STAGES[stage](StageSettings(Path(path), int(programs), int(rounds), int(epochs)))
    figures.setdefault("seconds", time.perf_counter() - start)
    peak = [resource.getrusage(who).ru_maxrss for who in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN)]
    print(json.dumps({"stage": stage, "peak_gib": sum(peak) / 2**20, **figures}))


if __name__ == "__main__":
    main(*sys.argv[1:])
