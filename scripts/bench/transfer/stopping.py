"""Ends adaptations early by several rules: what each saves of the trials, and what it loses of the pairs.

Each adaptation runs to its cap once, with the figures of the leading model on held-out workloads after every batch;
the rules are replayed on its record.
"""

from __future__ import annotations

import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import click
import numpy as np

from costhub.api.models import read_model
from costhub.cards.tables import TableColumn, number, plain_table
from costhub.dataset.folder import DataFolder
from costhub.dataset.load import load_programs
from costhub.dataset.programs import Programs
from costhub.dataset.splits.split import load_split
from costhub.hub.catalogue.devices import device_rows
from costhub.hub.catalogue.find import find_model
from costhub.models.evaluate import evaluate
from costhub.models.protocol import CostModel
from costhub.transfer.guard import Guard
from costhub.transfer.methods.corrected import Corrected
from costhub.transfer.trial_order import BATCH_SIZE
from scripts.bench.common import machine, options
from scripts.bench.common.data import DATASETS, folds
from scripts.bench.common.rows import RowFile
from scripts.bench.transfer.stopping_replay import summaries
from scripts.bench.transfer.tasks import GPU_PROGRAMS, PARTS, SPEC, fitted, is_of_one_kind, measured
from scripts.tables.transfer import METRICS

CAP = 256
"""The default of `costhub adapt`."""
KEY = ("pair", "seed")
EACH = 64
"""Programs of a workload that the model of a source learns from."""
SHIPPED = "costhub/any-cpu-conditioned"
ZEN5, INTEL, ZEN4 = "amd-epyc-zen5", "intel-xeon-graniterapids", "amd-epyc-zen4"
PAIRS = (
    (ZEN5, f"{ZEN5}-2c", ZEN5, f"{ZEN5}-2c-sse4.2"),
    (ZEN5, f"{ZEN5}-2c-avx2", ZEN5, f"{ZEN5}-2c"),
    (ZEN5, f"{ZEN5}-2c", ZEN5, f"{ZEN5}-1c"),
    (ZEN5, f"{ZEN5}-2c", INTEL, f"{INTEL}-2c"),
    (INTEL, f"{INTEL}-2c", ZEN4, f"{ZEN4}-2c"),
    ("", SHIPPED, ZEN4, f"{ZEN4}-2c"),
    ("", SHIPPED, ZEN4, f"{ZEN4}-1c"),
    *((a, a, b, b) for a, b in (("nvidia-a100", "nvidia-h200"), ("nvidia-h200", "nvidia-a100"))),
    *((a, a, b, b) for a, b in (("nvidia-k80", "nvidia-v100"), ("nvidia-v100", "amd-mi50"))),
    (ZEN5, f"{ZEN5}-2c", "nvidia-h200", "nvidia-h200"),
)
"""Dataset and device of the source, or a shipped model; dataset and device of the target."""


@dataclass(frozen=True)
class Adapting:
    """A source, what its target may measure, and the held-out programs, for one seed."""

    source: CostModel
    is_alike: bool
    """Whether source and target are of one kind."""
    pool: Programs
    test: Programs


def is_new(pair: Sequence[str]) -> bool:
    """Whether the target is new to the source: a shipped model may have learned from it since the pairs were chosen."""
    source_data, source, _, target = pair
    return bool(source_data) or target not in find_model(source).entry.devices


