"""Provides ModelCard: what a model says about itself to people, made from its configuration and results."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import MISSING, asdict, dataclass, field, fields
from typing import Any

from yaml import YAMLError

from costhub.cards.card_sections import DEVICE_FACTS, METRIC_NAMES, body
from costhub.cards.front_matter import join, split
from costhub.dataset.check.report import clean
from costhub.errors import DataError

CARD_VERSION = 2
"""Of cards with options or pictures, which version 1 lacks. Both are read, and each is rendered as it was."""

METRICS = ("top_1", "top_5", "pairwise", "spearman")
TRAINING_KEYS = ("data_rows", "data_hash", "seed", "created", "base", "method", "data_credit")
# Licences that the Hugging Face hub knows by name; any other one is announced as `other`.
HUB_LICENCES = frozenset(
    {"apache-2.0", "mit", "bsd-3-clause", "cc-by-4.0", "cc-by-sa-4.0", "cc0-1.0", "odc-by"}
)


@dataclass(frozen=True, kw_only=True)
class ModelCard:
    """Everything a card shows; the types are those of YAML, so that a card survives being read back."""

    name: str
    """Of the model folder."""
    device_id: str
    arch: str
    feature_spec: str
    licence: str
    """An SPDX name."""
    training: dict[str, Any]
    """data_rows, data_hash, data_credit, devices, seed, created, base, method, workloads: as far as known."""
    versions: dict[str, str]
    """Package -> version the model was trained with."""
    totals: dict[str, float]
    """Metric -> value over the held-out workloads."""
    workloads: list[dict[str, Any]]
    """One row per held-out workload: workload, operator, programs and the metrics."""
    noise_floor: float
    """Relative difference of latency below which `pairwise` counts no pair."""
    device: dict[str, Any]
    """Columns of the `devices` table that are known."""
    transfer: dict[str, Any] = field(default_factory=dict)
    """How it was carried over from other devices, see `transfer_facts`; empty where it was not."""
    pictures: list[str] = field(default_factory=list)
    """Of its figures, files beside the card."""

    @property
    def version(self) -> int:
        """The lowest card version that can hold it, so that an older costhub still reads what it can."""
        return CARD_VERSION if self.pictures or "options" in self.training else 1


def from_results(
    config: Mapping[str, Any],
    evaluation: Mapping[str, Any],
    *,
    name: str | None = None,
    device: Mapping[str, Any] | None = None,
    transfer: Mapping[str, Any] | None = None,
    pictures: Sequence[str] = (),
) -> ModelCard:
    """Builds the card of a model.

    Args:
        config: `config.json` of its folder.
        evaluation: Its figures on held-out workloads: `totals`, `workloads` (rows) and `noise_floor`.
        name: Of the model folder; by default device and architecture.
        device: The row of its device in the `devices` table.
        transfer: The `transfer_facts` of a model that was carried over.
        pictures: Of its figures, files beside the card: `evaluation_plot.EVALUATION_PICTURE`.

    Raises:
        DataError: A field that a card cannot do without is missing, or the model was trained on a workload
            it was evaluated on: a card shows neither a gap nor a figure that says nothing.
    """
    _require(config, ("device_id", "arch", "feature_spec", "licence"), "The configuration of the model")
    _require(evaluation, ("totals", "workloads", "noise_floor"), "The evaluation")
    _require(evaluation["totals"], METRICS, "The evaluation")
    _refuse_seen(config, evaluation["workloads"])
    learned = config.get("train_workloads")
    training = {key: config[key] for key in TRAINING_KEYS if config.get(key) is not None}
    options = config.get("options")
    if isinstance(options, Mapping):
        # Scalers and members are no choice of anybody's, and fill pages.
        chosen = {k: v for k, v in options.items() if isinstance(v, bool | int | float | str)}
        training |= {"options": chosen} if chosen else {}
    if config.get("train_devices"):
        training["devices"] = ", ".join(config["train_devices"])
    return ModelCard(
        name=name or f"{config['device_id']}-{config['arch']}",
        device_id=config["device_id"],
        arch=config["arch"],
        feature_spec=config["feature_spec"],
        licence=config["licence"],
        training={**training, "workloads": len(learned)} if learned else training,
        versions={str(k): str(v) for k, v in (config.get("versions") or {}).items()},
        totals={key: float(evaluation["totals"][key]) for key in METRICS},
        workloads=[_named(_finite(row)) for row in evaluation["workloads"]],
        noise_floor=float(evaluation["noise_floor"]),
        device={k: v for k, v in (device or {}).items() if v not in (None, [], "") and k in DEVICE_FACTS},
        transfer=dict(transfer or {}),
        pictures=list(pictures),
    )


def render(card: ModelCard) -> str:
    """The README.md of the model folder: YAML for the Hugging Face hub and `parse`, Markdown for people."""
    return join(_metadata(card), body(card))


def parse(text: str) -> ModelCard:
    """Reads a card back; for every card, `parse(render(card)) == card`.

    Raises:
        DataError: The text is no card of costhub, or one of a newer version.
    """
    block = split(text)[0].get("costhub")
    if not isinstance(block, dict) or "card_version" not in block:
        raise DataError("The card has no `costhub` block: it was not written by costhub.")
    if type(block["card_version"]) is not int or not 1 <= block["card_version"] <= CARD_VERSION:
        raise DataError(
            f"The card has version {clean(str(block['card_version']), 40)}, this costhub reads "
            f"up to {CARD_VERSION}. Update costhub."
        )
    wanted = {f.name: f.default_factory is MISSING for f in fields(ModelCard)}
    _require(block, sorted(name for name, needed in wanted.items() if needed), "The card")
    return ModelCard(**{key: value for key, value in block.items() if key in wanted})


def is_as_rendered(text: str) -> bool:
    """Whether a card says what its data say: False where somebody typed a figure by hand.

    Raises:
        DataError: The text is no card of costhub.
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
    licence = card.licence.lower()
    # What no transfer made says nothing of one, as before there was any.
    content = {k: v for k, v in asdict(card).items() if v or k not in ("transfer", "pictures")}
    known = {"license": licence} if licence in HUB_LICENCES else {"license": "other", "license_name": licence}
    return {
        **known,
        "library_name": "costhub",
        "tags": tags,
        "model-index": [{"name": card.name, "results": [_result(card)]}],
        "costhub": {"card_version": card.version, **content},
    }


