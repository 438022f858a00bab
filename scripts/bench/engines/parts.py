"""Measures what a part of the compilation of whole networks is worth."""

from __future__ import annotations

import os
import tempfile
import time
from collections.abc import Sequence
from functools import partial
from itertools import product
from pathlib import Path
from typing import Any

import click
import numpy as np

from costhub.collector.device.local import local_target
from costhub.collector.workloads.network_source import BF16, BLOCKED, PRECISIONS, Lowering
from costhub.dataset.tile_intrinsics import has_matrix_units
from costhub.isolation.child import Child
from costhub.isolation.limits import Limits
from scripts.bench.common import machine, options
from scripts.bench.common.fresh import checkout_path
from scripts.bench.engines.causes import ATTENTION, PARTS, PASSES
from scripts.bench.engines.export import export_network
from scripts.bench.engines.networks import check_networks, title_of_network
from scripts.bench.engines.search import (
    check_threads,
    compile_tuned,
    say,
    search_folder,
    search_kernels_without,
    search_network,
)
from scripts.tables.networks import parts_table

NETWORKS = ("bert_base", "gpt2_prefill", "vit_s16")
_TURN_S = 0.2
_TIMEOUT_S = 900.0


@click.command()
@click.option(
    "--part",
    "parts",
    type=click.Choice([*PARTS, *PASSES]),
    multiple=True,
    default=PARTS[:1],
    show_default=True,
    help="What is left out.",
)
@click.option("--network", "networks", multiple=True, default=NETWORKS, show_default=True)
@options.trials(16)
@click.option("--threads", default=2, show_default=True, callback=check_threads, help="Of both forms.")
@click.option("--rounds", default=30, show_default=True, type=click.IntRange(2), help="Turns of each form.")
@click.option(
    "--precision", type=click.Choice(PRECISIONS), default=PRECISIONS[0], show_default=True, help="Of both forms."
)
@click.option("--searches", type=options.PATH, help="Databases of the benchmark `engines`; what is missing is added.")
@options.quick("BERT-tiny with 2 trials for each kernel and 3 rounds.")
@options.json_file()
def main(
    parts: tuple[str, ...],
    networks: tuple[str, ...],
    trials: int,
    threads: int,
    rounds: int,
    precision: str,
    searches: Path | None,
    quick: bool,
    path: Path | None,
) -> None:
    """Run it with nothing else on the machine; results are written after each network."""
    if quick:
        networks, trials, rounds = ("bert_tiny",), 2, 3
    check_networks(networks)
    check_matrix_units(parts, precision)
    os.environ |= checkout_path()  # for children, which import this package
    rows: list[dict[str, Any]] = []
    with tempfile.TemporaryDirectory(prefix="costhub-parts-") as scratch:
        kept = (searches or Path(scratch, "searches")).resolve()
        for name, part in product(networks, parts):
            say(f"{name}: searching and compiling with and without {part}")
            how = {"trials": trials, "threads": threads, "rounds": rounds}
            place = Path(scratch) / f"{name}-{part}"
            rows.append({"part": part, **compared(part, name, place, kept, precision=precision, **how)})
            machine.write_result(path, {"trials": trials, "rows": rows})
    click.echo(parts_table({"rows": rows}))


def check_matrix_units(parts: Sequence[str], precision: str) -> None:
    """Refuses a part of the compilation for matrix units where nothing would use these.

    Args:
        parts: Of `PARTS` and `PASSES`.
        precision: As for `Lowering`.

    Raises:
        UsageError: The precision is another one, or this machine has none.
    """
    import tvm

    if ATTENTION in parts and (precision != BF16 or not has_matrix_units(tvm.target.Target(local_target()))):
        raise click.UsageError(f"--part {ATTENTION} needs --precision {BF16}, and a machine with matrix units (AMX).")


def compared(
    part: str, name: str, place: Path, searches: Path, *, precision: str, trials: int, threads: int, rounds: int
) -> dict[str, Any]:
    """The times of a network with the same schedules in both forms, as a row.

    Kernels that only one form has are searched as well, and added to the database.

    Args:
        part: One of `PARTS` or `PASSES`.
        name: As for `build_network`.
        place: Where its files and libraries go.
        searches: Where its search is, which is made if it is missing.
        precision: As for `Lowering`.
        trials: Of the search, for each kernel.
        threads: Of both forms.
        rounds: Turns of each form.
    """
    network, lowering = export_network(name, place), Lowering(fast_math=True, layout=BLOCKED, precision=precision)
    searched = search_folder(searches, name, "costhub", lowering)
    search_network(network.program, searched, trials=trials, threads=threads, lowering=lowering)
    if part in PASSES:
        search_kernels_without(part, network.program, searched, trials=trials, threads=threads, lowering=lowering)
    libraries = {without: place / f"without-{without}.so" for without in (part, None)}
    for without, library in libraries.items():
        compile_tuned(network.program, searched, library, threads=threads, lowering=lowering, part=without)
    paths, runs = [str(library) for library in libraries.values()], []
    # In one process: two processes of the same library may differ by more than the two forms do. And in a second one
    # in the other order: of two equal libraries, the one that is loaded later may be faster by several percent.
    for order in (paths, paths[::-1]):
        with Child(limits=Limits.for_network(timeout_s=_TIMEOUT_S), is_shared=False) as child:
            work = partial(in_turn, order, network.inputs, threads, -(-rounds // 2))
            found = dict(zip(order, child.call(work, timeout_s=_TIMEOUT_S), strict=True))
        runs.append(np.array([found[path] for path in paths]))
    ratios = [after / before for before, after in runs]
    before, after = np.concatenate(runs, axis=1)
    low, high = np.quantile(np.concatenate(ratios), [0.25, 0.75])
    return {
        "network": title_of_network(name),
        "without_ms": float(np.median(before)),
        "with_ms": float(np.median(after)),
        "ratio": float(np.sqrt(np.prod([np.median(each) for each in ratios]))),
        **{"ratio_low": float(low), "ratio_high": float(high), "orders": len(runs)},
        **{"threads": threads, "rounds": rounds, "precision": precision},
    }


def in_turn(libraries: list[str], inputs: tuple[Any, ...], threads: int, rounds: int) -> list[list[float]]:
    """The median latency in ms of each library in each round, all in this process."""
    from costhub.search.whole_network.tuned_network import load_network

    networks = [load_network(library, threads=threads) for library in libraries]
    latencies: list[list[float]] = [[] for _ in networks]
    for number in range(rounds + 1):
        for network, own in zip(networks, latencies, strict=True):
            calls: list[float] = []
            end = time.perf_counter() + _TURN_S
            while time.perf_counter() < end or len(calls) < 3:
                start = time.perf_counter()
                network(*inputs)
                calls.append(1e3 * (time.perf_counter() - start))
            if number:  # the first round warms up
                own.append(float(np.median(calls[1:])))
    return latencies
