"""Provides complete_dataset_card: the README of a data folder with what a hub files it under."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from costhub.cards import front_matter
from costhub.cards.model_card import HUB_LICENCES
from costhub.errors import DataError

_SIZES = ((1_000, "n<1K"), (10_000, "1K<n<10K"), (100_000, "10K<n<100K"), (1_000_000, "100K<n<1M"))
_BEYOND = "1M<n<10M"


def complete_dataset_card(
    text: str, *, rows: int, devices: Sequence[str], licences: Sequence[str], tvm_versions: Sequence[str]
) -> str:
    r"""Writes licence, size and tags into the block of a card; its other keys and its text stay.

    Args:
        text: The README.
        rows: Measurements.
        devices: Their devices.
        licences: SPDX names of all rows.
        tvm_versions: Versions of TVM they were measured with.

    Raises:
        DataError: The text has no block of YAML, or a row has no licence.

    Example:
        >>> text = "---\nlicense: mit\n---\n# Data"
        >>> made = complete_dataset_card(text, rows=7, devices=["a"], licences=["MIT"], tvm_versions=["0.27"])
        >>> front_matter.split(made)[0]["tags"]
        ['costhub', 'tvm', 'cost-model', 'device:a', 'tvm:0.27']
    """
    block, body = front_matter.split(text)
    if not licences or not all(licence.strip() for licence in licences):
        raise DataError("There are rows without a licence, so nobody may use them. Say one with --licence.")
    own = ["costhub", "tvm", "cost-model", *(f"device:{device}" for device in devices)]
    own += [f"tvm:{version}" for version in tvm_versions]
    others = block.get("tags") if isinstance(block.get("tags"), list) else []
    kept = [
        tag for tag in others or () if isinstance(tag, str) and tag.partition(":")[0] not in ("device", "tvm")
    ]
    size = next((name for limit, name in _SIZES if rows < limit), _BEYOND)
    block = {key: value for key, value in block.items() if not str(key).startswith("license")}
    filed = {
        **_licence(licences),
        **block,
        "size_categories": [size],
        "tags": list(dict.fromkeys([*own, *kept])),
    }
    return front_matter.join(filed, body)


def _licence(licences: Sequence[str]) -> dict[str, Any]:
    names = sorted({licence.strip().lower() for licence in licences})
    if all(name in HUB_LICENCES for name in names):
        return {"license": names[0] if len(names) == 1 else names}
    return {"license": "other", "license_name": "-and-".join(names)}
