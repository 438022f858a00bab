"""Compares cost models with TVM's own recipe and with random choice, on workloads none of them has seen."""

from __future__ import annotations

import json
import tempfile
from pathlib import Path
from typing import Any

import click
import machine
import numpy as np
from embedded import DEVICE, SPLIT, copy_dataset

from costhub.cards.tables import Column, number, plain_table
from costhub.dataset.folder import DataFolder
from costhub.dataset.load_programs import load_programs
from costhub.dataset.programs import Programs
from costhub.dataset.splits.split_file import load_split
from costhub.dataset.splits.split_rules import split_by_workload
from costhub.models.architectures import ARCHITECTURES
from costhub.models.evaluate import METRICS, Evaluation, evaluate, evaluate_scores
from costhub.models.train import train_model
from costhub.models.tvm_xgb import TvmXgb

COLUMNS = (
    Column("model", "model"),
    *(number(m, m) for m in METRICS),
    *(number(f"{m}_std", "std") for m in METRICS),
)


def compare(train: Programs, test: Programs, seed: int) -> dict[str, Evaluation]:
    """Each model, trained and evaluated; "random" is the exact expectation over random orders."""
    stock = TvmXgb()
    stock.fit(train, seed=seed)
    baselines = {"random": np.zeros(test.n), "tvm-xgb": stock.predict(test.rows, test.counts)}
    found = {name: evaluate_scores(scores, test) for name, scores in baselines.items()}
    return found | {arch: evaluate(train_model(train, arch, seed=seed), test) for arch in ARCHITECTURES}


@click.command()
@click.option("--data", type=click.Path(path_type=Path), help="Data folder; the embedded dataset by default.")
@click.option("--device", default=DEVICE, show_default=True, help="Whose measurements.")
@click.option("--split", type=click.Path(path_type=Path), help="Split file; else one is drawn for each seed.")
@click.option("--held-out", default=12, type=click.IntRange(min=1), help="Workloads, of every operator.")
@click.option("--quick", is_flag=True, help="One seed.")
@click.option("--json", "path", type=click.Path(path_type=Path))
def main(
    data: Path | None, device: str, split: Path | None, held_out: int, quick: bool, path: Path | None
) -> None:
    """Trains on the other workloads and ranks the programs of the held-out ones, with three seeds."""
    with tempfile.TemporaryDirectory() as folder:
        if data is None:
            data = copy_dataset(folder)
            split = data / SPLIT
        programs = load_programs(data, device=device)
        about = DataFolder.open(data).workloads().select(["workload_id", "operator"]).to_pylist()
        fixed = load_split(split) if split else None
    about = [row for row in about if row["workload_id"] in programs.workload_ids]
    rows: list[dict[str, Any]] = []
    for seed in range(1 if quick else 3):
        chosen = fixed or split_by_workload(about, held_out=held_out, seed=seed)
        train, test = (programs.of_workloads(set(ids)) for ids in (chosen.train, chosen.test))
        for model, found in compare(train, test, seed).items():
            rows.append(
                {"device": device, "model": model, "seed": seed, "split": chosen.name, **found.totals}
            )
    table = [summary(model, rows) for model in dict.fromkeys(row["model"] for row in rows)]
    click.echo(plain_table(table, COLUMNS))
    if path:
        result = {**machine.describe(), "programs": programs.n, "summary": table, "rows": rows}
        path.write_text(json.dumps(result, indent=1))


def summary(model: str, rows: list[dict[str, Any]]) -> dict[str, Any]:
    """Mean and spread over seeds of a model's figures."""
    values = np.array([[row[m] for m in METRICS] for row in rows if row["model"] == model])
    means = dict(zip(METRICS, values.mean(axis=0), strict=True))
    return {
        "model": model,
        **means,
        **{f"{m}_std": s for m, s in zip(METRICS, values.std(axis=0), strict=True)},
    }


if __name__ == "__main__":
    main()
