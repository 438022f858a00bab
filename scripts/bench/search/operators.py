"""Tunes the twelve operators of the MetaSchedule paper (appendix A.2) and times them beside PyTorch's."""

from __future__ import annotations

import json
import math
import os
import tempfile
from contextlib import closing
from itertools import islice
from pathlib import Path
from typing import Any

import click

from costhub.collector.device.cpu_state import tvm_threads
from costhub.collector.device.local import local_target
from costhub.collector.run.evaluator import on_host
from costhub.collector.run.output_check import relaid
from costhub.collector.workloads.suites import find_suites, find_workload
from costhub.dataset.workload import argument_shapes, module_to_json
from costhub.search.whole_network.network_timer import KEEP_FREED_MEMORY
from scripts.bench.common import machine, options
from scripts.bench.common.fresh import result_of
from scripts.bench.common.kept_searches import ONCE
from scripts.bench.common.remeasure import SHORT, best_modules, rounds_of
from scripts.bench.common.rows import earlier_rows
from scripts.bench.search.held_out import UnseenModels
from scripts.bench.search.once import COMMAND
from scripts.tables.networks import operators_table

TORCH = "scripts.bench.search.torch_operators"
ROUNDS = 5
TOLERANCE = 2e-3
"""Relative difference of outputs that is explained by sums in another order."""


def searched(workload: str, trials: int, seed: int, out: Path, unseen: UnseenModels) -> float:
    """Seconds of a search by costhub, to which the workload is new, in a fresh process."""
    settings = json.dumps(unseen.settings("costhub"))
    course = result_of(ONCE, "workload", COMMAND, workload, trials, seed, out, settings)
    return float(course["rounds"][-1][1])


def check(workload: str, tuned: Any) -> None:
    """Compares the output of the tuned program with PyTorch's.

    Raises:
        click.ClickException: They differ.
    """
    import torch
    import tvm

    from scripts.bench.search.torch_operators import references

    mod = find_workload(workload).module()
    arrays = on_host(argument_shapes(mod))
    inputs = relaid(arrays, module_to_json(tuned), [shape for _, shape in argument_shapes(tuned)])
    tensors = [tvm.runtime.tensor(value) for value in inputs]
    tvm.compile(tuned, tvm.target.Target(local_target()))["main"](*tensors)
    computed = tensors[-1].numpy()
    with torch.inference_mode():
        for form in references(workload, arrays[:-1]):
            expected = form.output()
            off = float(abs(computed - expected).max() / abs(expected).max())
            if not off < TOLERANCE:
                raise click.ClickException(f"{workload} differs from PyTorch's by {off:.1e}.")


def latencies(workload: str, tuned: Any) -> dict[str, float]:
    """Latency in us of the program and of PyTorch: the lowest median of `ROUNDS` processes of each."""
    with closing(rounds_of({workload: tuned}, SHORT)) as each_round:
        rounds = [(taken[workload], float(result_of(TORCH, workload))) for taken in islice(each_round, ROUNDS)]
    assert all(us < math.inf for us, _ in rounds), f"{workload} did not run."
    best_us, torch_us = (min(taken) for taken in zip(*rounds, strict=True))
    return {"best_us": best_us, "torch_us": torch_us}


@click.command()
@options.data()
@options.models_folder()
@options.trials(128)
@options.seeds(1)
@options.quick("Two operators, 16 trials.")
@options.json_file("What is there is not done again.")
def main(data: Path | None, models: Path | None, trials: int, seeds: int, quick: bool, path: Path | None) -> None:
    """Ratio of latencies for each operator; run it with nothing else on the machine."""
    os.environ.update({**KEEP_FREED_MEMORY, **tvm_threads()})
    names = [workload.name for workload in find_suites(["metaschedule"])]
    if quick:
        names, trials, seeds = ["metaschedule.gmm", "metaschedule.nrm"], 16, 1
    rows = earlier_rows(path, trials=trials)
    done = {(row["workload"], row["seed"], row["trials"]) for row in rows}
    with tempfile.TemporaryDirectory() as folder:
        unseen = UnseenModels(data, models, folder, names)
        for seed, name in ((seed, name) for seed in range(seeds) for name in names):
            if (name, seed, trials) in done:
                continue
            out = Path(folder, f"{name}-{seed}")
            seconds = searched(name, trials, seed, out, unseen)
            tuned = best_modules(out, name, trials)
            check(name, tuned)
            row = {"workload": name, "seed": seed, "trials": trials, "seconds": seconds}
            rows.append({**row, **latencies(name, tuned)})
            click.echo("{workload:20} {best_us:10.1f} us, PyTorch {torch_us:10.1f} us".format(**rows[-1]))
            machine.write_result(path, {"trials": trials, "rows": rows})
    click.echo(operators_table({"rows": rows}))
