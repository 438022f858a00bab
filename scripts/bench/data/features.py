"""Measures how fast features are computed, beside a loop over TVM's extractor, and how fast they are read."""

from __future__ import annotations

import os
import tempfile
from pathlib import Path
from time import perf_counter
from typing import Any

import click
import numpy as np
import pyarrow.parquet as pq
from tvm.s_tir import meta_schedule as ms

from costhub.cards.tables import TableColumn, number, plain_table
from costhub.dataset.features.cache import FeatureCache
from costhub.dataset.features.compute import Chunk, featurise, read_chunks
from costhub.dataset.features.spec import replay_schedules
from costhub.dataset.features.specs import find_spec, spec_names
from costhub.dataset.folder import DataFolder
from costhub.dataset.load import load_programs
from costhub.dataset.workload import module_from_json, parse_target
from costhub.files import CACHE_VARIABLE
from scripts.bench.common import options
from scripts.bench.common.data import DEVICE, REAL, copy_dataset
from scripts.bench.common.machine import write_result
from scripts.bench.common.synthetic import DEVICES, copy_features, good_keys, write_measurements

COLUMNS = (
    TableColumn("spec", "features"),
    number("programs", "programs", ",d"),
    number("per_s", "programs / s", ",.0f"),
    number("ratio_to_loop", "times the loop", ".2f"),
)
CACHE = "cache {gb_per_s:.2f} GB/s, pyarrow {pyarrow_gb_per_s:.2f} GB/s, ratio {ratio:.2f}"


def tvm_loop(chunk: Chunk) -> None:
    """The obvious loop: replay a trace, extract its features, and so on."""
    mod = module_from_json(chunk.module_json)
    extractor = ms.feature_extractor.PerStoreFeature(extract_workload=True)
    replay_schedules(mod, (), chunk.target)  # loads the intrinsics of the target; TVM would load all, in 14 s
    context = ms.TuneContext(mod, target=parse_target(chunk.target), num_threads=1)
    for trace in chunk.traces:
        [schedule] = replay_schedules(mod, [trace], chunk.target)
        if schedule is not None:
            extractor.extract_from(context, [ms.MeasureCandidate(schedule, [])])


def computing(path: Path, device: str, *, programs: int = 512) -> dict[str, Any]:
    """Programs per second of the loop, and of every spec on all cores, without and with starting up."""
    folder = DataFolder.open(path)
    ids = good_keys(path, device).unique()
    some = ids.take(np.linspace(0, len(ids) - 1, programs).astype(int))
    chunks = list(read_chunks(folder, device, some))
    tvm_loop(chunks[0])  # warms up
    start = perf_counter()
    for chunk in chunks:
        tvm_loop(chunk)
    loop_s = perf_counter() - start
    result: dict[str, Any] = {"programs": programs, "tvm_loop_per_s": programs / loop_s}
    idle = [Chunk(chunks[0].module_json, chunks[0].target, (), ())] * (os.cpu_count() or 1)
    for spec in map(find_spec, spec_names()):
        seconds = []
        for work in (idle, chunks):
            start = perf_counter()
            list(featurise(work, spec))
            seconds.append(perf_counter() - start)
        warm_s = seconds[1] - seconds[0]
        rates = {"per_s": programs / warm_s, "with_start_per_s": programs / seconds[1]}
        result[spec.name] = rates | {"ratio_to_loop": loop_s / warm_s}
    return result


def reading(path: Path, device: str, *, spec: str = "per_store@1", repeats: int = 5) -> dict[str, float]:
    """GB of arrays per second out of the cache, and of the same files by pyarrow; best of some repeats."""
    keys, layout = good_keys(path, device), find_spec(spec)
    files = [str(file) for file in sorted(FeatureCache(device, layout).folder.glob("part-*"))]
    ours, bare, gigabytes = [], [], 0.0
    for _ in range(repeats):
        start = perf_counter()
        cache = FeatureCache(device, layout)
        gigabytes = cache.read(cache.find(keys)).nbytes / 1e9
        ours.append(perf_counter() - start)
        start = perf_counter()
        pq.read_table(files, partitioning=None)
        bare.append(perf_counter() - start)
    speeds = {"gb_per_s": gigabytes / min(ours), "pyarrow_gb_per_s": gigabytes / min(bare)}
    return {"gigabytes": gigabytes, **speeds, "ratio": min(bare) / min(ours), "files": len(files)}


@click.command()
@options.quick("Fewer programs.")
@options.json_file()
def main(quick: bool, path: Path | None) -> None:
    """Works on a copy of the embedded dataset; run it with nothing else on the machine."""
    with tempfile.TemporaryDirectory() as folder:
        os.environ[CACHE_VARIABLE] = str(Path(folder, "cache"))  # some features are made up
        rates = computing(copy_dataset(folder), DEVICE, programs=256 if quick else 2048)
        load_programs(REAL, device=DEVICE, spec="per_store@1", progress=False)
        synthetic = Path(folder, "synthetic")
        write_measurements(synthetic, 40_000 if quick else 1_000_000)
        copy_features(synthetic, DEVICES[0])
        cache = reading(synthetic, DEVICES[0])
    loop = {"spec": "TVM's extractor in a loop", "per_s": rates["tvm_loop_per_s"], "ratio_to_loop": 1.0}
    specs = [{"spec": name, **own} for name, own in rates.items() if isinstance(own, dict)]
    rows = [{"programs": rates["programs"], **row} for row in (loop, *specs)]
    click.echo(plain_table(rows, COLUMNS))
    click.echo(CACHE.format(**cache))
    write_result(path, {"features": rows, "cache": cache})
