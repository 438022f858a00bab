"""Provides from_results, render and parse: build a model card from figures, write it as Markdown and read it back."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict
from typing import Any

from yaml import YAMLError

from costhub.cards.card_parts import kept_facts, licence_entry
from costhub.cards.hub_metadata import LINKED_VERSION, TASK, figures_by_dataset, hub_keys
from costhub.cards.markdown import OnOneLine, join, split
from costhub.cards.model_card_text import ADDRESS, card_body
from costhub.cards.model_facts import (
    ADDRESSED_VERSION,
    CARD_VERSION,
    METRICS,
    ModelCard,
    dataset_figures,
    held_out_figures,
)
from costhub.cards.old_model_card import old_card_body
from costhub.errors import DataError
from costhub.terminal_text import clean

TRAINING_KEYS = ("data_rows", "data_hash", "seed", "created", "base", "method", "data_credit")
_OLD_FIELDS = (
    *("name", "device_id", "arch", "feature_spec", "licence", "training", "versions", "totals", "workloads"),
    *("noise_floor", "device", "transfer", "pictures"),
)
"""Keys of cards before version 4, in the order of their block."""
_FIELDS = (
    *("name", "address", "device_id", "arch", "feature_spec", "licence", "training", "versions", "totals"),
    *("noise_floor", "held_out", "operators", "devices", "tested", "device", "transfer", "pictures"),
)
_ON_ONE_LINE = ("training", "device", "transfer")
_OPTIONAL = ("transfer", "pictures", "devices", "tested", "address")
"""Keys that are omitted if empty."""
_WIDTH = 160
"""Line width of the YAML block: a row of figures fits on one line."""


def from_results(
    config: Mapping[str, Any],
    evaluation: Mapping[str, Any],
    *,
    name: str | None = None,
    device: Mapping[str, Any] | None = None,
    transfer: Mapping[str, Any] | None = None,
    pictures: Sequence[str] = (),
    address: str = "",
) -> ModelCard:
    """Builds the card of a model.

    Args:
        config: `config.json` of its folder.
        evaluation: Its figures on held-out workloads: `totals`, `workloads` (rows) and `noise_floor`;
            `datasets` (name -> ids of devices) if the workloads are from several.
        name: Name of the model folder; by default device and architecture.
        device: The row of its device in the `devices` table.
        transfer: The `transfer_facts` of a transferred model.
        pictures: Pictures of its figures, files beside the card: `model_plots.EVALUATION_PICTURE`.
        address: The address of this model for `costhub tune --model`: ORG/NAME or hf-hub:ORG/NAME; empty for a
            model that is in no hub.

    Raises:
        DataError: A required field is missing, or the model was trained on a workload that it was evaluated on.
    """
    _require(config, ("device_id", "arch", "feature_spec", "licence"), "The configuration of the model")
    _require(evaluation, ("totals", "workloads", "noise_floor"), "The evaluation")
    _require(evaluation["totals"], METRICS, "The evaluation")
    _refuse_seen(config, evaluation["workloads"])
    _check_address(address)
    learned = config.get("train_workloads")
    training = {key: config[key] for key in TRAINING_KEYS if config.get(key) is not None}
    options = config.get("options")
    if isinstance(options, Mapping):
        # Scalers and members are not user choices, and would fill pages.
        chosen = {k: v for k, v in options.items() if isinstance(v, bool | int | float | str) and v != ""}
        training |= {"options": chosen} if chosen else {}
    for fact, key in (("devices", "train_devices"), ("datasets", "datasets"), ("test_datasets", "test_datasets")):
        if texts := text_list(config, key):
            training[fact] = ", ".join(texts)
    return ModelCard(
        name=name or f"{config['device_id']}-{config['arch']}",
        device_id=config["device_id"],
        arch=config["arch"],
        feature_spec=config["feature_spec"],
        licence=config["licence"],
        training={**training, "workloads": len(learned)} if learned else training,
        versions={str(k): str(v) for k, v in (config.get("versions") or {}).items()},
        totals={key: float(evaluation["totals"][key]) for key in METRICS},
        noise_floor=float(evaluation["noise_floor"]),
        **held_out_figures(evaluation["workloads"]),
        tested=dataset_figures(evaluation, config.get("test_datasets") or ()),
        device=kept_facts(device or {}),
        transfer=dict(transfer or {}),
        pictures=list(pictures),
        address=address,
    )


def text_list(config: Mapping[str, Any], key: str) -> Sequence[str]:
    """The texts under a key of a model's configuration; none if it lacks the key.

    Raises:
        DataError: They are not a list of strings.

    Example:
        >>> text_list({"train_devices": ["acme-one"]}, "train_devices")
        ['acme-one']
    """
    texts = config.get(key) or []
    if not (isinstance(texts, list | tuple) and all(isinstance(text, str) for text in texts)):
        raise DataError(f"In the configuration of the model, {key} is not a list of strings. Train it again.")
    return texts


def _require(mapping: Mapping[str, Any], keys: tuple[str, ...] | list[str], what: str) -> None:
    missing = [key for key in keys if mapping.get(key) is None]
    if missing:
        raise DataError(f"{what} lacks {', '.join(missing)}, which every card needs.")


def _refuse_seen(config: Mapping[str, Any], rows: Sequence[Mapping[str, Any]]) -> None:
    learned = set(config.get("train_workloads") or ())
    seen = [row for row in rows if row.get("workload_id") in learned]
    if seen:
        raise DataError(
            f"The model was trained on {len(seen)} of the {len(rows)} workloads it was evaluated on, so the "
            "figures say nothing. Evaluate it on others."
        )


def parse(text: str) -> ModelCard:
    """Reads a card back; for every card, `parse(render(card)) == card`.

    Raises:
        DataError: The text is not a card of costhub, or is of a newer version.
    """
    block = split(text)[0].get("costhub")
    if not isinstance(block, dict) or "card_version" not in block:
        raise DataError("The card has no `costhub` block: it was not written by costhub.")
    if type(block["card_version"]) is not int or not 1 <= block["card_version"] <= CARD_VERSION:
        raise DataError(
            f"The card has version {clean(str(block['card_version']), 40)}, this costhub reads "
            f"up to {CARD_VERSION}. Update costhub."
        )
    known = _FIELDS if block["card_version"] >= ADDRESSED_VERSION else _OLD_FIELDS
    _require(block, sorted(set(known) - set(_OPTIONAL)), "The card")
    content = {key: value for key, value in block.items() if key in known}
    _check_address(content.get("address", ""))
    return ModelCard(**content, version=block["card_version"])


def _check_address(address: Any) -> None:
    """Rejects an invalid address of a model: the card shows it in a command that people copy."""
    if address != "" and not (isinstance(address, str) and ADDRESS.fullmatch(address)):
        raise DataError(
            f"The card names {clean(str(address), 40)!r} as the address of its model; ORG/NAME was expected."
        )


def render(card: ModelCard) -> str:
    """The README.md of the model folder: YAML for the Hugging Face hub and `parse`, Markdown for people."""
    return join(_metadata(card), model_card_body(card), width=_WIDTH if card.version >= ADDRESSED_VERSION else None)


def is_as_rendered(text: str) -> bool:
    """Whether a card matches its own data: False if someone has edited a figure by hand.

    Raises:
        DataError: The text is not a card of costhub.
    """
    card = parse(text)
    try:
        return render(card) == text
    except (
        *(ArithmeticError, AttributeError, LookupError, TypeError, ValueError, RecursionError),
        YAMLError,
    ) as error:
        raise DataError(
            f"The `costhub` block of the card holds values of the wrong kind ({type(error).__name__}). "
            "Render the card again."
        ) from error


def _metadata(card: ModelCard) -> dict[str, Any]:
    tags = ["costhub", "tvm", "cost-model", f"device:{card.device_id}", f"arch:{card.arch}"]
    if "tvm" in card.versions:
        tags.append(f"tvm:{card.versions['tvm']}")
    known, values = _FIELDS if card.version >= ADDRESSED_VERSION else _OLD_FIELDS, asdict(card)
    content = {key: values[key] for key in known if values[key] or key not in _OPTIONAL}
    if card.version >= ADDRESSED_VERSION:
        content |= {key: OnOneLine(content[key]) for key in _ON_ONE_LINE if key in content}
    return {
        **licence_entry([card.licence]),
        "library_name": "costhub",
        **(hub_keys(card) if card.version >= LINKED_VERSION else {}),
        "tags": tags,
        "model-index": [{"name": card.name, "results": _results(card)}],
        "costhub": {"card_version": card.version, **content},
    }


def _results(card: ModelCard) -> list[dict[str, Any]]:
    """The entries of the model index, in the form that the Hugging Face hub reads."""
    return [
        {
            "task": {"type": TASK, "name": "ranking the schedules of a tensor program"},
            "dataset": dataset,
            "metrics": [
                {"type": key, "value": figures[key], "name": f"{key} (mean over workloads)"}
                for key in METRICS
                if figures[key] is not None
            ],
        }
        for dataset, figures in figures_by_dataset(card)
    ]


def model_card_body(card: ModelCard) -> str:
    """The Markdown of a card below its metadata, in the wording of its version."""
    return card_body(card) if card.version >= ADDRESSED_VERSION else old_card_body(card)
