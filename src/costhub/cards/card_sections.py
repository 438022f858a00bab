"""Writes the sections of a model card, each from the data of the card alone."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping, Sequence
from statistics import fmean
from typing import TYPE_CHECKING, Any

from costhub.cards.adaptation import ADAPTED, PICTURES
from costhub.cards.evaluation_plot import EVALUATION_CAPTION
from costhub.cards.tables import Column, markdown_table, number

if TYPE_CHECKING:
    from costhub.cards.model_card import ModelCard

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
DEVICE_FACTS = {
    "device_id": "device",
    "model_name": "product",
    "vendor": "vendor",
    "microarchitecture": "microarchitecture",
    "kind": "kind",
    "cores": "cores",
    "simd_bits": "SIMD width (bits)",
    "l1d_bytes": "L1 data cache per core (KiB)",
    "l2_bytes": "L2 cache (KiB)",
    "l3_bytes": "L3 cache (KiB)",
    "memory_bytes": "memory (GiB)",
    "driver": "driver",
    "isa_features": "instruction sets",
    "peak_gflops": "measured peak (GFLOP/s)",
    "dram_gbs": "measured memory bandwidth (GB/s)",
    "launch_overhead_us": "measured launch overhead (µs)",
}
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

_FACTS = (Column("fact", ""), Column("value", ""))
_FIGURES = tuple(number(key, key) for key in METRIC_NAMES)


def body(card: ModelCard) -> str:
    """The Markdown of a card below its metadata."""
    parts = [
        f"# {card.name}",
        _purpose(card),
        "## How to use it",
        _use(card),
        "## Device",
        _table({DEVICE_FACTS[k]: device_value(k, card.device[k]) for k in DEVICE_FACTS if k in card.device})
        or f"{card.device_id}.",
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
    return (
        f"A cost model (`{card.arch}`) for {card.device_id}: it ranks the schedules of a tensor program by "
        "how fast they will run there, so that a search with TVM MetaSchedule needs fewer measurements. A "
        "score says which of two programs of one workload is faster. It is no latency, and scores of "
        "different workloads do not compare."
    )


def _use(card: ModelCard) -> str:
    # A conditioned model has to be told for which device it scores.
    told = card.arch == "conditioned"
    return (
        "```python\n"
        "import costhub\n"
        + ("from costhub.collector.device import identify\n" if told else "")
        + f'model, info = costhub.load_model(costhub.pull("{card.device_id}", arch="{card.arch}"))\n'
        + ("model = model.bind(identify())  # what this machine is\n" if told else "")
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
    return _table({key: value for key, value in facts.items() if value})


def _transfer(card: ModelCard) -> str:
    told = card.transfer
    trials, chosen = told["trials"], told["chosen"]
    outcome = "" if chosen == ADAPTED else f" Transfer by {told['method']} did harm here."
    parts = [
        f"Carried over from {told['source']} by `{told['method']}`, with {trials:,} programs measured on "
        f"{card.device_id}.",
        "Before it was learned from, every batch of them was ranked by the candidates: the adapted model, "
        "the source as it came and, after the first batch, a local model that knows the target alone. By "
        f"these ranks the guard chose the {chosen} model, which is the one in this folder.{outcome}",
        *(f"![{PICTURES[name]}]({name})" for name in told["pictures"]),
    ]
    return "\n\n".join(parts)


def _figures(card: ModelCard) -> str:
    programs = sum(row.get("programs") or 0 for row in card.workloads)
    devices = {row.get("device_id") for row in card.workloads}
    several = f", on one or more of {len(devices)} devices each," if len(devices) > 1 else ""
    count = len({row.get("workload_id") for row in card.workloads}) if several else len(card.workloads)
    intro = (
        f"On {count} held-out workloads{several} ({programs} measured programs), none of which it was "
        "trained on:"
    )
    totals = [
        {"metric": key, "value": card.totals[key], "meaning": meaning.format(floor=card.noise_floor)}
        for key, meaning in METRIC_MEANINGS.items()
    ]
    columns = (
        Column("metric", "metric"),
        number("value", "mean over workloads"),
        Column("meaning", "meaning"),
    )
    parts = [intro, markdown_table(totals, columns)]
    parts += [f"![{EVALUATION_CAPTION}]({name})" for name in card.pictures]
    if card.workloads:
        operators = _by_operator(card.workloads)
        counts = (number("workloads", "workloads", "d"), number("programs", "programs", "d"))
        device = (Column("device_id", "device"),) if several else ()
        named = (Column("workload", "workload"), *device, Column("operator", "operator"), counts[1])
        parts += [
            "By operator:",
            markdown_table(operators, (Column("operator", "operator"), *counts, *_FIGURES)),
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
    knows = card.training.get("devices", card.device_id)
    limits = [
        f"It knows {knows}. On another device its order of programs may be wrong: measure some "
        "there and adapt it.",
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
    year = str(card.training.get("created", ""))[:4]
    key = card.name.replace("-", "_")
    lines = [
        f"@misc{{costhub_{key},",
        f"  title = {{{card.name}: a cost model for TVM MetaSchedule}},",
        "  author = {{the costhub contributors}},",
        *([f"  year = {{{year}}},"] if year.isdigit() else []),
        "}",
    ]
    return "```bibtex\n" + "\n".join(lines) + "\n```"


def _table(facts: Mapping[str, str]) -> str:
    return markdown_table([{"fact": k, "value": v} for k, v in facts.items()], _FACTS) if facts else ""


def device_value(key: str, value: Any) -> str:
    """A fact of a device in the unit that `DEVICE_FACTS` gives it."""
    if key in ("l1d_bytes", "l2_bytes", "l3_bytes"):
        return f"{value / 2**10:,.0f}"
    if key == "memory_bytes":
        return f"{value / 2**30:.1f}"
    if isinstance(value, float):
        return f"{value:.4g}"
    return ", ".join(value) if isinstance(value, list | tuple) else str(value)
