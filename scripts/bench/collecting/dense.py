"""Measures a few workloads of the embedded hub densely, as the replay benchmark needs them."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import click
import numpy as np

from costhub.api.collect import CollectOptions, collect_workloads
from costhub.api.measuring import open_measurer
from costhub.api.subjects import ModuleWorkload
from costhub.dataset.folder import DataFolder
from costhub.dataset.workload import module_from_json
from costhub.search.replay.judge import budget
from costhub.search.replay.workloads import ReplayWorkload, load_replay
from scripts.bench.common import machine, options
from scripts.bench.common.data import DATASETS, own_folder
from scripts.tables.search import dense_pools_table

DATASET = "intel-xeon-emeraldrapids"
WORKLOADS = (
    "resnet18.c2",
    "conv2d_add_clip.1x144x56x56.144x1x3x3.256556",
    "conv2d_add_add.1x576x14x14.96x576x1x1.076f06",
    "metaschedule.c1d",
    "metaschedule.t2d",
    "metaschedule.gmm",
    "matmul.197x384x384",
    "matmul_add.96x768.768x768.c4eded",
    "matmul.12x197x197.12x197x64.c41dd0",
    "norm.layer-512x1024",
)
"""On the test side of the CPUs' split `workload-40-seed0`: ten kernels of six operators, whose programs run for at most
about ten milliseconds in the median, so that thousands can be measured in an hour."""
NEAR = 0.05
"""A program whose latency exceeds the best by at most this share is near the optimum."""


def stored_workloads(path: Path, names: Sequence[str]) -> list[ModuleWorkload]:
    """Workloads of a data folder by name.

    Args:
        path: The data folder.
        names: Their names.

    Raises:
        ClickException: The folder has no workload of a name.
    """
    columns = ["name", "networks", "module_json"]
    rows = {row["name"]: row for row in DataFolder.open(path).workloads(columns).to_pylist()}
    unknown = [name for name in names if name not in rows]
    if unknown:
        raise click.ClickException(f"{path} has no workload named {unknown[0]}.")
    return [
        ModuleWorkload(
            name,
            module_from_json(rows[name]["module_json"]),
            tuple((use["name"], use["weight"]) for use in rows[name]["networks"] or ()),
        )
        for name in names
    ]


def figures(pool: ReplayWorkload) -> dict[str, Any]:
    """How many programs a workload has, how fast they are, and how many trials random search needs."""
    return {
        "workload": pool.task.name,
        "programs": pool.task.n,
        "best_us": 1e6 * pool.best_s,
        "median_us": 1e6 * float(np.median(pool.latency_s)),
        "near": int((pool.latency_s <= (1 + NEAR) * pool.best_s).sum()),
        "random_trials": budget(pool.latency_s),
    }


@click.command()
@click.option("--out", type=options.PATH, help="Data folder; an older one is continued. By default it is not kept.")
@click.option("--device", default="auto", help="A device of this machine, such as intel-xeon-emeraldrapids-2c-avx2.")
@options.trials(2000)
@click.option("--budget", "minutes", default=60.0, show_default=True, help="Minutes of measuring.")
@options.quick("One workload, 8 programs.")
@options.json_file()
def main(out: Path | None, device: str, trials: int, minutes: float, quick: bool, path: Path | None) -> None:
    """Draws programs at random from TVM's default design space; run it with nothing else on the machine."""
    names, trials = (("metaschedule.gmm",), 8) if quick else (WORKLOADS, trials)
    out = out or own_folder() / "dense"
    chosen = stored_workloads(DATASETS / DATASET, names)
    own = CollectOptions(contributor="costhub", shares="random=1")
    with open_measurer(device, evaluator=own.evaluator()) as measurer:
        done = collect_workloads(
            chosen, measurer, out, trials=trials, budget_s=60 * minutes, options=own, seed=0, progress=True
        )
    (device,) = done.device_ids
    click.echo(str(done))
    profile = done.progress.profile.as_dict()
    pools = load_replay(out, device, spec=None, count=len(names), progress=False)
    collection = {"devices": [device], "good": done.good, "failed": done.failed, "profile": profile}
    result = {"pools": [figures(pool) for pool in pools], "collection": collection}
    click.echo(dense_pools_table(result))
    machine.write_result(path, result)
