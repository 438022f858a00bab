"""Times programs of a data folder again, twice, and compares both passes."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import click
import numpy as np

from costhub.collector.collect import BATCH
from costhub.collector.device.local import find_local
from costhub.collector.measurer import BuiltProgram, Measurer, local_measurer
from costhub.collector.propose.sampler import Program
from costhub.collector.run.evaluator import COLLECTING
from costhub.dataset.folder import DataFolder
from costhub.dataset.trace import replay
from costhub.dataset.workload import argument_shapes, module_from_json, module_to_json
from costhub.models.metrics import rank_correlation
from costhub.progress import bar
from scripts.bench.common import machine, options
from scripts.bench.common.data import copy_with


def chosen(folder: DataFolder, device_id: str, *, workloads: int, programs: int) -> list[list[Program]]:
    """The fastest programs of some workloads and as many others, spread evenly over the ranks."""
    rows = folder.measurements(device_id, columns=["workload_id", "trace", "status", "run_s"]).to_pylist()
    modules = dict(zip(*folder.workloads(["workload_id", "module_json"]).to_pydict().values(), strict=True))
    by_workload: dict[str, list[tuple[float, str]]] = {}
    for row in rows:
        if row["status"] == "ok":
            latency = float(np.median(row["run_s"]))
            by_workload.setdefault(row["workload_id"], []).append((latency, row["trace"]))
    picked = sorted(by_workload)[:: max(1, len(by_workload) // workloads)][:workloads]
    return [_programs(modules[w], sorted(by_workload[w]), programs) for w in picked]


def _programs(module_json: str, ranked: list[tuple[float, str]], count: int) -> list[Program]:
    half = count // 2
    others = ranked[half:][:: max(1, len(ranked[half:]) // half)][:half]
    mod = module_from_json(module_json)
    schedules = [(trace, replay(mod, trace)) for _, trace in (*ranked[:half], *others)]
    return [
        Program(f"{i}", trace, module_to_json(s.mod), argument_shapes(s.mod), "replay")
        for i, (trace, s) in enumerate(schedules)
    ]


def one_pass(measurer: Measurer, groups: list[list[Program]]) -> list[list[float]]:
    """The median seconds of each program, NaN where it failed."""
    flat = [program for group in groups for program in group]
    building = [measurer.builder.submit(program.module_json) for program in flat]
    medians: list[float] = []
    with bar(len(flat), desc=measurer.devices[0].device_id, unit="program") as shown:
        for start in range(0, len(flat), BATCH):
            builds = [b.result() for b in building[start : start + BATCH]]
            batch = [BuiltProgram(build, p.arguments) for p, build in zip(flat[start:], builds, strict=False)]
            for _, result in measurer.measure(batch):
                medians.append(float(np.median(result.run_s)) if result.run_s else np.nan)
                shown.update()
            for build in builds:
                build.remove()
    numbers = iter(medians)
    return [[next(numbers) for _ in group] for group in groups]


def compare(first: list[list[float]], second: list[list[float]]) -> dict[str, Any]:
    """Relative differences between two passes, and their effect on the ranking."""
    pairs = [(np.array(a), np.array(b)) for a, b in zip(first, second, strict=True)]
    both = [(a[ok], b[ok]) for a, b in pairs if (ok := np.isfinite(a) & np.isfinite(b)).sum() > 1]
    gaps = np.abs(np.concatenate([b / a - 1 for a, b in both]))
    # The program that the first pass would have chosen, against the best of the second.
    regrets = np.array([b[np.argmin(a)] / b.min() - 1 for a, b in both])
    return {
        "workloads": len(both),
        "programs": len(gaps),
        "median_gap": float(np.median(gaps)),
        "p90_gap": float(np.quantile(gaps, 0.9)),
        "spearman": float(np.mean([rank_correlation(a, b) for a, b in both])),
        "best_changed": float(np.mean(regrets > 0)),
        "mean_regret": float(regrets.mean()),
        "worst_regret": float(regrets.max()),
    }


@click.command()
@options.data("A folder with the programs; by default a copy of the embedded dataset with the first device.")
@click.option("--device", "devices", multiple=True, help="Of this machine; by default its whole CPU.")
@click.option("--workloads", default=24, show_default=True, help="Per device, of all that it has.")
@options.quick("Few workloads.")
@options.json_file()
def main(data: Path | None, devices: tuple[str, ...], workloads: int, quick: bool, path: Path | None) -> None:
    """Run it with nothing else on the machine."""
    devices = devices or (str(find_local(["auto"])[0].row["device_id"]),)
    data = data or copy_with(devices[0])
    if data is None:
        click.echo(f"No dataset has programs of {devices[0]} to time again.")
        return
    folder, rows = DataFolder.open(data), []
    for device_id in devices:
        groups = chosen(folder, device_id, workloads=4 if quick else workloads, programs=8 if quick else 16)
        with local_measurer(find_local([device_id]), evaluator=COLLECTING) as measurer:
            first, second = one_pass(measurer, groups), one_pass(measurer, groups)
        rows.append({"device": device_id, **compare(first, second)})
        click.echo("  ".join(f"{k} {v:.4g}" if isinstance(v, float) else f"{k} {v}" for k, v in rows[-1].items()))
    machine.write_result(path, {"rows": rows})
