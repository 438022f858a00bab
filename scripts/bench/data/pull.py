"""Times a pull from an empty cache to scores in a new process, offline and through a hub over HTTP."""

from __future__ import annotations

import json
import os
import shutil
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import click
import numpy as np

from costhub.cards.tables import TableColumn, number, plain_table
from costhub.dataset.folder import DataFolder
from costhub.dataset.load import load_programs
from costhub.hub.catalogue.find import find_model
from costhub.hub.catalogue.hubs import dataset_folders
from costhub.models.folder import load_model
from scripts.bench.common import machine, options
from scripts.bench.data.cut_commands import LoopbackHub, file_bytes

DATASETS = {"nvidia-h200": "nvidia-h200", "amd-epyc-zen5-2c": "amd-epyc-zen5"}
WORKLOADS = 2
CODE = """
import json, sys, time
at = [time.perf_counter()]
import costhub
folder = costhub.pull(sys.argv[1])
at.append(time.perf_counter())
model = costhub.load_model(folder)
at.append(time.perf_counter())
import numpy as np
with np.load(sys.argv[2]) as programs:
    scores = model.predict(programs["rows"], programs["counts"])
at.append(time.perf_counter())
assert np.isfinite(scores).all() and len(set(scores.tolist())) > 1
print(json.dumps([b - a for a, b in zip(at, at[1:])]))
"""
STAGES = ("pull", "load", "score")
COLUMNS = (
    TableColumn("way", "from"),
    number("seconds", "seconds", ".2f"),
    number("range", "slowest", ".2f"),
    *(number(stage, stage, ".2f") for stage in STAGES),
)


def once(name: str, programs: Path, environment: dict[str, str]) -> dict[str, Any]:
    """Seconds from the start of a process to its scores, and of each stage in it."""
    with tempfile.TemporaryDirectory() as cache:
        own = {"COSTHUB_CACHE": str(Path(cache, "costhub")), "HF_HOME": str(Path(cache, "hf"))}
        began = time.perf_counter()
        done = subprocess.run(
            [sys.executable, "-c", CODE, name, str(programs)],
            env={**os.environ, **environment, **own},
            capture_output=True,
            text=True,
            check=True,
        )
        seconds = time.perf_counter() - began
    stages = json.loads(done.stdout.splitlines()[-1])
    return {"seconds": seconds, **dict(zip(STAGES, stages, strict=True))}


def some_programs(device: str, folder: Path) -> tuple[Path, int]:
    """Features of measured programs, such as a search has of lowered candidates, and their number."""
    data = Path(shutil.copytree(dataset_folders()[f"costhub/{DATASETS[device]}"], folder / "data"))
    ids = DataFolder.open(data).workloads(["workload_id"])["workload_id"].to_pylist()
    spec = load_model(find_model(device).entry.folder)[1].feature_spec
    programs = load_programs(data, device=device, workloads=set(ids[:WORKLOADS]), spec=spec)
    np.savez(folder / "programs.npz", rows=programs.rows, counts=programs.counts)
    return folder / "programs.npz", programs.n


def rows(device: str, programs: Path, repeats: int) -> Iterator[dict[str, Any]]:
    """One row per way and repeat; the first repeat only warms the disk's cache."""
    folder = find_model(device).entry.folder
    with LoopbackHub() as hub:
        hub.commit("costhub/model", file_bytes(folder))
        ways = {
            "the package, offline": (device, {"HF_HUB_OFFLINE": "1"}),
            "a hub over HTTP": ("hf-hub:costhub/model", {"HF_ENDPOINT": hub.url, "HF_HUB_DISABLE_XET": "1"}),
        }
        for repeat in range(-1, repeats):
            for way, (name, environment) in ways.items():
                row = {"way": way, "repeat": repeat, **once(name, programs, environment)}
                if repeat >= 0:
                    yield row


def summary(results: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Medians of each way, and the slowest repeat."""
    return [
        {
            "way": way,
            **{key: statistics.median(r[key] for r in own) for key in ("seconds", *STAGES)},
            "range": max(r["seconds"] for r in own),
        }
        for way in dict.fromkeys(row["way"] for row in results)
        if (own := [row for row in results if row["way"] == way])
    ]


@click.command()
@click.option("--device", type=click.Choice(sorted(DATASETS)), default="nvidia-h200", show_default=True)
@click.option("--repeats", default=5, show_default=True)
@options.quick("One repeat.")
@options.json_file()
def main(device: str, repeats: int, quick: bool, path: Path | None) -> None:
    """Times `pull` to scores, each time in a new process with empty caches."""
    with tempfile.TemporaryDirectory() as folder:
        programs, count = some_programs(device, Path(folder))
        results = list(rows(device, programs, 1 if quick else repeats))
    click.echo(f"{count} programs of {device}\n{plain_table(summary(results), COLUMNS)}")
    about = {"scored": device, "programs": count, "summary": summary(results), "rows": results}
    machine.write_result(path, about)
