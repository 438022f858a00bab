"""From nothing to scores: an empty cache and a new process, offline and through a hub that speaks HTTP."""

from __future__ import annotations

import json
import os
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import click
import machine

from costhub.cards.tables import Column, number, plain_table
from costhub.hub.find import find_model

sys.path.insert(0, str(Path(__file__).parents[1] / "tests" / "hub"))
from loopback_hub import LoopbackHub  # the hub that the tests talk to as well

PROGRAMS = 64
CODE = """
import json, sys, time
name, count = sys.argv[1], int(sys.argv[2])
at = [time.perf_counter()]
import costhub
folder = costhub.pull(name)
at.append(time.perf_counter())
model, info = costhub.load_model(folder)
at.append(time.perf_counter())
import numpy as np
from costhub.collector.sampler import Sampler
from costhub.collector.suite import find_workload
from costhub.collector.target import local_target
from costhub.dataset.features.spec import find_spec
from costhub.dataset.programs import Programs
from costhub.dataset.trace import replay
mod, target = find_workload("matmul.512x512x512").module(), json.dumps(local_target())
schedules = [replay(mod, p.trace) for p in Sampler(mod, target, seed=0).random(count)]
at.append(time.perf_counter())
import tvm
from tvm.s_tir import meta_schedule as ms
from costhub.dataset.target import parse_target
import costhub.tvm
info = ms.arg_info.ArgInfo.from_entry_func(mod, True)
candidates = [ms.MeasureCandidate(s, info) for s in schedules]
context = ms.TuneContext(mod=mod, target=parse_target(target), num_threads=1)
scores = costhub.tvm.CostModel(str(folder), method="frozen").predict(context, candidates)
at.append(time.perf_counter())
assert scores.shape == (count,) and np.isfinite(scores).all() and len(set(scores.tolist())) > 1
print(json.dumps([b - a for a, b in zip(at, at[1:])]))
"""
STAGES = ("pull", "load", "make the programs", "score them")
COLUMNS = (
    Column("way", "from"),
    number("seconds", "seconds", ".2f"),
    number("range", "slowest", ".2f"),
    *(number(stage, stage, ".2f") for stage in STAGES),
)


def once(name: str, environment: dict[str, str]) -> dict[str, Any]:
    """Seconds from the start of a process to its scores, and of each stage in it."""
    with tempfile.TemporaryDirectory() as cache:
        own = {"COSTHUB_CACHE": str(Path(cache, "costhub")), "HF_HOME": str(Path(cache, "hf"))}
        began = time.perf_counter()
        done = subprocess.run(
            [sys.executable, "-c", CODE, name, str(PROGRAMS)], env={**os.environ, **environment, **own},
            capture_output=True, text=True, check=True,
        )  # fmt: skip
        seconds = time.perf_counter() - began
    stages = json.loads(done.stdout.splitlines()[-1])
    return {"seconds": seconds, **dict(zip(STAGES, stages, strict=True))}


def rows(device: str, repeats: int) -> Iterator[dict[str, Any]]:
    """One per way and repeat; the first, which warms the disk's cache, is thrown away."""
    folder = find_model(device).entry.folder
    files = {
        path.relative_to(folder).as_posix(): path.read_bytes() for path in folder.rglob("*") if path.is_file()
    }
    with LoopbackHub() as hub:
        hub.commit("costhub/model", files)
        ways = {
            "the package, offline": (device, {"HF_HUB_OFFLINE": "1"}),
            "a hub over HTTP": ("hf-hub:costhub/model", {"HF_ENDPOINT": hub.url, "HF_HUB_DISABLE_XET": "1"}),
        }
        for repeat in range(-1, repeats):
            for way, (name, environment) in ways.items():
                row = {"way": way, "repeat": repeat, **once(name, environment)}
                if repeat >= 0:
                    yield row


def summary(found: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Medians of each way, and the slowest repeat."""
    return [
        {
            "way": way,
            **{key: statistics.median(r[key] for r in own) for key in ("seconds", *STAGES)},
            "range": max(r["seconds"] for r in own),
        }
        for way in dict.fromkeys(row["way"] for row in found)
        if (own := [row for row in found if row["way"] == way])
    ]


@click.command()
@click.option("--device", default="amd-epyc-zen5-2c", show_default=True)
@click.option("--repeats", default=5, show_default=True)
@click.option("--quick", is_flag=True, help="One repeat.")
@click.option("--json", "path", type=click.Path(path_type=Path))
def main(device: str, repeats: int, quick: bool, path: Path | None) -> None:
    """Times `pull` to scores of 64 programs, each time in a new process with empty caches."""
    found = list(rows(device, 1 if quick else repeats))
    click.echo(plain_table(summary(found), COLUMNS))
    if path:
        about = {"programs": PROGRAMS, "summary": summary(found), "rows": found}
        path.write_text(json.dumps({**machine.describe(), **about}, indent=1) + "\n")


if __name__ == "__main__":
    main()