def opened(pair: Sequence[str], seed: int) -> Adapting:
    """Trains the source without the workloads that the target holds out, or reads the shipped model."""
    source_data, source, target_data, target = pair
    programs = _programs(target_data, target)
    if not source_data:
        split = load_split(DATASETS / target_data, "workload-40-seed0")
        pool, test = (programs.of_workloads(set(side)) for side in (split.train, split.test))
        if not is_new(pair):
            raise click.UsageError(f"{source} has learned from {target}, which is to be new to it.")
        model = read_model(find_model(source)).bind(device_rows(DATASETS / target_data, [target])[target])
        return Adapting(model, True, pool, test)
    about = DataFolder.open(DATASETS / target_data).workloads(["workload_id", "name", "operator"]).to_pylist()
    present = set(programs.of_workloads(set(programs.workload_ids)).workload_ids)
    out = folds([row for row in about if row["workload_id"] in present], PARTS, seed)[0].test
    learned = _programs(source_data, source)
    learned = learned.of_workloads(set(learned.workload_ids) - out).at_most(EACH, seed=seed)
    return Adapting(
        fitted(learned, seed),
        is_of_one_kind({"source": source, "target": target}),
        programs.of_workloads(set(programs.workload_ids) - out),
        programs.of_workloads(set(out)),
    )


def _programs(data: str, device: str) -> Programs:
    return load_programs(DATASETS / data, device=device, spec=SPEC, per_workload=GPU_PROGRAMS)


def recorded(task: Adapting, seed: int, cap: int) -> Iterator[dict[str, Any]]:
    """After each batch: what the guard's test showed, and the figures of what led on held-out workloads."""
    guard = Guard(task.source, Corrected(), seed=seed, is_alike=task.is_alike)
    yield {"trials": 0, "chosen": "source", "tested": {}, "gains": [], "seconds": 0.0, **_figures(guard, task.test)}
    order = measured(task.pool, cap, seed)
    for start in range(0, order.n, BATCH_SIZE):
        began = time.perf_counter()
        verdict = guard.learn(order.select(np.arange(start, min(start + BATCH_SIZE, order.n))))
        told: dict[str, Any] = {"tested": verdict.pairwise, "gains": [round(gain, 5) for gain in verdict.gains]}
        told |= {"chosen": verdict.chosen, "seconds": time.perf_counter() - began}
        yield {"trials": min(start + BATCH_SIZE, order.n), **told, **_figures(guard, task.test)}


def _figures(guard: Guard, test: Programs) -> dict[str, float]:
    totals = evaluate(guard.model, test).totals
    return {name: round(totals[name], 5) for name in METRICS}


def name_of(pair: Sequence[str]) -> str:
    """Source and target."""
    return f"{pair[1].split('/')[-1]} -> {pair[3]}"


COLUMNS = (
    *(TableColumn(name, name) for name in ("rule", "pair")),
    number("trials", "trials spent", ",.0f"),
    number("saved", "saved", ".0%"),
    *(number(f"{name}_lost", f"{name} lost", "+.4f") for name in METRICS),
    number("pairwise_lost_se", "se", ".4f"),
    number("worst", "worst pairwise", "+.4f"),
    number("fixed_lost", "a fixed share loses", "+.4f"),
)


@click.command()
@click.option("--pair", "chosen", multiple=True, help="A part of the pair's name; all by default.")
@options.seeds(3)
@options.quick("One pair, one seed, 128 trials.")
@options.rows_file()
@options.json_file()
def main(chosen: tuple[str, ...], seeds: int, quick: bool, rows_path: Path | None, path: Path | None) -> None:
    """Adapts models of every pair of devices to the cap, and replays the rules."""
    cap = 128 if quick else CAP
    kept = RowFile(rows_path, KEY, cap=cap)
    pairs = [pair for pair in PAIRS if is_new(pair) and (not chosen or any(text in name_of(pair) for text in chosen))]
    for seed in range(1 if quick else seeds):
        for pair in pairs[: 1 if quick else None]:
            if (name_of(pair), seed) in kept:
                continue
            began = time.perf_counter()
            batches = list(recorded(opened(pair, seed), seed, cap))
            kept.add({"pair": name_of(pair), "seed": seed, "batches": batches})
            click.echo(f"{name_of(pair)}, seed {seed}: {time.perf_counter() - began:.0f} s")
    result = summaries(list(kept))
    click.echo(plain_table(result["rows"], COLUMNS))
    machine.write_result(path, {"cap": cap, **result})
