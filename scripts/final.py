"""Measures what searches found again, side by side, and compares it.

The searches' own figures are of different evaluator settings.
"""

from __future__ import annotations

import json
import statistics
from pathlib import Path
from typing import Any

from costhub.collector.builder import Builder
from costhub.collector.run_service import Evaluator
from costhub.collector.runner import Runner
from costhub.collector.suite import find_workload
from costhub.collector.target import local_target
from costhub.dataset.trace import replay
from costhub.dataset.workload import argument_shapes, module_to_json

ROUNDS = 7
"""Spread over half a minute: while the host has its virtual CPUs elsewhere, a kernel of 13 us on two threads takes
18 or 35 us for seconds on end."""


def best_modules(folder: Path, workload: str, trials: int) -> Any:
    """The best schedule among the first `trials` records of a MetaSchedule database."""
    return replay(find_workload(workload).module(), best_trace(folder, trials)).mod


def best_trace(folder: Path, trials: int) -> str:
    """Its trace, as JSON."""
    lines = (folder / "database_tuning_record.json").read_text().splitlines()
    records = [json.loads(line)[1] for line in lines][:trials]
    trace, *_ = min((r for r in records if r[1]), key=lambda r: statistics.median(r[1]))
    return json.dumps(trace)


def remeasure(modules: dict[Any, Any], workload: str) -> dict[Any, float]:
    """Latency in us of each module: the lowest median of rounds in which all are measured in turn.

    What disturbs a measurement only slows it down, and lasts longer than the five repeats of a median.
    """
    target, evaluator = json.dumps(local_target()), Evaluator(repeat=5, min_repeat_ms=50)
    runs: dict[Any, list[float]] = {key: [] for key in modules}
    with Builder(target) as builder, Runner(target, evaluator=evaluator) as runner:
        built = dict(zip(modules, builder.build([module_to_json(m) for m in modules.values()]), strict=True))
        for _ in range(ROUNDS):
            for key, artifact in built.items():
                assert artifact.artifact, f"{workload} {key}: {artifact.error}"
                ran = runner.run(artifact.artifact, argument_shapes(modules[key]))
                runs[key].append(statistics.median(ran.run_s))
    return {key: min(seconds) * 1e6 for key, seconds in runs.items()}
