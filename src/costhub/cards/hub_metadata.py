"""Provides hub_keys and figures_by_dataset: the keys in a model card's block that the Hugging Face hub itself reads.

The keys are those of its model cards (https://huggingface.co/docs/hub/model-cards): `datasets` and `base_model` link
pages to one another, `pipeline_tag` and `metrics` are searched, and an entry of `model-index` names the dataset with
the revision that its figures refer to.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

from costhub.cards.model_facts import METRICS, ModelCard

LINKED_VERSION = 5
"""The first version of model cards that has these keys."""
TASK = "tabular-regression"
"""The Hugging Face hub's name for a model that predicts one number from a row of features."""
_PART = r"[A-Za-z0-9][A-Za-z0-9._-]{0,95}"
_REPOSITORY = re.compile(rf"{_PART}/{_PART}")
_DATASET = re.compile(rf"({_PART}/{_PART})@([0-9a-f]{{12}})")


def named_datasets(text: Any) -> dict[str, str]:
    """Parses ORG/NAME of datasets -> revision of the data from a text such as the training facts of a card.

    Args:
        text: `ORG/NAME@REVISION`, several separated by commas. Anything else is ignored, because a
            card may be untrusted.

    Example:
        >>> named_datasets("costhub/nvidia-h200@aea010585955, my folder")
        {'costhub/nvidia-h200': 'aea010585955'}
    """
    parts = text.split(", ") if isinstance(text, str) else ()
    return {found[1]: found[2] for part in parts if (found := _DATASET.fullmatch(part))}


def hub_keys(card: ModelCard) -> dict[str, Any]:
    """The keys of the block that link a model's page to others, and that models are searched by.

    Example:
        >>> card = ModelCard(name="n", device_id="acme", arch="mlp", feature_spec="tiles@1", licence="MIT",
        ...                  training={"base": "costhub/any-cpu-conditioned"}, versions={}, totals={},
        ...                  noise_floor=0.02, device={})
        >>> hub_keys(card)["base_model"], hub_keys(card)["base_model_relation"]
        ('costhub/any-cpu-conditioned', 'finetune')
    """
    keys: dict[str, Any] = {"pipeline_tag": TASK, "metrics": list(METRICS)}
    if datasets := named_datasets(card.training.get("datasets")):
        keys["datasets"] = list(datasets)
    base = str(card.training.get("base", "")).removeprefix("hf-hub:").partition("@")[0]
    if _REPOSITORY.fullmatch(base) and not base.startswith("local/"):  # a folder, which has no page
        keys |= {"base_model": base, "base_model_relation": "finetune"}
    return keys


def figures_by_dataset(card: ModelCard) -> list[tuple[dict[str, Any], Mapping[str, float | None]]]:
    """The datasets of the model index, each with the figures on its held-out workloads.

    A dataset has its id and revision if the card knows which figures are its own: there is a single one, or `tested`
    has a row for each. Otherwise, there is one entry for all.

    Example:
        >>> card = ModelCard(name="n", device_id="acme", arch="mlp", feature_spec="tiles@1", licence="MIT",
        ...                  training={"test_datasets": "lab/acme@aea010585955"}, versions={}, totals={"top_1": 0.9},
        ...                  noise_floor=0.02, device={})
        >>> ((dataset, figures),) = figures_by_dataset(card)
        >>> dataset["type"], dataset["revision"], figures["top_1"]
        ('lab/acme', 'aea010585955', 0.9)
    """
    tested = named_datasets(card.training.get("test_datasets"))
    parts = [(named_datasets(row["dataset"]), row) for row in card.tested]
    if card.version >= LINKED_VERSION:
        if len(tested) == 1:
            return [(_dataset(card, tested), card.totals)]
        if tested and [*tested.items()] == [item for part, _ in parts for item in part.items()]:
            return [(_dataset(card, part), row) for part, row in parts]
    data = (
        ", ".join(f"{name}@{revision}" for name, revision in tested.items())
        or str(card.training.get("data_hash", "measurements"))[:12]
    )
    whole = {"type": "measurements", "name": f"held-out workloads of {card.device_id}, data {data}"}
    return [(whole, card.totals)]


def _dataset(card: ModelCard, named: Mapping[str, str]) -> dict[str, Any]:
    ((name, revision),) = named.items()
    label = f"held-out workloads of {card.device_id}"
    return {"type": name, "name": label, "config": "measurements", "split": "train", "revision": revision}
