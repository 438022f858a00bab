"""Scores submissions to a task with hidden latencies where neither the models nor TVM can be reached."""

from __future__ import annotations

import csv
import json
import subprocess
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import click
import numpy as np

from costhub.api.hidden import submit_scores
from costhub.api.models import save_model
from costhub.dataset.folder import DataFolder
from costhub.dataset.hidden.submission import ABOUT, SCORE_COLUMNS, SCORES
from costhub.dataset.hidden.task import PROGRAMS, HiddenTask, hide_latencies
from costhub.dataset.load import load_programs
from costhub.models.train import train_model
from scripts.bench.common import machine, options
from scripts.bench.common.data import DATASETS, own_folder
from scripts.tables.benchmark import hidden_table

DATA, DEVICE = "intel-xeon-emeraldrapids-avx2", "intel-xeon-emeraldrapids-2c-avx2"
"""Ten workloads with some 1,300 random programs each."""
LEARNED_DATA, LEARNED = "intel-xeon-emeraldrapids", "intel-xeon-emeraldrapids-2c"
"""What the small model learns from: the same chip with its whole instruction set, without the workloads of the task."""
SHIPPED, SPEC = "any-cpu-conditioned", "tiles@1"
SEED = 0
ROUNDS, QUICK_ROUNDS = 100, 10
QUICK_EACH = 4
"""Programs of a workload that the quick form's model learns from."""
WITHOUT_TVM = """
import sys

class Blocker:
    def find_spec(self, name, path=None, target=None):
        if name.partition(".")[0] in ("tvm", "tvm_ffi"):
            raise ImportError(f"{name} is blocked")

sys.meta_path.insert(0, Blocker())
try:
    import tvm
except ImportError:
    from costhub.cli.main import run
    sys.exit(run(sys.argv[1:]))
sys.exit("TVM could be imported.")
"""
"""Runs the command line in a process in which TVM cannot be imported."""


def small_model(folder: Path, without: set[str], *, quick: bool) -> Path:
    """Trains small trees on workloads that the task does not have, and returns the folder of the model."""
    place = DATASETS / LEARNED_DATA
    known = set(DataFolder.open(place).workloads(["workload_id"])["workload_id"].to_pylist()) - without
    programs = load_programs(
        place, device=LEARNED, workloads=known, spec=SPEC, per_workload=QUICK_EACH if quick else None, progress=False
    )
    chosen = {"rounds": QUICK_ROUNDS if quick else ROUNDS}
    model = train_model(programs, "gbt", seed=SEED, progress=False, options=chosen)
    return save_model(model, folder, programs, seed=SEED)


def write_by_hand(task: Path, out: Path, about: Mapping[str, str], score: Callable[[Mapping[str, Any]], float]) -> None:
    """Writes a submission without costhub, as the documentation describes it.

    Args:
        task: The folder of the task.
        out: The folder of the submission.
        about: What `about.json` says.
        score: Scores a line of `programs.jsonl`.
    """
    out.mkdir()
    (out / ABOUT).write_text(json.dumps(about), encoding="utf-8")
    with (
        (task / PROGRAMS).open(encoding="utf-8") as lines,
        (out / SCORES).open("w", encoding="utf-8", newline="") as to,
    ):
        writer = csv.writer(to)
        writer.writerow(SCORE_COLUMNS)
        for program in map(json.loads, lines):
            writer.writerow([program["device_id"], program["program_id"], score(program)])


def submissions(task: HiddenTask, folder: Path, *, quick: bool) -> dict[Path, float]:
    """Submission -> the seconds that it took, without the features, which are computed before, and the training."""
    own = small_model(folder / "gbt", set(task.workloads), quick=quick)
    task.programs(SPEC, progress=False)
    random = np.random.default_rng(SEED)
    # A guess made beforehand, which looks at neither loops nor the device: fewer instructions are better.
    short = {"model": "shortest trace", "trained_on": "nothing"}
    noise = {"model": "noise", "trained_on": "nothing", "seed": str(SEED)}
    ways: dict[str, Callable[[Path], object]] = {
        "shipped": lambda out: submit_scores(task.path, SHIPPED, out, about={"model": SHIPPED}, progress=False),
        "trees": lambda out: submit_scores(task.path, own, out, about={"model": "small gbt"}, progress=False),
        "short": lambda out: write_by_hand(task.path, out, short, lambda row: -float(len(json.loads(row["trace"])[0]))),
        "noise": lambda out: write_by_hand(task.path, out, noise, lambda _: float(random.normal())),
    }
    seconds = {}
    for name, way in ways.items():
        start = time.perf_counter()
        way(folder / name)
        seconds[folder / name] = time.perf_counter() - start
    return seconds


def scored(submitted: Sequence[Path], latencies: Path) -> list[dict[str, Any]]:
    """What `costhub bench score --json` prints, a line per submission, in a process without TVM."""
    words = ["bench", "score", *map(str, submitted), "--latencies", str(latencies), "--json"]
    done = subprocess.run([sys.executable, "-c", WITHOUT_TVM, *words], check=False, capture_output=True, text=True)
    if done.returncode:
        raise click.ClickException(f"The submissions could not be scored: {done.stderr.strip()}")
    return [json.loads(line) for line in done.stdout.splitlines()]


@click.command()
@options.quick("The same workloads with some thirty programs each, and a model of a few small trees.")
@options.json_file()
def main(quick: bool, path: Path | None) -> None:
    """Hides the latencies of ten workloads, submits four models and scores them without TVM.

    The features of the programs are computed first, which takes minutes unless they are in the cache.
    """
    folder = own_folder()
    workloads = set(DataFolder.open(DATASETS / DATA).workloads(["workload_id"])["workload_id"].to_pylist())
    data, device = (LEARNED_DATA, LEARNED) if quick else (DATA, DEVICE)
    kept = folder / "kept" / "latencies.csv"
    task = hide_latencies(DATASETS / data, folder / "task", kept, name="hidden", devices={device}, workloads=workloads)
    seconds = submissions(task, folder, quick=quick)
    start = time.perf_counter()
    rows = scored(list(seconds), kept)
    score_s = time.perf_counter() - start
    by_model = {json.loads((out / ABOUT).read_text())["model"]: taken for out, taken in seconds.items()}
    result = {
        **{"data": data, "task_device": device, "programs": len(task.rows), "workloads": len(task.workloads)},
        "score_s": score_s,
        "rows": [{**row, "seconds": by_model[row["model"]]} for row in rows],
    }
    click.echo(hidden_table(result))
    machine.write_result(path, result)
