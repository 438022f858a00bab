"""Transfers between GPUs: from each to each, from nothing, and a model of all others that is told what a GPU can do."""

from __future__ import annotations

import time
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any

import click
import numpy as np

from costhub.cards.tables import TableColumn, number, plain_table
from costhub.dataset.credit import is_replayed
from costhub.dataset.folder import DataFolder
from costhub.dataset.programs import Programs
from costhub.hub.catalogue.devices import device_rows
from costhub.models.architectures import new_model
from costhub.models.compound.conditioned import Conditioned
from costhub.models.evaluate import evaluate, evaluate_scores
from costhub.models.protocol import CostModel
from costhub.transfer.guard import Guard
from costhub.transfer.methods.corrected import Corrected
from costhub.transfer.methods.lottery import Lottery
from costhub.transfer.methods.method import FineTune, TransferMethod
from scripts.bench.common import machine, options
from scripts.bench.common.data import DATASETS, folds
from scripts.bench.common.rows import RowFile
from scripts.bench.transfer.tasks import (
    GPU_PROGRAMS,
    GPUS,
    MEMBERS,
    PARTS,
    SPEC,
    fitted,
    gpu_programs,
    guarded,
    measured,
)
from scripts.tables.gpus import FEW, MANY, POOLED, TOLD
from scripts.tables.transfer import EVERYTHING, KEY, METRICS, summaries

METHODS: dict[str, TransferMethod] = {"fine-tune": FineTune(), "lottery 0.5": Lottery(), "corrected": Corrected()}
TRIALS = (32, 128, 512)
GUARDED = (32, 64, 128, 256, 512)
"""Trials of the guarded transfer, which learns anew after each 32 of them."""
EACH = 64
"""Programs of a workload that a model of a source device learns from."""
FEWER = 32
"""The same, of a model of four devices."""
COLUMNS = (
    *(TableColumn(name, name) for name in ("source", "target", "method")),
    number("trials", "trials", "d"),
    number("seeds", "seeds", "d"),
    *(part for name in METRICS for part in (number(name, name), number(f"{name}_se", "se"))),
)
Row = dict[str, Any]


@dataclass
class GpuData:
    """The measurements of all GPUs, and the models that learned from one of them, for one choice of workloads."""

    programs: Mapping[str, Programs]
    seed: int
    held_out: frozenset[str]
    """Workloads that no model learns from, on no device."""
    _sources: dict[str, CostModel] = field(default_factory=dict)
    _alone: dict[tuple[str, int], CostModel] = field(default_factory=dict)

    @classmethod
    def drawn(cls, programs: Mapping[str, Programs], about: Sequence[Row], seed: int) -> GpuData:
        """Holds out a part of the workloads, of every operator."""
        return cls(programs, seed, folds(about, PARTS, seed)[0].test)

    def pool(self, device: str) -> Programs:
        """What a device may learn from."""
        own = self.programs[device]
        return own.of_workloads(set(own.workload_ids) - self.held_out)

    def test(self, device: str) -> Programs:
        """What a device is tested on."""
        return self.programs[device].of_workloads(set(self.held_out))

    def source(self, device: str) -> CostModel:
        """The model of a device alone, trained once."""
        if device not in self._sources:
            self._sources[device] = fitted(self.pool(device).at_most(EACH, seed=self.seed), self.seed)
        return self._sources[device]

    def alone(self, device: str, few: Programs) -> CostModel:
        """The model of the first programs that a device measures, trained once for the guards of all sources."""
        key = device, few.n
        if key not in self._alone:
            self._alone[key] = fitted(few, self.seed)
        return self._alone[key]

    def others(self, target: str) -> Programs:
        """What a model of all other devices learns from."""
        rest = [self.pool(name).at_most(FEWER, seed=self.seed) for name in GPUS if name != target]
        return Programs.join(rest)


def pair_rows(data: GpuData, source: str, target: str, trials: Sequence[int], done: Collection[Any]) -> Iterator[Row]:
    """The figures of a source on a target, unchanged and after each number of trials by each method."""
    test, pool, seed = data.test(target), data.pool(target), data.seed
    about = {"source": source, "target": target, "seed": seed, "part": ""}
    if ("frozen", 0) not in done:
        yield {**about, "method": "frozen", "trials": 0, **figures(data.source(source), test)}
    with_guard = {count for count in GUARDED if count <= max(trials)}
    adapted: dict[int, tuple[str, ...]] = {count: (*METHODS,) for count in trials} | {FEW: ("corrected",)}
    adapted |= {count: () for count in with_guard - adapted.keys()}
    wanted = {(name, count) for count, names in adapted.items() for name in names}
    if wanted | {("guarded", count) for count in with_guard} <= set(done):
        return  # without training the source again
    alike = len({is_replayed(DATASETS / name, name) for name in (source, target)}) == 1
    alone = partial(_alone, data, target)
    guard = Guard(data.source(source), Corrected(), seed=seed, is_alike=alike, local=alone)
    for count, names in sorted(adapted.items()):
        few = measured(pool, count, seed)
        for name in names:
            if (name, count) not in done:
                source_programs = data.pool(source)
                model = METHODS[name].adapt(data.source(source), few, seed=seed, source_programs=source_programs)
                yield {**about, "method": name, "trials": count, **figures(model, test)}
        if count in with_guard and ("guarded", count) not in done:
            model = guarded(guard, few)
            yield {**about, "method": "guarded", "trials": count, "chosen": guard.chosen, **figures(model, test)}


