"""Provides `costhub evaluate`: how well a model ranks the programs of a data folder."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from costhub.cards.tables import Column, number, plain_table

if TYPE_CHECKING:
    from costhub.models.evaluate import Evaluation

EXAMPLE = """
\b
Example:
  costhub evaluate nvidia-h200 --data measurements/
  costhub evaluate my-model/ --data measurements/ --split my-split.json --json
"""

COLUMNS = (
    Column("workload", "workload"),
    Column("operator", "operator"),
    number("programs", "programs", "d"),
    number("top_1", "top_1"),
    number("top_5", "top_5"),
    number("pairwise", "pairwise"),
    number("spearman", "spearman"),
)


@click.command("evaluate", epilog=EXAMPLE)
@click.argument("model")
@click.option(
    "--data", required=True, type=click.Path(path_type=Path), help="Data folder with the measurements."
)
@click.option("--device", help="Device whose measurements to use; may be left out where there is only one.")
@click.option(
    "--split", help="Split, by name in the data folder or as a file: evaluate on its test workloads only."
)
@click.option("--all", "every", is_flag=True, help="Also workloads the model has learned from.")
@click.option("--noise-floor", default=0.02, show_default=True, type=click.FloatRange(0, 1, max_open=True),
              help="Relative difference below which two programs count as equally fast.")  # fmt: skip
@click.option("--json", "as_json", is_flag=True, help="Print JSON for programs.")
def command(
    model: str,
    data: Path,
    device: str | None,
    split: str | None,
    every: bool,
    noise_floor: float,
    as_json: bool,
) -> None:
    """Score MODEL (a name, an address or a model folder) on measured programs.

    Workloads that the model has learned from are left out unless --all is given: their figures say nothing.
    """
    from costhub.dataset.load_programs import load_programs
    from costhub.dataset.splits.split_file import find_split
    from costhub.errors import DataError
    from costhub.hub.pull import resolve
    from costhub.models.evaluate import evaluate
    from costhub.models.folder import load_model

    loaded, info = load_model(resolve(model))
    chosen = find_split(data, split) if split is not None else None
    wanted = set(chosen.test) if chosen else workload_ids(data)
    if chosen and chosen.test_devices:
        device = device or (chosen.test_devices[0] if len(chosen.test_devices) == 1 else None)
        chosen.check_device(device or "", "test")
    # On a device that is new to the model, a workload that it knows from another one is a fair test.
    new_device = chosen is not None and bool(chosen.test_devices) and info.device_id != device
    if not every and not new_device:
        wanted -= set(info.train_workloads)
    if not wanted:
        raise DataError(
            f"{model} has learned from every workload asked for. Give --all to evaluate on those."
        )
    programs = load_programs(data, device=device, workloads=wanted, spec=info.feature_spec)
    evaluation = evaluate(loaded, programs, noise_floor=noise_floor)
    figures = described(evaluation, data)
    click.echo(json.dumps(figures, indent=2) if as_json else table(figures))


def workload_ids(data: Path) -> set[str]:
    """The ids of all workloads of a data folder."""
    from costhub.dataset.folder import DataFolder

    return set(DataFolder.open(data).workloads()["workload_id"].to_pylist())


def described(evaluation: Evaluation, data: Path) -> dict[str, Any]:
    """The evaluation as JSON values, with the name and operator of every workload, as cards want it."""
    from costhub.dataset.folder import DataFolder

    table = DataFolder.open(data).workloads().select(["workload_id", "name", "operator"])
    known: dict[str, Mapping[str, Any]] = {row["workload_id"]: row for row in table.to_pylist()}
    figures = evaluation.to_json()
    for row in figures["workloads"]:
        about = known.get(row["workload_id"], {})
        row["workload"] = about.get("name") or row["workload_id"][:12]
        row["operator"] = about.get("operator")
        row["programs"] = row.pop("n")
    figures["workloads"].sort(key=lambda row: (row["operator"] or "", row["workload"]))
    return figures


def table(figures: Mapping[str, Any]) -> str:
    """The figures as text: one line per workload, their means last."""
    rows = figures["workloads"]
    total = {
        "workload": f"mean of {len(rows)}",
        "programs": sum(row["programs"] for row in rows),
        **figures["totals"],
    }
    lines = [plain_table([*rows, total], COLUMNS)]
    if figures["skipped"]:
        lines.append(
            f"{len(figures['skipped'])} workloads left out: no two of their programs differ by more than "
            f"{figures['noise_floor']:.0%}."
        )
    return "\n".join(lines)
