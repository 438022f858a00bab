"""Measures whether the spread of an ensemble predicts its errors on workloads that it has not seen."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import click
import numpy as np

from costhub.dataset.folder import DataFolder
from costhub.models.evaluate import evaluate_scores
from scripts.bench.common import machine, options
from scripts.bench.common.data import own_copy
from scripts.bench.models.calibration import calibrate
from scripts.bench.models.grid import TILES, GridEntry
from scripts.bench.models.tasks import DeviceData
from scripts.tables.plots import plot_calibration

ENTRIES = {
    "trees": GridEntry("ensemble", TILES, "", {"member": "gbt"}),
    "networks": GridEntry("ensemble", TILES, "", {"member": "mlp(objective=regression)"}),
}


@click.command()
@options.data()
@click.option("--device", "devices", multiple=True, help="All by default.")
@click.option("--split", help="Of the folder; the first default one otherwise.")
@options.seeds(3)
@options.quick("Trees on one device, one seed.")
@options.json_file("A picture goes beside it.")
def main(
    data: Path | None, devices: tuple[str, ...], split: str | None, seeds: int, quick: bool, path: Path | None
) -> None:
    """Fits ensembles on the train side of a split and compares spread and error on its test side."""
    data = data or own_copy()
    devices = devices or tuple(DataFolder.open(data).device_ids())
    entries = dict(ENTRIES)
    if quick:
        devices, seeds, entries = devices[:1], 1, {"trees": ENTRIES["trees"]}
    rows: list[dict[str, Any]] = []
    for device in devices:
        source = DeviceData(data, device)
        names = [split] if split else source.default_splits()[:1]
        for member, entry in entries.items():
            runs = [fitted(source, entry, names, seed) for seed in range(seeds)]
            mean = {key: float(np.mean([one[key] for one in runs])) for key in ("rank_correlation", "ratio", "top_1")}
            covered = {level: float(np.mean([one["covered"][level] for one in runs])) for level in runs[0]["covered"]}
            bins = np.mean([one["bins"] for one in runs], axis=0).tolist()
            rows.append(
                {
                    "device": device,
                    "member": member,
                    "split": names[0],
                    "seeds": seeds,
                    **mean,
                    "covered": covered,
                    "bins": bins,
                }
            )
            click.echo(json.dumps(rows[-1]))
    if path:
        machine.write_result(path, {"rows": rows})
        plot_calibration(path.with_suffix(".png"), {f"{row['member']}, {row['device']}": row for row in rows})


def fitted(source: DeviceData, entry: GridEntry, names: list[str], seed: int) -> dict[str, Any]:
    """The calibration of one ensemble on the first part of the split."""
    part = next(iter(source.parts(names, seed)))
    train, test = source.sides(part, entry, seed)
    model: Any = entry.make()
    model.fit(train, None, seed=seed, progress=False)
    mean, std = model.predict_with_spread(test.rows, test.counts)
    # All members regress, so that their scores are throughput itself.
    return {**calibrate(mean, std, test).to_json(), "top_1": evaluate_scores(mean, test).top_1}
