"""Compares cost models with TVM's own recipe and with random choice, on workloads none of them has seen."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import click
import machine
import numpy as np

from costhub.cards.tables import Column, number, plain_table
from costhub.dataset.folder import DataFolder
from costhub.dataset.load import load_programs
from costhub.dataset.programs import Programs
from costhub.dataset.split import load_split, split_by_workload
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
@click.option("--data", required=True, type=click.Path(path_type=Path))
@click.option("--device")
@click.option(
    "--split", "split_file", type=click.Path(path_type=Path), help="Fixed split; else one drawn per seed."
)
@click.option("--held-out", default=12, type=click.IntRange(min=1), help="Workloads, of every operator.")
@click.option("--quick", is_flag=True, help="One seed.")
@click.option("--json", "path", type=click.Path(path_type=Path))
def main(
    data: Path, device: str | None, split_file: Path | None, held_out: int, quick: bool, path: Path | None
) -> None:
    """Trains on the other workloads and ranks the programs of the held-out ones, with three seeds."""
    device = device or DataFolder.open(data).device_ids()[0]
    programs, rows = load_programs(data, device=device), list[dict[str, Any]]()
    about = DataFolder.open(data).workloads().select(["workload_id", "operator"]).to_pylist()
    about = [row for row in about if row["workload_id"] in programs.workload_ids]
    for seed in range(1 if quick else 3):
        split = (
            load_split(split_file) if split_file else split_by_workload(about, held_out=held_out, seed=seed)
        )
        sides = [programs.of_workloads(set(ids)) for ids in (split.train, split.test)]
        for model, found in compare(sides[0], sides[1], seed).items():
            rows.append({"device": device, "model": model, "seed": seed, "split": split.name, **found.totals})
    spread = {model: np.array([[r[m] for m in METRICS] for r in rows if r["model"] == model]) for model in
              dict.fromkeys(r["model"] for r in rows)}  # fmt: skip
    table = [{"model": k, **dict(zip(METRICS, v.mean(0), strict=True)),
              **dict(zip((f"{m}_std" for m in METRICS), v.std(0), strict=True))} for k, v in spread.items()]  # fmt: skip
    click.echo(plain_table(table, COLUMNS))
    if path:
        path.write_text(
            json.dumps(
                {**machine.describe(), "programs": programs.n, "summary": table, "rows": rows}, indent=1
            )
        )


if __name__ == "__main__":
    main()
