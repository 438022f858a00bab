"""Adapts a shipped model to a chip that it has not learned from: what trials on the chip add."""

from __future__ import annotations

import time
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import click
import numpy as np

from costhub.api.models import read_model
from costhub.cards.tables import TableColumn, number, plain_table
from costhub.dataset.folder import DataFolder
from costhub.dataset.load import load_programs
from costhub.dataset.splits.split import load_split
from costhub.hub.catalogue.devices import device_rows
from costhub.hub.catalogue.find import find_model
from costhub.models.evaluate import evaluate
from costhub.models.protocol import CostModel
from costhub.transfer.methods.corrected import Corrected
from costhub.transfer.methods.lottery import Lottery
from costhub.transfer.methods.method import FineTune, TransferMethod
from scripts.bench.common import machine, options
from scripts.bench.common.data import DATASETS
from scripts.bench.common.rows import RowFile
from scripts.bench.transfer.tasks import SPEC, fitted, measured

METRICS = ("top_1", "top_5", "pairwise")
SPLIT = "workload-40-seed0"
TRIALS = (64, 128, 256, 512, 1024, 2560)
METHODS: dict[str, TransferMethod] = {"corrected": Corrected(), "fine-tune": FineTune(), "lottery": Lottery()}
FROZEN, SCRATCH = "unchanged", "from nothing"
KEY = ("device", "method", "trials", "seed")
COLUMNS = (
    *(TableColumn(name, name) for name in ("device", "method")),
    number("trials", "trials", ",d"),
    number("seed", "seed", "d"),
    *(number(name, name, ".3f") for name in METRICS),
    number("gain", "pairwise gained", "+.4f"),
    number("gain_se", "se"),
)
Row = dict[str, Any]


class ChipTask:
    """The unchanged model, the programs that can be measured, and the held-out ones."""

    def __init__(self, dataset: str, device_id: str, source: str) -> None:
        found = find_model(source)
        if device_id in found.entry.devices:
            raise click.UsageError(f"{source} has learned from {device_id}: name a model that has not with --source.")
        data = DATASETS / dataset
        split = load_split(data, SPLIT)
        programs = load_programs(data, device=device_id, spec=SPEC)
        self.device_id = device_id
        self.pool, self.test = (programs.of_workloads(set(side)) for side in (split.train, split.test))
        self.source = read_model(found).bind(device_rows(data, [device_id])[device_id])
        self._unchanged = self._by_workload(self.source)

    def rows(self, trials: tuple[int, ...], seed: int, kept: RowFile) -> Iterator[Row]:
        """The figures of each method after each number of trials, but those kept already."""
        if (self.device_id, FROZEN, 0, "") not in kept:
            yield {"device": self.device_id, "method": FROZEN, "trials": 0, "seed": "", **self._figures(self.source)}
        for count in trials:
            few = measured(self.pool, count, seed)
            for name in (*METHODS, SCRATCH):
                if (self.device_id, name, count, seed) in kept:
                    continue
                began = time.perf_counter()
                model = METHODS[name].adapt(self.source, few, seed=seed) if name in METHODS else fitted(few, seed)
                about = {"device": self.device_id, "method": name, "trials": count, "seed": seed}
                yield {**about, "seconds": time.perf_counter() - began, **self._figures(model)}

    def _by_workload(self, model: CostModel) -> dict[str, float]:
        return {row.workload_id: row.pairwise for row in evaluate(model, self.test).workloads}

    def _figures(self, model: CostModel) -> Row:
        evaluation = evaluate(model, self.test)
        gains = np.array([row.pairwise - self._unchanged[row.workload_id] for row in evaluation.workloads])
        figures = {name: evaluation.totals[name] for name in METRICS}
        error = float(gains.std(ddof=1) / len(gains) ** 0.5)
        return {**figures, "workloads": len(gains), "gain": float(gains.mean()), "gain_se": error}


@click.command()
@click.option("--dataset", default="amd-epyc-zen4", show_default=True, help="Embedded dataset with the chip's data.")
@click.option("--source", default="costhub/amd-epyc-zen5-2c-mlp", show_default=True, help="The model to adapt.")
@options.seeds(3)
@options.quick("One seed, 64 trials, one device.")
@options.rows_file()
@options.json_file()
def main(dataset: str, source: str, seeds: int, quick: bool, rows_path: Path | None, path: Path | None) -> None:
    """Ranks 40 workloads of the chip that neither the model nor its adapting has seen."""
    kept = RowFile(rows_path, KEY, source=source)
    devices = DataFolder.open(DATASETS / dataset).device_ids()
    for device_id in devices[: 1 if quick else None]:
        task = ChipTask(dataset, device_id, source)
        for seed in range(1 if quick else seeds):
            for row in task.rows(TRIALS[:1] if quick else TRIALS, seed, kept):
                kept.add(row)
                click.echo(f"{device_id}, {row['method']}, {row['trials']} trials: pairwise {row['pairwise']:.4f}")
    click.echo(plain_table(kept.all, COLUMNS))
    machine.write_result(path, {"split": SPLIT, "source": source, "rows": _short(kept.all)})


def _short(rows: list[Mapping[str, Any]] | list[Row]) -> list[Row]:
    """Rows with figures rounded to what their errors justify."""
    return [{k: round(v, 5) if isinstance(v, float) else v for k, v in row.items()} for row in rows]
