"""Provides DatasetCard: what a data folder says about itself to people and hubs, made from its tables."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping, Sequence
from dataclasses import MISSING, asdict, dataclass, field, fields
from typing import Any, get_origin, get_type_hints

from costhub.cards.dataset_sections import body
from costhub.cards.front_matter import join, split
from costhub.cards.model_card import HUB_LICENCES
from costhub.dataset.check.report import clean
from costhub.dataset.readme import CONFIGS, config, is_generated
from costhub.errors import DataError

CARD_VERSION = 1
"""Raised by one whenever `parse` could no longer read the cards written before."""

_SIZES = (
    (1_000, "n<1K"), (10_000, "1K<n<10K"), (100_000, "10K<n<100K"), (1_000_000, "100K<n<1M"),
    (10_000_000, "1M<n<10M"), (100_000_000, "10M<n<100M"), (1_000_000_000, "100M<n<1B"),
)  # fmt: skip
_BEYOND = "1B<n<10B"
_OWN = ("license", "license_name", "license_link", "size_categories", "tags", "configs", "costhub")
SAMPLE = "sample"
"""Folder, and configuration, of a few rows of each device."""


@dataclass(frozen=True, kw_only=True)
class DatasetCard:
    """Everything a card shows; the types are those of YAML, so that a card survives being read back."""

    name: str
    """What people call it."""
    address: str
    """What `costhub.load_measurements` takes."""
    licences: list[str]
    """SPDX names of all rows."""
    devices: list[dict[str, Any]]
    """Of each device `device_id`, `rows`, `ok`, `workloads`, and what is known of the device."""
    rows: int
    ok: int
    """Measurements that have a latency."""
    workloads: int
    operators: dict[str, int]
    """Operator family -> its workloads."""
    tvm_versions: list[str]
    contributors: list[str]
    schema_version: int
    revision: str
    """Names the content of the tables."""
    splits: list[str]
    """Names of the split files."""
    sample_rows: int = 0
    """Rows of the configuration `sample`; 0 where there is none."""
    pictures: list[str] = field(default_factory=list)
    """Of `dataset_sections.PICTURES`, those beside the card."""
    changes: list[dict[str, Any]] = field(default_factory=list)
    """Of each published version `date`, `version` (None without a tag), `rows`, `added` and `revision`."""

    def configs(self) -> list[dict[str, Any]]:
        """The configurations that `datasets.load_dataset` offers: the tables, the sample, each device."""
        found = [dict(entry) for entry in CONFIGS]
        if self.sample_rows:
            found.append(config(SAMPLE, f"{SAMPLE}/train-*.parquet"))
        names = {entry["config_name"] for entry in found}
        for device in (str(row["device_id"]) for row in self.devices if row["rows"]):
            # What `datasets` takes for the name of a configuration, and for no pattern in a path.
            if device not in names and device.isprintable() and not set(device) & set('<>:/\\|?*[]{}"'):
                found.append(config(device, f"measurements/{device}/train-*.parquet"))
        return found


def render(card: DatasetCard) -> str:
    """The README.md of the data folder: YAML for the Hugging Face hub and `parse`, Markdown for people.

    Raises:
        DataError: A row has no licence.
    """
    text = body(card)
    return join(_metadata(card, text), text)


def parse(text: str) -> DatasetCard:
    """Reads a card back; for every card, `parse(render(card)) == card`.

    Raises:
        DataError: The text is no dataset card of costhub, or one of a newer version.
    """
    block = split(text)[0].get("costhub")
    if not isinstance(block, dict) or "dataset_card_version" not in block:
        raise DataError("The card has no `costhub` block of a dataset: it was not written by costhub.")
    version = block["dataset_card_version"]
    if version != CARD_VERSION:
        raise DataError(
            f"The dataset card has version {clean(str(version), 40)}, this costhub reads {CARD_VERSION}. "
            "Update costhub."
        )
    needed = {f.name: f.default is MISSING and f.default_factory is MISSING for f in fields(DatasetCard)}
    missing = [name for name, is_needed in needed.items() if is_needed and name not in block]
    if missing:
        raise DataError(f"The card lacks {', '.join(missing)}, which a card cannot do without.")
    card = DatasetCard(**{key: value for key, value in block.items() if key in needed})
    _check_kinds(card)
    return card


def _check_kinds(card: DatasetCard) -> None:
    """Refuses values that no card has: they come from strangers, and are counted with."""
    wrong = [
        name
        for name, kind in get_type_hints(DatasetCard).items()
        if type(getattr(card, name)) is not (get_origin(kind) or kind)
    ]
    tables: tuple[tuple[str, Sequence[Any], tuple[str, ...], str], ...] = (
        ("devices", card.devices, ("rows", "ok", "workloads"), "device_id"),
        ("changes", card.changes, ("rows", "added"), "revision"),
    )
    for name, rows, numbers, text in tables if not wrong else ():
        for row in rows:
            sound = isinstance(row, dict) and all(type(row.get(key)) is int for key in numbers)
            if not sound or not isinstance(row.get(text), str):
                wrong.append(name)
    if wrong:
        raise DataError(
            f"The `costhub` block of the card holds values of the wrong kind ({wrong[0]}). Publish the data "
            "again without it."
        )


def known_changes(text: str) -> list[dict[str, Any]]:
    """The versions that a card tells of; none where it is no dataset card of costhub.

    Raises:
        DataError: The card is one of a newer version, and writing it again would lose what it tells.

    Example:
        >>> known_changes("# Data of somebody")
        []
    """
    try:
        block = split(text)[0].get("costhub")
    except DataError:
        return []
    is_card = isinstance(block, dict) and "dataset_card_version" in block
    return list(parse(text).changes) if is_card else []


def with_change(
    changes: Sequence[Mapping[str, Any]], *, date: str, version: str | None, rows: int, revision: str
) -> list[dict[str, Any]]:
    """The versions so far, and one more where the data are not those of the last.

    Example:
        >>> first = with_change([], date="2026-01-01", version="v1", rows=7, revision="a")
        >>> both = with_change(first, date="2026-02-01", version=None, rows=9, revision="b")
        >>> [change["added"] for change in both]
        [7, 2]
    """
    told = [dict(change) for change in changes]
    if told and told[-1].get("revision") == revision:
        return told
    before = told[-1].get("rows", 0) if told else 0
    return [
        *told,
        {"date": date, "version": version, "rows": rows, "added": rows - before, "revision": revision},
    ]


def complete_dataset_card(text: str, card: DatasetCard) -> str:
    """Writes a card over the README of a data folder; what people wrote there stays.

    The text below the block is written anew where costhub wrote it and nobody changed it since. Keys of the
    block that are not costhub's stay, and so do other tags and configurations.

    Raises:
        DataError: The README has no block of YAML, or a row has no licence.
    """
    block, written = split(text)
    is_ours = _is_ours(block, written)
    if is_ours:
        written = body(card)
    ours = _metadata(card, written if is_ours else None)
    ours["tags"] = list(dict.fromkeys([*ours["tags"], *_foreign_tags(block)]))
    ours["configs"] += _foreign_configs(block, ours["configs"])
    others = {key: value for key, value in block.items() if key not in _OWN}
    return join({**ours, **others}, written)


def _metadata(card: DatasetCard, body: str | None) -> dict[str, Any]:
    """The block of a card; with the hash of its text where costhub wrote that, to know it again."""
    if not card.licences or not all(licence.strip() for licence in card.licences):
        raise DataError(
            "There are rows without a licence, so nobody may use them. Write an SPDX name such as CC-BY-4.0 "
            "into these rows, as `costhub collect` and `costhub import` do with --licence."
        )
    size = next((name for limit, name in _SIZES if card.rows < limit), _BEYOND)
    written = {} if body is None else {"body_sha256": _sha256(body)}
    tags = ["costhub", "tvm", "cost-model", *(f"device:{row['device_id']}" for row in card.devices)]
    return {
        **_licence(card.licences),
        "size_categories": [size],
        "tags": list(dict.fromkeys([*tags, *(f"tvm:{version}" for version in card.tvm_versions)])),
        "configs": card.configs(),
        "costhub": {"dataset_card_version": CARD_VERSION, **written, **asdict(card)},
    }


def _is_ours(block: Mapping[str, Any], body: str) -> bool:
    own = block.get("costhub")
    return is_generated(body) or (isinstance(own, dict) and own.get("body_sha256") == _sha256(body))


def _sha256(body: str) -> str:
    return hashlib.sha256(body.encode()).hexdigest()


def _foreign_tags(block: Mapping[str, Any]) -> list[str]:
    tags = block.get("tags")
    return [
        tag
        for tag in (tags if isinstance(tags, list) else ())
        if isinstance(tag, str) and tag.partition(":")[0] not in ("device", "tvm")
    ]


def _foreign_configs(block: Mapping[str, Any], ours: Sequence[Mapping[str, Any]]) -> list[Any]:
    """Configurations that people added: neither a name of ours, nor the files of a device that is gone."""
    names = {entry["config_name"] for entry in ours} | {SAMPLE}
    configs = block.get("configs")
    return [
        entry
        for entry in (configs if isinstance(configs, list) else ())
        if isinstance(entry, dict)
        and entry.get("config_name") not in names
        and entry
        != config(str(entry.get("config_name")), f"measurements/{entry.get('config_name')}/train-*.parquet")
    ]


def _licence(licences: Sequence[str]) -> dict[str, Any]:
    names = sorted({licence.strip().lower() for licence in licences})
    if all(name in HUB_LICENCES for name in names):
        return {"license": names[0] if len(names) == 1 else names}
    return {"license": "other", "license_name": "-and-".join(names)}
