"""Collects the embedded dataset: this CPU, limited to each instruction set and number of threads."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import click

from costhub.cards.reports.device_plots import plot_profile
from costhub.collector.device.local import local_names
from costhub.collector.workloads.suites import suites
from scripts.bench.common import machine, options

SUITES = (
    "resnet18",
    "matmul",
    "batch_matmul",
    "depthwise",
    "pointwise",
    "softmax",
    "norm",
    "odd_matmul",
    "fused",
    "grouped",
    "metaschedule",
)
# One call of its random programs takes seconds.
LEFT_OUT = ("metaschedule.c3d",)
NETWORKS = ("resnet18", "mobilenet_v2", "bert_base", "bert_tiny", "vit_b16", "gpt2", "lstm", "r3d_18", "ssd")
SHARES = "random=0.45,mutation=0.4,model=0.15"


def collect(devices: list[str], out: Path, *, trials: int, budget: str, model: str) -> dict[str, Any]:
    """One collection on devices that share builds; returns the report of `costhub collect --json`."""
    workloads = [w.name for name in SUITES for w in suites()[name] if w.name not in LEFT_OUT]
    command = [str(Path(sys.executable).with_name("costhub")), "collect", "--json", f"--out={out}"]
    command += [f"--budget={budget}"]
    command += [f"--trials-per-workload={trials}", f"--shares={SHARES}", f"--model={model}", "--contributor=costhub"]
    command += [*(f"--suite={name}" for name in workloads), *(f"--network={name}" for name in NETWORKS)]
    command += [f"--device={name}" for name in devices]
    summary: dict[str, Any] = json.loads(subprocess.run(command, stdout=subprocess.PIPE, check=True).stdout)
    return summary


@click.command()
@click.option("--out", required=True, type=click.Path(path_type=Path), help="Data folder; an older one is continued.")
@click.option("--trials", default=96, show_default=True, help="Programs per workload and pair of devices.")
@click.option("--budget", default="20m", show_default=True, help="For each instruction set.")
@click.option("--model", default="amd-epyc-zen5-2c", show_default=True, help="The model that picks its share.")
@options.json_file()
def main(out: Path, trials: int, budget: str, model: str, path: Path | None) -> None:
    """Run it with nothing else on the machine; started again after a stop, it continues."""
    by_isa: dict[str | None, list[str]] = {}
    for name, (isa, _) in local_names().items():
        if isa != "avx512":  # hardly another device than the CPU with all that it has
            by_isa.setdefault(isa, []).append(name)
    rows = [collect(names, out, trials=trials, budget=budget, model=model) for names in by_isa.values()]
    if path:
        machine.write_result(path, {"rows": rows})
        profiles = {" and ".join(row["devices"]): row["profile"] for row in rows}
        plot_profile(profiles, path.with_suffix(".svg"))
