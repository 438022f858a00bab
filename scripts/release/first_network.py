"""Times the way of a new user: from `git clone` to the first tuned network, with nothing installed."""

from __future__ import annotations

import json
import os
import subprocess
import tempfile
import time
from pathlib import Path
from typing import Any

import click

from scripts.bench.common import options
from scripts.bench.common.machine import ROOT, write_result

STEPS = (("clone", ()), ("setup", ("make", "setup")), ("demo", ("make", "demo")))


def walked(folder: Path) -> dict[str, Any]:
    """The seconds of each step, and what the tuned network came to."""
    clone, seconds = folder / "costhub", {}
    environment = {**os.environ, "COSTHUB_CACHE": str(folder / "cache")}
    for name, words in STEPS:
        command = list(words) or ["git", "clone", "--quiet", str(ROOT), str(clone)]
        began = time.perf_counter()
        subprocess.run(command, cwd=clone if words else folder, env=environment, check=True)
        seconds[name] = round(time.perf_counter() - began, 1)
    report = json.loads((clone / "demo-results/report.json").read_text())
    (network,) = report["networks"]
    latencies = {form: latency["median_us"] for form, latency in network["latencies"].items()}
    return {
        "seconds": seconds,
        "total": round(sum(seconds.values()), 1),
        "network": network["network"],
        "us": latencies,
    }


@click.command()
@options.json_file()
def main(path: Path | None) -> None:
    """Clones this checkout's last commit and runs the README's commands; nothing else should run meanwhile."""
    with tempfile.TemporaryDirectory() as folder:
        result = walked(Path(folder))
    click.echo(json.dumps(result))
    write_result(path, result)
