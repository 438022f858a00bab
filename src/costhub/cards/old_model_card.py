"""Renders the text of model cards of versions 1 to 3 as originally written."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping, Sequence
from statistics import fmean
from typing import Any

from costhub.cards.adaptation import ADAPTED
from costhub.cards.card_parts import device_facts, facts_table
from costhub.cards.model_card_text import adaptation_text, adapted_pictures, citation_text, training_table
from costhub.cards.model_facts import METRIC_MEANINGS, METRICS, ModelCard
from costhub.cards.model_plots import EVALUATION_CAPTION
from costhub.cards.tables import TableColumn, markdown_table, number

_FIGURES = tuple(number(key, key) for key in METRICS)


def old_card_body(card: ModelCard) -> str:
    """The Markdown of a card below its metadata; see `costhub.cards.model_card_text` for the current version."""
    parts = [
        f"# {card.name}",
        _purpose(card),
        "## How to use it",
        _use(card),
        "## Device",
        facts_table(device_facts(card.device, grouped=False)) or f"{card.device_id}.",
        "## Training data",
        training_table(card),
        *(["## Transfer", _transfer(card)] if card.transfer else []),
        "## Figures",
        _figures(card),
        "## Limits",
        _limits(card),
        "## Licence",
        f"{card.licence}.",
        "## Citation",
        citation_text(card),
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
    # A conditioned model has to be bound to the device it scores for.
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


def _transfer(card: ModelCard) -> str:
    if card.version == 3:
        return adaptation_text(card)
    facts = card.transfer
    harmed = f" Transfer by {facts['method']} did harm here." if facts["chosen"] != ADAPTED else ""
    parts = [
        f"Carried over from {facts['source']} by `{facts['method']}`, with {facts['trials']:,} programs measured on "
        f"{card.device_id}.",
        "Before it was learned from, every batch of them was ranked by the candidates: the adapted model, "
        "the source as it came and, after the first batch, a local model that knows the target alone. By "
        f"these ranks the guard chose the {facts['chosen']} model, which is the one in this folder.{harmed}",
    ]
    return "\n\n".join([*parts, *adapted_pictures(card)])


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
    for key in METRICS:
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
