"""Provides the figures of a model on held-out workloads, as values and as text."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from costhub.cards.tables import TableColumn, number, plain_table
from costhub.models.evaluate import METRICS
from costhub.terminal_text import counted

if TYPE_CHECKING:
    from costhub.hub.data import DataAddress
    from costhub.models.evaluate import Evaluation

_FIGURES = tuple(number(name, name) for name in METRICS)


def figures_text(figures: Mapping[str, Any]) -> str:
    """An evaluation for a terminal: workloads, their mean, its standard error, then families and networks.

    Args:
        figures: As `costhub evaluate --json` prints them.
    """
    rows = figures["workloads"]
    several = len({row.get("device_id", "") for row in rows}) > 1
    device = (TableColumn("device_id", "device"),) if several else ()
    columns = (TableColumn("workload", "workload"), TableColumn("operator", "operator"), *device)
    errors = figures.get("standard_errors", {})
    total = {
        "workload": f"mean of {len(rows)}",
        "programs": sum(row["programs"] for row in rows),
        **figures["totals"],
    }
    error = {"workload": "standard error", **errors, "programs": ""}
    parts = [plain_table([*rows, total, error], (*columns, number("programs", "programs", "d"), *_FIGURES))]
    counts = (number("workloads", "workloads", "d"), number("programs", "programs", "d"))
    if figures.get("operators"):
        parts.append(plain_table(figures["operators"], (TableColumn("operator", "operator"), *counts, *_FIGURES)))
    if figures.get("networks"):
        weighted = (number("top_1_weighted", "top_1 weighted"), number("top_5_weighted", "top_5 weighted"))
        named = (TableColumn("network", "network"), *counts, *_FIGURES, *weighted)
        parts.append(plain_table(figures["networks"], named))
    if figures.get("variants"):
        parts.append("  ".join(f"{name} {value:.3f}" for name, value in figures["variants"].items()))
    return "\n\n".join(parts)


def evaluated(
    model: str,
    place: DataAddress,
    devices: tuple[str, ...],
    *,
    split: str | None,
    every: bool,
    noise_floor: float,
) -> Evaluation:
    """Evaluates a model on the programs of a data folder, and names it on stderr.

    Args:
        model: A name, an address, a model folder, or FILE.py:NAME.
        place: The data; the device that it names is the only one by default.
        devices: Whose measurements to use; may be empty if the data or the split have only one.
        split: Evaluate on its test workloads only.
        every: Include workloads that the model was trained on.
        noise_floor: Relative difference below which two programs count as equally fast.

    Raises:
        DataError: The model was trained on all requested workloads.
        CosthubError: The model, data folder, device or split does not exist.
    """
    from costhub.api.evaluation import evaluate_measurements, find_measurements
    from costhub.api.models import resolve_model
    from costhub.hub.catalogue.find import ResolvedModel
    from costhub.models.own_code import name_of, scorer_given

    choice = scorer_given(model) or resolve_model(model)
    # Before the model is named: a wrong name is answered by one sentence alone.
    tested, measured = find_measurements(place, devices, split)
    if isinstance(choice, ResolvedModel):
        click.echo(f"Model {choice.entry.name or model} ({choice.entry.arch}).", err=True)
    else:
        click.echo(f"Model {name_of(choice)}, from {model}.", err=True)
    return evaluate_measurements(choice, place, tested, measured, every=every, noise_floor=noise_floor)


def described_figures(evaluation: Evaluation, data: Path) -> dict[str, Any]:
    """The evaluation as JSON values, with the name and operator of every workload, as cards use it.

    Adds to `Evaluation.to_json`: `operators` and `networks`, the same figures by family and by network, and
    `variants`, the totals of the literature if the data name networks.
    """
    from costhub.dataset.folder import DataFolder
    from costhub.dataset.programs import workload_uses
    from costhub.models.evaluate import by_network, by_operator, network_top_k

    about = DataFolder.open(data).workloads(["workload_id", "name", "operator", "networks"])
    known: dict[str, Mapping[str, Any]] = {row["workload_id"]: row for row in about.to_pylist()}
    uses = workload_uses(about)
    figures = evaluation.to_json()
    for row in figures["workloads"]:
        found = known.get(row["workload_id"], {})
        row["workload"] = found.get("name") or row["workload_id"][:12]
        row["operator"] = found.get("operator")
        row["programs"] = row.pop("n")
    figures["workloads"].sort(key=lambda row: (row["operator"] or "", row["workload"], row["device_id"]))
    figures["operators"] = [
        {"operator": name, **_part_figures(part)} for name, part in by_operator(evaluation, uses).items()
    ]
    networks = {k: network_top_k(evaluation, uses, k=k) for k in (1, 5)}
    figures["networks"] = [
        {
            "network": name,
            **_part_figures(part),
            **{f"top_{k}_weighted": found.networks[name] for k, found in networks.items() if found},
        }
        for name, part in by_network(evaluation, uses).items()
    ]
    figures["variants"] = {
        f"top_{k}_{name}": getattr(found, name) for name in ("tenset", "tlp") for k, found in networks.items() if found
    }
    return figures


def figures_table(figures: Mapping[str, Any]) -> str:
    """The figures as text, with the number of workloads left out."""
    lines = [figures_text(figures)]
    if figures["skipped"]:
        lines.append(
            f"{counted(len(figures['skipped']), 'workload')} left out: no two of their programs differ by more than "
            f"{figures['noise_floor']:.0%}."
        )
    if learned := figures.get("learned"):
        lines.append(
            f"{counted(learned, 'workload')} left out: the model has learned from "
            f"{'it' if learned == 1 else 'them'} (--all includes {'it' if learned == 1 else 'them'})."
        )
    return "\n".join(lines)


def _part_figures(part: Evaluation) -> dict[str, Any]:
    errors = part.to_json()["standard_errors"]
    return {
        "workloads": len(part.workloads),
        "programs": sum(row.n for row in part.workloads),
        **part.totals,
        "standard_errors": errors,
    }
