"""Stock TVM's builder and runner on given candidates, for the benchmark of the collector.

The strong baseline differs in one point: its workers import the CPU's intrinsics only (1 s instead of 14 s).
"""

from __future__ import annotations

import json
import shutil
import statistics
import time
from functools import partial
from pathlib import Path
from typing import Any

from costhub.collector.run_service import Evaluator
from costhub.collector.sampler import Program
from costhub.dataset.intrinsics import load_intrinsics


def measure_stock(programs: list[Program], target: str, *, shim: bool) -> dict[str, Any]:
    """The candidates through LocalBuilder and LocalRunner, with costhub's evaluator settings."""
    import tvm
    from tvm.s_tir import meta_schedule as ms

    settings = Evaluator()
    start = time.perf_counter()
    builder = ms.builder.LocalBuilder(
        initializer=partial(load_intrinsics, "llvm") if shim else None, timeout_sec=60
    )
    runner = ms.runner.LocalRunner(
        timeout_sec=30,
        evaluator_config=ms.runner.EvaluatorConfig(
            number=settings.number, repeat=settings.repeat, min_repeat_ms=settings.min_repeat_ms
        ),
    )
    parsed = tvm.target.Target(json.loads(target))
    built = builder.build(
        [ms.builder.BuilderInput(tvm.ir.load_json(p.module_json), parsed) for p in programs]
    )
    latency: list[float | None] = []
    for result, program in zip(built, programs, strict=True):
        latency.append(_run(ms, runner, result, program))
    return {"latency_s": latency, "seconds": time.perf_counter() - start}


def _run(ms: Any, runner: Any, built: Any, program: Program) -> float | None:
    if built.artifact_path is None:
        return None
    infos = [ms.arg_info.TensorInfo(dtype=dtype, shape=list(shape)) for dtype, shape in program.arguments]
    ran = runner.run([ms.runner.RunnerInput(built.artifact_path, "cpu", infos)])[0].result()
    shutil.rmtree(Path(str(built.artifact_path)).parent, ignore_errors=True)
    return statistics.median(float(s) for s in ran.run_secs) if ran.run_secs else None
