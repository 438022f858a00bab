"""Renders the text of a model card, below its block of YAML."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any

from costhub.cards.adaptation import PICTURES
from costhub.cards.card_parts import bibtex_entry, device_facts, facts_table, fenced
from costhub.cards.model_facts import METRIC_MEANINGS, METRICS, OWNED_VERSION, ModelCard
from costhub.cards.model_plots import EVALUATION_CAPTION
from costhub.cards.tables import TableColumn, markdown_table, number
from costhub.terminal_text import counted

EVALUATION = "evaluation.json"
"""The file beside the card with the figures of each workload."""
ADDRESS = re.compile(r"(?:hf-hub:)?[A-Za-z0-9][A-Za-z0-9._+-]{0,95}/[A-Za-z0-9][A-Za-z0-9._+-]{0,95}")
"""Valid model addresses on a card: people copy the command from it into a shell."""
CONDITIONED = "conditioned"
"""The architecture of models that take the device as an input."""
_OWN_KIND = "cpu"
"""Kind of the device that a search uses unless `--device` names another."""
_CUDA = "cuda"
_SEARCHED_KINDS = (_OWN_KIND, _CUDA)
"""Kinds of devices that costhub measures on (`costhub.collector.device.local`), and therefore searches on."""
_OLDEST_SM = 75
"""The oldest compute capability (Turing) that the CUDA packages of this TVM compile for."""
_SM = re.compile(r"sm_([0-9]{2,3})[a-z]?")
_NEVER_RUN = "When this version of costhub was made, no search had run on a GPU yet: expect problems."
_KIND = re.compile(r"[a-z]{1,20}")
_NAME = re.compile(r"[a-z0-9][a-z0-9.-]{0,60}")
"""Valid device names in a command that people copy."""
_EXAMPLE = "resnet18.c7"
_TRAINING_FACTS = {
    "data_rows": "measured programs",
    "workloads": "workloads",
    "devices": "devices",
    "datasets": "datasets, with the revision of the data",
    "test_datasets": "evaluated on held-out workloads of",
    "data_credit": "measured by",
    "data_hash": "sha256 of the data",
    "base": "continued from",
    "method": "carried over by",
    "seed": "seed",
    "created": "trained on",
}
_FIGURES = tuple(number(key, key) for key in METRICS)
_COUNTS = (number("workloads", "workloads", "d"), number("programs", "programs", "d"))


def card_body(card: ModelCard) -> str:
    """The Markdown of a card of this version."""
    parts = [
        f"# {card.name}",
        _purpose(card),
        "## How to use it",
        _use(card),
        "## Device",
        facts_table(device_facts(card.device)) or f"{card.device_id}.",
        "## Training data",
        training_table(card),
        *(["## Transfer", adaptation_text(card)] if card.transfer else []),
        "## Figures",
        *_figures(card),
        "## Limits",
        _limits(card),
        "## Licence and citation",
        f"{card.licence}.",
        citation_text(card),
    ]
    return "\n\n".join(parts) + "\n"


def use_command(card: ModelCard) -> str:
    """The command that searches with exactly this model, on a device of its kind; if none can, one that ranks.

    Example:
        >>> card = ModelCard(name="n", device_id="acme", arch="mlp", feature_spec="tiles@1", licence="MIT", training={},
        ...                  versions={}, totals={}, noise_floor=0.02, device={"kind": "cuda"}, address="lab/acme-mlp")
        >>> use_command(card)
        'costhub tune resnet18.c7 --model lab/acme-mlp --device cuda --out tuned/'
    """
    kind, model = _kind(card), card.address or "FOLDER"
    if not _is_searched(card):
        data = card.device_id if _NAME.fullmatch(card.device_id) else "measurements/"
        return f"costhub evaluate {model} --data {data}"
    device = f" --device {kind}" if kind != _OWN_KIND else ""
    return f"costhub tune {_EXAMPLE} --model {model}{device} --out tuned/"


def _kind(card: ModelCard) -> str:
    return str(card.device.get("kind") or _OWN_KIND)


def _is_searched(card: ModelCard) -> bool:
    """Whether costhub can measure on the device."""
    return _kind(card) in _SEARCHED_KINDS and _too_old(card) is None


def _too_old(card: ModelCard) -> str | None:
    """The compute capability of a GPU for which TVM does not compile any more."""
    features = card.device.get("isa_features") or ()
    found = (_SM.fullmatch(str(each)) for each in features) if _kind(card) == _CUDA else ()
    return next((match[0] for match in found if match and int(match[1]) < _OLDEST_SM), None)


def _purpose(card: ModelCard) -> str:
    text = (
        f"A cost model (`{card.arch}`) for {card.device_id}: it ranks the schedules of a tensor program by "
        "how fast they will run there, so that a search with TVM MetaSchedule needs fewer measurements. A "
        "score says which of two programs of one workload is faster. It is not a latency, and scores of different "
        "workloads are not comparable."
    )
    if card.arch == CONDITIONED:
        text += " Figures of the device (cores, caches, SIMD width, peak rates) are among its inputs."
    return text


def _use(card: ModelCard) -> str:
    bound = "  # bound to this machine" if card.arch == CONDITIONED else ""
    parts = [
        f"```bash\n{use_command(card)}\n```",
        "```python\n"
        "import costhub\n\n"
        f'model = costhub.load_model("{card.address or "FOLDER"}"){bound}\n'
        'programs = costhub.load_programs("measurements/", spec=model.feature_spec)  # a data folder\n'
        "scores = model.predict(programs.rows, programs.counts)  # higher is faster\n"
        "```",
    ]
    if not _is_searched(card):
        parts.insert(0, _why_not_searched(card))
    elif _kind(card) == _CUDA:
        parts.insert(0, _NEVER_RUN)
    if not card.address:
        parts.insert(0, "FOLDER is the folder of this card.")
    return "\n\n".join(parts)


def _why_not_searched(card: ModelCard) -> str:
    kind, too_old = _kind(card), _too_old(card)
    devices = f"{kind} devices" if _KIND.fullmatch(kind) else "such devices"
    why = f"costhub does not measure on {devices}"
    if too_old:
        why = f"The CUDA packages of this TVM compile for sm_{_OLDEST_SM} (Turing) and later, not for {too_old}"
    return (
        f"{why}, so `costhub tune` and `costhub adapt` cannot use this model there. It ranks programs that were "
        "measured elsewhere:"
    )


def training_table(card: ModelCard) -> str:
    """What the model was trained on, and how."""
    facts = {_TRAINING_FACTS[k]: str(card.training[k]) for k in _TRAINING_FACTS if k in card.training}
    if "options" in card.training:
        facts["options"] = ", ".join(f"{k} = {v}" for k, v in card.training["options"].items())
    facts["features"] = card.feature_spec
    facts["versions"] = ", ".join(f"{name} {version}" for name, version in sorted(card.versions.items()))
    return facts_table({key: value for key, value in facts.items() if value})


def adaptation_text(card: ModelCard) -> str:
    """How the model was adapted from another device, and with what result."""
    facts = card.transfer
    ended = [facts["stopped"]] if facts.get("stopped") else []
    parts = [
        f"Adapted from {facts['source']} by `{facts['method']}`, with {facts['trials']:,} programs measured on "
        f"{card.device_id}.",
        *ended,
        "The candidates ranked each batch of programs before they learned from it: the adapted model, the "
        "source model as it was and, from the second batch on, a local model trained on the target alone. By "
        "these rankings, and by how much the source's devices are like the target, the guard chose the "
        f"{facts['chosen']} model, which is the one in this folder.",
    ]
    return "\n\n".join([*parts, *adapted_pictures(card)])


def adapted_pictures(card: ModelCard) -> list[str]:
    """The pictures of a transfer, with their captions."""
    return [f"![{PICTURES[name]}]({name})" for name in card.transfer["pictures"]]


def _figures(card: ModelCard) -> Iterator[str]:
    yield _held_out(card)
    totals = [
        {"metric": key, "value": card.totals[key], "meaning": meaning.format(floor=card.noise_floor)}
        for key, meaning in METRIC_MEANINGS.items()
    ]
    meaning = TableColumn("meaning", "meaning")
    yield markdown_table(totals, (TableColumn("metric", "metric"), number("value", "mean over workloads"), meaning))
    caption = (
        EVALUATION_CAPTION.replace("workload,", "workload on each device,") if card.devices else EVALUATION_CAPTION
    )
    yield from (f"![{caption}]({name})" for name in card.pictures)
    for rows, key, title in ((card.operators, "operator", "operator"), (card.devices, "device_id", "device")):
        if rows:
            yield f"By {title}:"
            yield markdown_table(rows, (TableColumn(key, title), *_COUNTS, *_FIGURES))


def _held_out(card: ModelCard) -> str:
    counts = card.held_out
    if not counts.get("workloads"):
        return "On held-out workloads:"
    devices = f", measured on up to {counts['devices']} devices each" if counts["devices"] > 1 else ""
    workloads, programs = counted(counts["workloads"], "held-out workload"), counted(counts["programs"], "program")
    learned = "the model was trained on none of them"
    if card.transfer:
        learned = "the adaptation learned from none of them, but the model that was adapted may have"
    return f"On {workloads}{devices} ({programs}); {learned}. [{EVALUATION}]({EVALUATION}) has the figures of each."


def _limits(card: ModelCard) -> str:
    trained_on = card.training.get("devices", card.device_id)
    elsewhere = "its ranking may be wrong: compare it with some programs measured there (`costhub evaluate`)."
    if card.arch == CONDITIONED:
        elsewhere = "its ranking is less certain: run `costhub probe` there first, to measure the figures it takes."
    limits = [
        f"It was trained on {trained_on}. On another device {elsewhere}",
        f"It reads the features `{card.feature_spec}` only"
        + (f", as TVM {card.versions['tvm']} computes them." if "tvm" in card.versions else "."),
        f"Latencies that differ by less than {card.noise_floor:.0%} count as equal; `pairwise` skips them.",
    ]
    scored: list[dict[str, Any]] = [row for row in card.operators if row["top_1"] is not None]
    if len(scored) > 1:
        worst = min(scored, key=lambda row: row["top_1"])
        limits.append(f"It is weakest on {worst['operator']}: top_1 {worst['top_1']:.3f}.")
    if card.operators:
        names = ", ".join(row["operator"] for row in card.operators)
        limits.append(f"The figures say nothing about operators other than {names}.")
    return "\n".join(f"- {limit}" for limit in limits)


def _author(card: ModelCard) -> str:
    """The owner of the model, as far as its address in a hub tells; the models of the package are costhub's."""
    owner = str(card.address).removeprefix("hf-hub:").partition("/")[0]
    return "{the costhub contributors}" if card.version < OWNED_VERSION or owner == "costhub" else owner


def citation_text(card: ModelCard) -> str:
    """The text on how to cite the model."""
    return fenced(
        bibtex_entry(
            card.name.replace("-", "_"),
            title=f"{card.name}: a cost model for TVM MetaSchedule",
            author=_author(card),
            year=str(card.training.get("created", ""))[:4],
        )
    )
