"""Reads what costhub ships as others do: Croissant's reference reader, the Hugging Face hub's classes and server."""

from __future__ import annotations

import contextlib
import json
import logging
from collections.abc import Iterator, Sequence
from importlib import metadata
from pathlib import Path
from typing import Any

import click
from huggingface_hub import DatasetCard, ModelCard, constants, errors

from costhub.cards.markdown import CARD
from costhub.cards.model_facts import METRICS, dataset_figures
from costhub.dataset.croissant import CROISSANT
from costhub.hub.catalogue.hubs import EMBEDDED, read_config
from scripts.bench.common import machine, options
from scripts.bench.common.rows import Row
from scripts.tables.data import conventions_table

EVALUATION = "evaluation.json"
SMALL = "datasets/costhub/intel-xeon-emeraldrapids-avx2"
ACCEPTED, REFUSED, UNREACHABLE = "accepted", "refused", "unreachable"
Card = DatasetCard | ModelCard


class Warnings(logging.Handler):
    """Counts the warnings that are logged."""

    def __init__(self) -> None:
        super().__init__(logging.WARNING)
        self.texts: list[str] = []

    def emit(self, record: logging.LogRecord) -> None:
        """Keeps the text."""
        self.texts.append(record.getMessage())


@contextlib.contextmanager
def logged_warnings() -> Iterator[list[str]]:
    """The texts of all warnings that are logged while the block runs."""
    handler = Warnings()
    logging.getLogger().addHandler(handler)
    try:
        yield handler.texts
    finally:
        logging.getLogger().removeHandler(handler)


def dataset_row(folder: Path) -> Row:
    """What the reference reader of Croissant says of a dataset.

    Args:
        folder: The data folder.
    """
    import mlcroissant  # type: ignore[import-untyped]

    row: Row = {"dataset": folder.name, "errors": [], "warnings": [], "record_sets": [], "read": []}
    with logged_warnings() as logged:
        try:
            found = mlcroissant.Dataset(jsonld=str(folder / CROISSANT))
        except mlcroissant.ValidationError as error:
            return {**row, "errors": [str(error)]}
    row["errors"] = sorted(found.metadata.issues.errors)
    row["warnings"] = sorted({*found.metadata.issues.warnings, *logged})
    for record_set in found.metadata.record_sets:
        row["record_sets"].append(record_set.name)
        fields = {field.id for field in record_set.fields}
        try:
            record = next(iter(found.records(record_set.name)), None)
        except Exception as error:  # of many kinds: its own, pandas', Arrow's and those of files
            row["errors"].append(f"{record_set.name}: {type(error).__name__}: {error}")
            continue
        if record is not None and set(record) == fields:
            row["read"].append(record_set.name)
    return row


def card_row(folder: Path) -> Row:
    """What the hub's own class, and its server, say of a card.

    Args:
        folder: A model folder or a data folder.
    """
    is_model = (folder / EVALUATION).is_file()
    kind: type[Card] = ModelCard if is_model else DatasetCard
    row: Row = {"card": folder.name, "kind": "model" if is_model else "dataset", "error": "", "results": None}
    try:
        card = kind((folder / CARD).read_text(encoding="utf-8"), ignore_metadata_errors=False)
    except Exception as error:  # the class raises what YAML, its own checks and the model index raise
        return {**row, "error": str(error), "answer": None, "why": ""}
    if is_model:
        row |= evaluation_read(folder, getattr(card.data, "eval_results", None) or ())
    answer, why = asked(card)
    return {**row, "answer": answer, "why": why}


def evaluation_read(folder: Path, results: Sequence[Any]) -> Row:
    """How many figures the card of a model gives, and those that are not in its evaluation.

    Args:
        folder: The model folder.
        results: The evaluation results that the hub's class has read, for one dataset or for several.
    """
    given = {(each.dataset_type, each.metric_type): each.metric_value for each in results}
    figures = json.loads((folder / EVALUATION).read_text(encoding="utf-8"))
    parts = {
        part["dataset"].partition("@")[0]: part
        for part in dataset_figures(figures, read_config(folder).get("test_datasets") or ())
    }
    parts = parts or dict.fromkeys([each.dataset_type for each in results] or [""], figures["totals"])
    wanted = {(name, metric): part[metric] for name, part in parts.items() for metric in METRICS}
    wrong = sorted(key for key in {*given, *wanted} if given.get(key) != wanted.get(key))
    named = [f"{metric} of {name}" if len(parts) > 1 else metric for name, metric in wrong]
    return {"results": len(given), "wrong": named}


def asked(card: Card) -> tuple[str, str]:
    """What the hub's server says of a card, and why: an answer that is not of the server says what it is instead."""
    from huggingface_hub.utils import httpx  # type: ignore[attr-defined]  # documented, but not re-exported

    try:
        card.validate()
    except ValueError as error:
        return REFUSED, str(error)
    except errors.HfHubHTTPError as error:  # of the server, or of whatever stands between it and this machine
        return UNREACHABLE, f"HTTP {error.response.status_code}"
    except (OSError, httpx.HTTPError) as error:
        return UNREACHABLE, type(error).__name__
    return ACCEPTED, ""


def failures(result: Row) -> list[str]:
    """A sentence for every document that others do not read as it is meant."""
    found = []
    for row in result["datasets"]:
        problems = [*row["errors"], *row["warnings"]]
        problems += [f"no record of {name}" for name in row["record_sets"] if name not in row["read"]]
        found += [f"{row['dataset']}: {problem}" for problem in problems]
    for row in result["cards"]:
        problems = [row["error"], *(f"{name} is not as evaluated" for name in row.get("wrong", ()))]
        problems += [row["why"]] if row["answer"] == REFUSED else []
        found += [f"{row['card']}: {problem}" for problem in problems if problem]
    return found


@click.command()
@options.quick("One dataset, and its card and that of one model.")
@options.json_file()
def main(quick: bool, path: Path | None) -> None:
    """Reads every shipped dataset and card as others do; fails if one is not read as it is meant, or is refused."""
    datasets, models = (sorted(EMBEDDED.glob(f"{kind}/*/*")) for kind in ("datasets", "models"))
    if quick:
        datasets, models = [EMBEDDED / SMALL], models[:1]
    result: Row = {
        "mlcroissant": metadata.version("mlcroissant"),
        "huggingface_hub": metadata.version("huggingface_hub"),
        # The name of another server, such as a mirror, is that of somebody's network.
        "is_own_server": constants.ENDPOINT == "https://huggingface.co",
        "datasets": [],
        "cards": [],
    }
    for folder in datasets:
        result["datasets"].append(dataset_row(folder))
        click.echo(json.dumps(result["datasets"][-1]))
    for folder in (*datasets, *models):
        result["cards"].append(card_row(folder))
        click.echo(json.dumps(result["cards"][-1]))
    click.echo(conventions_table(result))
    machine.write_result(path, result)
    if wrong := failures(result):
        raise click.ClickException("; ".join(wrong))
