"""Measures how fast features are computed, beside a plain loop over TVM's extractor."""

from __future__ import annotations

import os
from pathlib import Path
from time import perf_counter
from typing import Any

import numpy as np
from tvm.s_tir import meta_schedule as ms

from costhub.dataset.features.compute import Chunk, featurise, read_chunks
from costhub.dataset.features.spec import replay_schedules
from costhub.dataset.features.specs import find_spec, spec_names
from costhub.dataset.folder import DataFolder
from costhub.dataset.workload import module_from_json, parse_target


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
    ids = folder.measurements(device, ["record_id"], "ok")["record_id"].combine_chunks()
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
