"""Times PyTorch's kernels for an operator of the suite `metaschedule` in a fresh process."""

from __future__ import annotations

import json
import statistics
import time
from collections.abc import Callable

import click
import torch

from costhub.collector.device.cpu_state import core_count
from costhub.collector.run.evaluator import on_host
from costhub.collector.workloads.suites import find_workload
from costhub.dataset.workload import argument_shapes
from scripts.bench.search.torch_operators import references

LEAST_S = 0.02
"""A repeat calls for so long between two readings of the clock, as `remeasure` does."""
REPEATS = 5


def timed(call: Callable[[], object]) -> float:
    """Mean seconds per call, over calls that take `LEAST_S` together."""
    calls, began = 0, time.perf_counter()
    while (passed := time.perf_counter() - began) < LEAST_S or not calls:
        call()
        calls += 1
    return passed / calls


@click.command()
@click.argument("workload")
def main(workload: str) -> None:
    """Prints the median latency in us of the fastest form."""
    torch.set_num_threads(core_count())
    arrays = on_host(argument_shapes(find_workload(workload).module()))
    medians = []
    with torch.inference_mode():
        for form in references(workload, arrays[:-1]):
            form.run()
            medians.append(statistics.median(timed(form.run) for _ in range(REPEATS)))
    click.echo(json.dumps(min(medians) * 1e6))


if __name__ == "__main__":
    main()
