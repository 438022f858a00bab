"""Compares evaluator settings: seconds per program against the agreement of two passes."""

from __future__ import annotations

import json
import statistics
import time
from collections import defaultdict
from pathlib import Path

import click
import numpy as np

from costhub.collector.build.builder import Builder
from costhub.collector.device.local import local_target
from costhub.collector.propose.sampler import Sampler
from costhub.collector.run.evaluator import COLLECTING, Evaluator
from costhub.collector.run.runner import Runner
from costhub.collector.workloads.suites import find_suites
from costhub.models.metrics import spearman
from costhub.progress import bar
from scripts.bench.common import machine, options

SUITES = ("matmul.128x128x128", "softmax.64x1000", "resnet18.c7", "resnet18.c12", "depthwise.112x64s2")
SETTINGS = {
    "tvm: 3 x 10 ms": Evaluator(),
    "3 x 3 ms": Evaluator(min_repeat_ms=3),
    "3 x 1 ms": Evaluator(min_repeat_ms=1),
    "2-9 x 1 ms, 2 %": Evaluator(repeat=2, min_repeat_ms=1, max_repeat=9, agree=0.02),
    "2-9 x 3 ms, 2 %": Evaluator(repeat=2, min_repeat_ms=3, max_repeat=9, agree=0.02),
    "3-9 x 1 ms, 2 %": Evaluator(repeat=3, min_repeat_ms=1, max_repeat=9, agree=0.02),
    "3-9 x 2 ms, 1 %": Evaluator(repeat=3, min_repeat_ms=2, max_repeat=9, agree=0.01),
    "3-15 x 2 ms, 1 %": Evaluator(repeat=3, min_repeat_ms=2, max_repeat=15, agree=0.01),
    "collecting": COLLECTING,
}


@click.command()
@click.option("--programs", default=16, help="Per workload.")
@click.option("--threads", default=None, type=int, help="Of the runner; all cores by default.")
@options.quick("4 programs per workload.")
@options.json_file()
def main(programs: int, threads: int | None, quick: bool, path: Path | None) -> None:
    """Prints a row per setting; all settings see each program at the same moment."""
    target = json.dumps(local_target())
    by_workload = {
        w.name: Sampler(w.module(), target, seed=1).random(4 if quick else programs) for w in find_suites(SUITES)
    }
    drawn = [(name, p) for name, some in by_workload.items() for p in some]
    run_s: dict[str, list[list[float]]] = defaultdict(lambda: [[], []])
    wall_s: dict[str, float] = defaultdict(float)
    with (
        Builder(target) as builder,
        Runner(target, threads=threads) as runner,
        bar(2 * len(drawn), desc="two passes", unit="program") as shown,
    ):
        built = builder.build([p.module_json for _, p in drawn])
        good = [(name, p, b.artifact) for (name, p), b in zip(drawn, built, strict=True) if b.artifact]
        for each_pass in (0, 1):
            for _, program, artifact in good:
                for name, runner.evaluator in SETTINGS.items():
                    start = time.perf_counter()
                    ran = runner.run(artifact, program.arguments)
                    wall_s[name] += time.perf_counter() - start
                    run_s[name][each_pass].append(statistics.median(ran.run_s))
                shown.update(1)
    names = np.array([name for name, _, _ in good])
    rows = []
    for setting, (first, second) in ((name, np.array(both)) for name, both in run_s.items()):
        off = np.abs(np.log(second / first))
        within = [spearman(1 / first[names == n], second[names == n]) for n in by_workload]
        rows.append(
            {
                "setting": setting,
                "ms_per_program": 1e3 * wall_s[setting] / 2 / len(good),
                "spearman": spearman(1 / first, second),
                "spearman_within_workloads": float(np.mean(within)),
                "median_difference": float(np.median(off)),
                "p90_difference": float(np.quantile(off, 0.9)),
            }
        )
        click.echo("  ".join(f"{v:.4f}" if isinstance(v, float) else f"{v:18}" for v in rows[-1].values()))
    machine.write_result(path, {"threads": threads, "rows": rows})
