"""Provides ModelCard: what a model says about itself to people, as data and as the Markdown made from them."""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import MISSING, asdict, dataclass, field, fields
from statistics import fmean
from typing import Any

from yaml import YAMLError

from costhub.cards.adaptation import ADAPTED, PICTURES
from costhub.cards.card_parts import DEVICE_FACTS, citation, device_facts, facts_table, licence_entry
from costhub.cards.markdown import join, split
from costhub.cards.model_plots import EVALUATION_CAPTION
from costhub.cards.tables import TableColumn, markdown_table, number
from costhub.errors import DataError
from costhub.terminal_text import clean

CARD_VERSION = 3
"""Version 1 has neither options nor pictures; version 3 has clearer sentences. Each is read, and rendered as it was."""
METRICS = ("top_1", "top_5", "pairwise", "spearman")
METRIC_NAMES = {
    "top_1": "top_1 (mean over workloads)",
    "top_5": "top_5 (mean over workloads)",
    "pairwise": "pairwise (mean over workloads)",
    "spearman": "spearman (mean over workloads)",
}
METRIC_MEANINGS = {
    "top_1": "best latency of the workload / latency of the program ranked first; 1 is perfect",
    "top_5": "best latency of the workload / best latency among the five ranked first; 1 is perfect",
    "pairwise": "share of pairs of programs put in the right order, of those that differ by more than "
    "{floor:.0%}; 0.5 is chance",
    "spearman": "rank correlation of score and speed; 0 is chance, 1 is perfect",
}
TRAINING_KEYS = ("data_rows", "data_hash", "seed", "created", "base", "method", "data_credit")
TRAINING_FACTS = {
    "data_rows": "measured programs",
    "workloads": "workloads",
    "devices": "devices",
    "data_credit": "measured by",
    "data_hash": "sha256 of the data",
    "base": "continued from",
    "method": "carried over by",
    "seed": "seed",
    "created": "trained on",
}
_FIGURES = tuple(number(key, key) for key in METRIC_NAMES)


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
    """Package -> version that the model was trained with."""
    totals: dict[str, float]
    """Metric -> value over the held-out workloads."""
    workloads: list[dict[str, Any]]
    """One row per held-out workload: workload, operator, programs and the metrics."""
    noise_floor: float
    """Relative difference of latency below which `pairwise` counts no pair."""
    device: dict[str, Any]
    """Known columns of the `devices` table."""
    transfer: dict[str, Any] = field(default_factory=dict)
    """How it was adapted from other devices, see `transfer_facts`; empty for other models."""
    pictures: list[str] = field(default_factory=list)
    """Pictures of its figures, files beside the card."""
    version: int = CARD_VERSION
    """Of the card; older ones keep their sentences."""


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
        pictures: Pictures of its figures, files beside the card: `model_plots.EVALUATION_PICTURE`.

    Raises:
        DataError: A required field is missing, or the model was trained on a workload that it was evaluated on.
    """
    _require(config, ("device_id", "arch", "feature_spec", "licence"), "The configuration of the model")
    _require(evaluation, ("totals", "workloads", "noise_floor"), "The evaluation")
    _require(evaluation["totals"], METRICS, "The evaluation")
    _refuse_seen(config, evaluation["workloads"])
    learned = config.get("train_workloads")
    training = {key: config[key] for key in TRAINING_KEYS if config.get(key) is not None}
    options = config.get("options")
    if isinstance(options, Mapping):
        # Scalers and members are not chosen by anyone, and would fill pages.
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


def _named(row: Mapping[str, Any]) -> dict[str, Any]:
    """The row under the names that a card uses; a workload without a name gets the start of its id."""
    name = row.get("workload") or str(row.get("workload_id", "?"))[:12]
    return {**row, "workload": name, "programs": row.get("programs", row.get("n"))}


def _finite(row: Mapping[str, Any]) -> dict[str, Any]:
    """The row with None for NaN, which stands for a missing figure, and plain floats for those of numpy."""
    return {key: _plain(value) for key, value in row.items()}


def _plain(value: Any) -> Any:
    if not isinstance(value, float):
        return value
    return float(value) if math.isfinite(value) else None


def parse(text: str) -> ModelCard:
    """Reads a card back; for every card, `parse(render(card)) == card`.

    Raises:
        DataError: The text is not a card of costhub, or one of a newer version.
    """
    block = split(text)[0].get("costhub")
    if not isinstance(block, dict) or "card_version" not in block:
        raise DataError("The card has no `costhub` block: it was not written by costhub.")
    if type(block["card_version"]) is not int or not 1 <= block["card_version"] <= CARD_VERSION:
        raise DataError(
            f"The card has version {clean(str(block['card_version']), 40)}, this costhub reads "
            f"up to {CARD_VERSION}. Update costhub."
        )
    needed = {f.name: f.default_factory is MISSING for f in fields(ModelCard) if f.name != "version"}
    _require(block, sorted(name for name, is_needed in needed.items() if is_needed), "The card")
    content = {key: value for key, value in block.items() if key in needed}
    return ModelCard(**content, version=block["card_version"])


def render(card: ModelCard) -> str:
    """The README.md of the model folder: YAML for the Hugging Face hub and `parse`, Markdown for people."""
    return join(_metadata(card), model_card_body(card))


def is_as_rendered(text: str) -> bool:
    """Whether a card says what its data say: False if somebody has edited a figure by hand.

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
    # Empty fields of newer cards are left out, as in cards written before there were any.
    content = {k: v for k, v in asdict(card).items() if k != "version" and (v or k not in ("transfer", "pictures"))}
    return {
        **licence_entry([card.licence]),
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


def model_card_body(card: ModelCard) -> str:
    """The Markdown of a card below its metadata."""
    parts = [
        f"# {card.name}",
        _purpose(card),
        "## How to use it",
        _use(card),
        "## Device",
        facts_table(device_facts(card.device)) or f"{card.device_id}.",
        "## Training data",
        _training(card),
        *(["## Transfer", _transfer(card)] if card.transfer else []),
        "## Figures",
        _figures(card),
        "## Limits",
        _limits(card),
        "## Licence",
        f"{card.licence}.",
        "## Citation",
        _citation(card),
    ]
    return "\n\n".join(parts) + "\n"


def _purpose(card: ModelCard) -> str:
    limits = "It is not a latency, and scores of different workloads are not comparable."
    if card.version < 3:
        limits = "It is no latency, and scores of different workloads do not compare."
    return (
        f"A cost model (`{card.arch}`) for {card.device_id}: it ranks the schedules of a tensor program by "
        "how fast they will run there, so that a search with TVM MetaSchedule needs fewer measurements. A "
        f"score says which of two programs of one workload is faster. {limits}"
    )


def _use(card: ModelCard) -> str:
    # A conditioned model has to be bound to the device for which it scores.
    is_conditioned = card.arch == "conditioned"
    module = "costhub.collector.device" if card.version < 3 else "costhub.collector.device.identity"
    return (
        "```python\n"
        "import costhub\n"
        + (f"from {module} import identify\n" if is_conditioned else "")
        + f'model, info = costhub.load_model(costhub.pull("{card.device_id}", arch="{card.arch}"))\n'
        + ("model = model.bind(identify())  # what this machine is\n" if is_conditioned else "")
        + "scores = model.predict(programs.rows, programs.counts)"
        "  # programs = costhub.load_programs(folder)\n"
        "```\n\n"
        f"To search with it: `costhub tune WORKLOAD --model {card.device_id} --trials 200 --out DIR`."
    )


def _training(card: ModelCard) -> str:
    facts = {TRAINING_FACTS[k]: str(card.training[k]) for k in TRAINING_FACTS if k in card.training}
    if "options" in card.training:
        facts["options"] = ", ".join(f"{k} = {v}" for k, v in card.training["options"].items())
    facts["features"] = card.feature_spec
    facts["versions"] = ", ".join(f"{name} {version}" for name, version in sorted(card.versions.items()))
    return facts_table({key: value for key, value in facts.items() if value})


def _transfer(card: ModelCard) -> str:
    facts = card.transfer
    measured = f"with {facts['trials']:,} programs measured on {card.device_id}."
    harmed = facts["chosen"] != ADAPTED
    if card.version < 3:
        outcome = f" Transfer by {facts['method']} did harm here." if harmed else ""
        parts = [
            f"Carried over from {facts['source']} by `{facts['method']}`, {measured}",
            "Before it was learned from, every batch of them was ranked by the candidates: the adapted model, "
            "the source as it came and, after the first batch, a local model that knows the target alone. By "
            f"these ranks the guard chose the {facts['chosen']} model, which is the one in this folder.{outcome}",
        ]
    else:
        outcome = f" Transfer by {facts['method']} made the model worse here." if harmed else ""
        parts = [
            f"Adapted from {facts['source']} by `{facts['method']}`, {measured}",
            "The candidates ranked each batch of programs before they learned from it: the adapted model, the "
            "source model as it was and, from the second batch on, a local model trained on the target alone. By "
            f"these rankings the guard chose the {facts['chosen']} model, which is the one in this folder.{outcome}",
        ]
    return "\n\n".join([*parts, *(f"![{PICTURES[name]}]({name})" for name in facts["pictures"])])


def _figures(card: ModelCard) -> str:
    programs = sum(row.get("programs") or 0 for row in card.workloads)
    devices = {row.get("device_id") for row in card.workloads}
    several = f", on one or more of {len(devices)} devices each," if len(devices) > 1 else ""
    count = len({row.get("workload_id") for row in card.workloads}) if several else len(card.workloads)
    intro = f"On {count} held-out workloads{several} ({programs} measured programs), none of which it was trained on:"
    totals = [
        {"metric": key, "value": card.totals[key], "meaning": meaning.format(floor=card.noise_floor)}
        for key, meaning in METRIC_MEANINGS.items()
    ]
    columns = (
        TableColumn("metric", "metric"),
        number("value", "mean over workloads"),
        TableColumn("meaning", "meaning"),
    )
    parts = [intro, markdown_table(totals, columns)]
    parts += [f"![{EVALUATION_CAPTION}]({name})" for name in card.pictures]
    if card.workloads:
        operators = _by_operator(card.workloads)
        counts = (number("workloads", "workloads", "d"), number("programs", "programs", "d"))
        device = (TableColumn("device_id", "device"),) if several else ()
        named = (TableColumn("workload", "workload"), *device, TableColumn("operator", "operator"), counts[1])
        parts += [
            "By operator:",
            markdown_table(operators, (TableColumn("operator", "operator"), *counts, *_FIGURES)),
        ]
        parts += ["By workload:", markdown_table(card.workloads, (*named, *_FIGURES))]
    return "\n\n".join(parts)


def _by_operator(rows: Sequence[Mapping[str, Any]]) -> list[dict[str, Any]]:
    groups: dict[str, list[Mapping[str, Any]]] = defaultdict(list)
    for row in rows:
        groups[str(row.get("operator") or "other")].append(row)
    return [_mean_row(name, groups[name]) for name in sorted(groups)]


def _mean_row(operator: str, rows: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
    means = {}
    for key in METRIC_NAMES:
        values = [row[key] for row in rows if row.get(key) is not None]
        means[key] = fmean(values) if values else None
    return {
        "operator": operator,
        "workloads": len(rows),
        "programs": sum(r.get("programs") or 0 for r in rows),
        **means,
    }


def _limits(card: ModelCard) -> str:
    trained_on = card.training.get("devices", card.device_id)
    elsewhere = f"It was trained on {trained_on}. On another device its ranking may be wrong: measure some programs"
    if card.version < 3:
        elsewhere = f"It knows {trained_on}. On another device its order of programs may be wrong: measure some"
    limits = [
        f"{elsewhere} there and adapt it.",
        f"It reads the features `{card.feature_spec}` only"
        + (f", as TVM {card.versions['tvm']} computes them." if "tvm" in card.versions else "."),
        f"Latencies that differ by less than {card.noise_floor:.0%} count as equal; `pairwise` skips them.",
    ]
    operators = _by_operator(card.workloads)
    scored = [row for row in operators if row["top_1"] is not None]
    if len(scored) > 1:
        worst = min(scored, key=lambda row: row["top_1"])
        limits.append(f"It is weakest on {worst['operator']}: top_1 {worst['top_1']:.3f}.")
    if operators:
        names = ", ".join(row["operator"] for row in operators)
        limits.append(f"The figures say nothing about operators other than {names}.")
    return "\n".join(f"- {limit}" for limit in limits)


def _citation(card: ModelCard) -> str:
    return citation(
        card.name.replace("-", "_"),
        title=f"{card.name}: a cost model for TVM MetaSchedule",
        author="{the costhub contributors}",
        year=str(card.training.get("created", ""))[:4],
    )