def _alone(data: GpuData, target: str, few: Programs, seed: int) -> CostModel:
    """Learns as the local model of a guard does by itself."""
    assert seed == data.seed
    return data.alone(target, few)


def target_rows(data: GpuData, target: str, trials: Sequence[int], done: Collection[Any]) -> Iterator[Row]:
    """The figures of models that learn from the target alone, from nothing, and of a random order."""
    test, pool, seed = data.test(target), data.pool(target), data.seed
    about = {"source": "", "target": target, "seed": seed, "part": ""}
    if ("random", 0) not in done:
        totals = evaluate_scores(np.random.default_rng(seed).random(test.n), test).totals
        yield {**about, "method": "random", "trials": 0, **{name: totals[name] for name in METRICS}}
    for count in sorted({*trials, *GUARDED, FEW, MANY}):
        if ("scratch blend", count) not in done and count <= pool.n:
            model = fitted(measured(pool, count, seed), seed)
            yield {**about, "method": "scratch blend", "trials": count, **figures(model, test)}
    if (EVERYTHING, 0) not in done:
        yield {**about, "method": EVERYTHING, "trials": 0, **figures(data.source(target), test)}


def others_rows(data: GpuData, target: str, done: Collection[Any]) -> Iterator[Row]:
    """The figures of models of the four other devices on a target that they have never seen."""
    about = {"target": target, "seed": data.seed, "part": "", "method": "frozen", "trials": 0}
    own = [name for name in (TOLD, POOLED) if name not in done]
    for name in own:
        train = data.others(target)
        if name == TOLD:
            rows = {device: device_rows(DATASETS / device, [device])[device] for device in GPUS}
            told = new_model("conditioned", feature_spec=SPEC, options={"base": "blend"})
            told.add_devices(rows)
            told.fit(train, None, seed=data.seed, progress=False)
            assert isinstance(told, Conditioned)
            model: CostModel = told.bind(rows[target])
        else:
            model = new_model("blend", feature_spec=SPEC, options={"members": MEMBERS})
            model.fit(train, None, seed=data.seed, progress=False)
        yield {**about, "source": name, **figures(model, data.test(target))}


def figures(model: CostModel, test: Programs) -> Row:
    """METRICS of a model on held-out programs."""
    totals = evaluate(model, test).totals
    return {name: totals[name] for name in METRICS}


@click.command()
@click.option("--seed", "chosen", type=int, multiple=True, default=(0, 1, 2), show_default=True, help="Each once.")
@click.option("--target", "targets", type=click.Choice(GPUS), multiple=True, help="All by default.")
@options.quick("From the K80 to the H200, one seed, 32 trials.")
@options.rows_file()
@options.json_file()
def main(
    chosen: tuple[int, ...], targets: tuple[str, ...], quick: bool, rows_path: Path | None, path: Path | None
) -> None:
    """Ranks held-out workloads of each GPU by models of the others, after 0 to 512 trials on the target's."""
    # The quick form holds out other workloads, so its rows are not those of a run over all GPUs.
    kept = RowFile(None if quick else rows_path, (*KEY, "seed"))
    names = (GPUS[0], GPUS[-1]) if quick else GPUS
    programs = gpu_programs(names)
    columns = ["workload_id", "name", "operator"]
    rows = {
        row["workload_id"]: row for n in names for row in DataFolder.open(DATASETS / n).workloads(columns).to_pylist()
    }
    trials = TRIALS[:1] if quick else TRIALS
    for seed in chosen[: 1 if quick else None]:
        data = GpuData.drawn(programs, list(rows.values()), seed)
        for target in names[1:] if quick else targets or GPUS:
            _add(kept, target_rows(data, target, trials, _done(kept, "", target, seed)))
            for source in names:
                if source != target:
                    _add(kept, pair_rows(data, source, target, trials, _done(kept, source, target, seed)))
            if not quick:
                told = {name for name in (TOLD, POOLED) if _done(kept, name, target, seed)}
                _add(kept, others_rows(data, target, told))
    table = summaries(kept)
    click.echo(plain_table(table, COLUMNS))
    machine.write_result(path, {"key": KEY, "drawn": GPU_PROGRAMS, "each": EACH, "of_others": FEWER, "summary": table})


def _done(kept: RowFile, source: str, target: str, seed: int) -> set[tuple[str, int]]:
    about = (source, target, seed)
    return {(row["method"], row["trials"]) for row in kept if (row["source"], row["target"], row["seed"]) == about}


def _add(kept: RowFile, rows: Iterator[Row]) -> None:
    """Keeps each row as it comes: an interruption loses the one in work."""
    began = time.perf_counter()
    for row in rows:
        kept.add({**row, "seconds": time.perf_counter() - began})
        click.echo(f"{row['source'] or '-'} -> {row['target']}, seed {row['seed']}: {row['method']}, {row['trials']}")
        began = time.perf_counter()
