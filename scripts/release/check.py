"""Pulls the models of each device, evaluates them on unseen workloads, and compares that with their cards."""

from __future__ import annotations

import json
import os
import statistics
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

import click

from costhub.cards.model_card import parse
from costhub.cards.tables import TableColumn, number, plain_table
from costhub.dataset.folder import DataFolder
from costhub.hub.catalogue.hubs import EMBEDDED, EVALUATION, ModelEntry, list_models, models_for
from costhub.models.evaluate import METRICS
from scripts.bench.common import machine, options
from scripts.bench.common.data import copy_dataset, embedded_datasets
from scripts.bench.common.rows import earlier_rows

AS_EQUAL = 1e-5
"""Sums of floating-point numbers in another order change the order of programs with nearly equal scores: a mean over
workloads changes by less than this."""
COLUMNS = (
    TableColumn("device", "device"),
    TableColumn("arch", "model"),
    number("workloads", "held-out workloads", "d"),
    *(number(name, name, ".3f") for name in METRICS),
    TableColumn("equal", "as its card"),
    number("bytes", "bytes", ",d"),
)


def costhub(*words: str, cache: Path) -> str:
    """What a command prints, in a process and with a cache of its own."""
    environment = {**os.environ, "COSTHUB_CACHE": str(cache), "HF_HUB_OFFLINE": "1"}
    command = [sys.executable, "-c", "from costhub.cli.main import main; main()", *words]
    done = subprocess.run(command, env=environment, capture_output=True, text=True, check=False)
    if done.returncode:
        raise click.ClickException(f"costhub {' '.join(words)}: {done.stderr.strip()}")
    return done.stdout


def row_of(entry: ModelEntry, device: str, data: Path, place: Path) -> dict[str, Any]:
    """The figures of a model on a device, pulled by the name of the device, beside those of its card."""
    folder = place / f"{device}-{entry.arch}"
    costhub("pull", device, "--arch", entry.arch, "--out", str(folder), cache=place / "cache")
    words = ("evaluate", str(folder), "--data", str(data), "--device", device, "--json")
    now = json.loads(costhub(*words, cache=place / "cache"))
    card = parse((folder / "README.md").read_text(encoding="utf-8"))
    recorded = json.loads((folder / EVALUATION).read_text(encoding="utf-8"))
    own = [row for row in recorded["workloads"] if row["device_id"] == device]
    # Data may hold more workloads that the model has not learned from than those that its card is about.
    held_out = {row["workload_id"] for row in own}
    tested = [row for row in now["workloads"] if row["workload_id"] in held_out]
    totals = {name: statistics.fmean(row[name] for row in tested) for name in METRICS}
    # The card's total is that of its figures, which are of this device or of several.
    pairs = [(totals[name], statistics.fmean(row[name] for row in own)) for name in METRICS]
    pairs += [(card.totals[name], recorded["totals"][name]) for name in METRICS]
    equal = len(own) == len(tested) and all(abs(a - b) <= AS_EQUAL for a, b in pairs)
    return {
        "device": device,
        "arch": entry.arch,
        "model": entry.name,
        "default": _is_default(entry.name, device),
        "workloads": len(tested),
        **totals,
        "equal": "yes" if equal else "no",
        "bytes": sum(path.stat().st_size for path in folder.rglob("*") if path.is_file()),
    }


def _is_default(model: str, device: str) -> bool:
    return model == models_for(device)[0].name


@click.command()
@click.option("--model", "models", multiple=True, help="Only this model; the rows of others stay in the results.")
@options.quick("One model.")
@options.json_file()
def main(models: tuple[str, ...], quick: bool, path: Path | None) -> None:
    """Exits with 1 if a model is not as good as its card says."""
    rows: list[dict[str, Any]] = []
    entries = [entry for entry in list_models() if entry.folder.is_relative_to(EMBEDDED)]
    if unknown := sorted({*models} - {entry.name for entry in entries}):
        raise click.UsageError(f"The package has no model named {unknown[0]!r}.")
    with tempfile.TemporaryDirectory() as folder:
        copies = [copy_dataset(folder, place.name) for place in embedded_datasets()]
        data = {device: copy for copy in copies for device in DataFolder.open(copy).device_ids()}
        for entry in sorted(entries, key=lambda entry: (entry.device_id, entry.arch)):
            if (quick and rows) or (models and entry.name not in models):
                continue
            # A model of many devices has figures of each device that it has learned from.
            for device in entry.trained_on or (entry.device_id,):
                rows.append(row_of(entry, device, data[device], Path(folder)))
                click.echo(plain_table(rows[-1:], COLUMNS))
    others = earlier_rows(path) if models else []
    kept = [row | {"default": _is_default(row["model"], row["device"])} for row in others if row["model"] not in models]
    order = {row["model"]: place for place, row in reversed(list(enumerate([*others, *rows])))}
    machine.write_result(path, {"rows": sorted([*kept, *rows], key=lambda row: order[row["model"]])})
    if any(row["equal"] == "no" for row in rows):
        raise SystemExit(1)