def _result(card: ModelCard) -> dict[str, Any]:
    """The entry of the model index, in the form the Hugging Face hub reads."""
    data = str(card.training.get("data_hash", "measurements"))
    return {
        "task": {"type": "tabular-regression", "name": "ranking the schedules of a tensor program"},
        "dataset": {
            "type": "measurements",
            "name": f"held-out workloads of {card.device_id}, data {data[:12]}",
        },
        "metrics": [{"type": key, "value": card.totals[key], "name": METRIC_NAMES[key]} for key in METRICS],
    }


def _require(mapping: Mapping[str, Any], keys: tuple[str, ...] | list[str], what: str) -> None:
    missing = [key for key in keys if mapping.get(key) is None]
    if missing:
        raise DataError(f"{what} lacks {', '.join(missing)}, which a card cannot do without.")


def _refuse_seen(config: Mapping[str, Any], rows: Sequence[Mapping[str, Any]]) -> None:
    learned = set(config.get("train_workloads") or ())
    seen = [row for row in rows if row.get("workload_id") in learned]
    if seen:
        raise DataError(
            f"The model was trained on {len(seen)} of the {len(rows)} workloads it was evaluated on, so the "
            "figures say nothing. Evaluate it on others."
        )


def _named(row: Mapping[str, Any]) -> dict[str, Any]:
    """The row under the names a card uses; a workload that nobody named goes by the start of its id."""
    name = row.get("workload") or str(row.get("workload_id", "?"))[:12]
    return {**row, "workload": name, "programs": row.get("programs", row.get("n"))}


def _finite(row: Mapping[str, Any]) -> dict[str, Any]:
    """The row with None for NaN, which says "no such figure", and plain floats for those of numpy."""
    return {key: _plain(value) for key, value in row.items()}


def _plain(value: Any) -> Any:
    if not isinstance(value, float):
        return value
    return float(value) if math.isfinite(value) else None
