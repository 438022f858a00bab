"""TVM's own builder and runner, for the benchmark of the collector."""

from __future__ import annotations

import json
import os
import shutil
import statistics
from functools import partial
from pathlib import Path
from typing import Any

import tvm
from tvm.s_tir import meta_schedule as ms

from costhub.collector.device.cpu_state import tvm_threads
from costhub.collector.propose.sampler import Program
from costhub.collector.run.evaluator import Evaluator
from costhub.dataset.intrinsics import load_intrinsics


class StockCollector:
    """LocalBuilder and LocalRunner with costhub's evaluator settings.

    Args:
        target: The TVM target, as JSON.
        light: The strong baseline: build processes import the CPU's intrinsics only (1 s instead of 14 s).
    """

    def __init__(self, target: str, *, light: bool) -> None:
        settings = Evaluator()
        os.environ.update(tvm_threads())  # the runner's process inherits it
        self.target = tvm.target.Target(json.loads(target))
        initializer = partial(load_intrinsics, "llvm") if light else None
        self.builder = ms.builder.LocalBuilder(initializer=initializer, timeout_sec=60)
        evaluator = ms.runner.EvaluatorConfig(
            number=settings.number, repeat=settings.repeat, min_repeat_ms=settings.min_repeat_ms
        )
        self.runner = ms.runner.LocalRunner(timeout_sec=30, evaluator_config=evaluator)

    def measure(self, programs: list[Program]) -> list[float | None]:
        """Median seconds per program; None for a failure."""
        modules = [tvm.ir.load_json(p.module_json) for p in programs]
        built = self.builder.build([ms.builder.BuilderInput(m, self.target) for m in modules])
        return [self._run(b, p) for b, p in zip(built, programs, strict=True)]

    def _run(self, built: Any, program: Program) -> float | None:
        if built.artifact_path is None:
            return None
        infos = [ms.arg_info.TensorInfo(dtype=dtype, shape=list(shape)) for dtype, shape in program.arguments]
        future = self.runner.run([ms.runner.RunnerInput(built.artifact_path, "cpu", infos)])[0]
        ran = future.result()
        shutil.rmtree(Path(str(built.artifact_path)).parent, ignore_errors=True)
        return statistics.median(float(s) for s in ran.run_secs) if ran.run_secs else None

    def close(self) -> None:
        """Does nothing: TVM's pools end with their batch."""
