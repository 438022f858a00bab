"""Provides DatasetCard: what a data folder says about itself to people and hubs, as data and as Markdown."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping, Sequence
from dataclasses import MISSING, asdict, dataclass, field, fields
from typing import Any, get_origin, get_type_hints

from costhub.cards.card_parts import DEVICE_FACTS, HUB_LICENCES, device_value, inline
from costhub.cards.markdown import join, split
from costhub.cards.tables import TableColumn, markdown_table, number
from costhub.dataset.readme import CONFIGS, EXAMPLE_QUERY, dataset_config, is_generated
from costhub.dataset.schema import TABLES, document
from costhub.errors import DataError
from costhub.terminal_text import clean

LATENCIES_PICTURE = "latencies.png"
PICTURES = {
    LATENCIES_PICTURE: "Latencies of the measured programs, by operator",
}
"""File beside the card -> what it shows."""

_CONTENT = (
    TableColumn("device_id", "device"),
    number("rows", "measurements", ",d"),
    number("ok", "with a latency", ",d"),
    number("workloads", "workloads", ",d"),
)
_CHANGES = (
    TableColumn("date", "date"),
    TableColumn("version", "version"),
    number("added", "rows added", "+,d"),
    number("rows", "rows", ",d"),
    TableColumn("revision", "data revision"),
)
_CONFIGS = {
    "measurements": "every measurement of every device; the one that is loaded where none is named",
    "workloads": "what was measured: operator, shapes and the TVM module",
    "devices": "what it was measured on",
}


def dataset_card_body(card: DatasetCard) -> str:
    """The Markdown of a card below its metadata."""
    parts = [
        f"# {inline(card.name)}",
        _purpose(card),
        "## How to use it",
        _use(card),
        "## Devices",
        _devices(card),
        "## What is in it",
        _content(card),
        "## Configurations",
        _configurations(card),
        "## Columns",
        *(f"### {table}\n\n{document(table)}" for table in TABLES),
        "## Limits",
        _limits(card),
        *(["## Changes", markdown_table(card.changes[::-1], _CHANGES)] if card.changes else []),
        "## Licence",
        ", ".join(inline(licence) for licence in card.licences) + ".",
        "## Citation",
        _citation(card),
    ]
    return "\n\n".join(parts) + "\n"


def _purpose(card: DatasetCard) -> str:
    return (
        f"{card.rows:,} measurements of programs of Apache TVM MetaSchedule on "
        f"{', '.join(inline(str(row['device_id'])) for row in card.devices) or 'no device'}, to learn cost "
        "models from and to compare them on. A row is one program with the time it took, or with what went "
        "wrong; failed attempts are rows too. The latency of a program is the median of `run_s` in seconds. "
        f"The data have revision `{inline(card.revision)}`, in schema version {card.schema_version}."
    )


def _use(card: DatasetCard) -> str:
    address = json.dumps(card.address, ensure_ascii=False)
    return (
        "```python\n"
        "import costhub\n"
        f'table = costhub.load_measurements({address}, status="ok", columns=["workload_id", "run_s"])\n'
        f'frame = costhub.load_measurements({address}, format="pandas")  # or "datasets"\n'
        "```\n\n"
        "No code of costhub is needed: `datasets.load_dataset` takes the configurations below, and DuckDB "
        f"the files. The best program of each workload:\n\n```sql\n{EXAMPLE_QUERY}\n```"
    )


def _devices(card: DatasetCard) -> str:
    parts = []
    for row in card.devices:
        facts = [
            {"fact": title, "value": device_value(key, row[key])}
            for key, title in DEVICE_FACTS.items()
            if row.get(key) is not None
        ]
        parts.append(markdown_table(facts, (TableColumn("fact", ""), TableColumn("value", ""))))
    return "\n\n".join(parts) or "None."


def _content(card: DatasetCard) -> str:
    operators = [{"operator": name, "workloads": count} for name, count in card.operators.items()]
    said = f"{card.rows:,} measurements of {card.workloads:,} workloads, {card.ok:,} of them with a latency"
    if card.tvm_versions:
        said += f", by TVM {', '.join(map(inline, card.tvm_versions))}"
    if card.contributors:
        said += f". Measured by {', '.join(map(inline, card.contributors))}"
    parts = [f"{said}.", markdown_table(card.devices, _CONTENT)]
    if operators:
        parts.append(
            markdown_table(operators, (TableColumn("operator", "operator"), number("workloads", "workloads", ",d")))
        )
    return "\n\n".join([*parts, *(f"![{PICTURES[name]}]({name})" for name in card.pictures)])


def _configurations(card: DatasetCard) -> str:
    rows = [{"name": f"`{name}`", "holds": holds} for name, holds in _CONFIGS.items()]
    if card.sample_rows:
        holds = f"{card.sample_rows:,} measurements drawn by their ids, some of every device, to look at"
        rows.append({"name": "`sample`", "holds": holds})
    named = {config["config_name"] for config in card.configs()}
    for row in card.devices:
        if row["device_id"] in named:
            rows.append({"name": f"`{row['device_id']}`", "holds": "the measurements of that device"})
    text = "Each has one split, `train`, which is all of it. What to hold out is a question of what is asked: "
    splits = ", ".join(f"`{inline(name)}`" for name in card.splits)
    text += f"the folder `splits` has {splits}, as ids of workloads." if splits else "`costhub split` divides it."
    return markdown_table(rows, (TableColumn("name", "name"), TableColumn("holds", "holds"))) + f"\n\n{text}"


def _limits(card: DatasetCard) -> str:
    limits = [
        "Latencies of different devices, or of different workloads, do not compare.",
        "Programs were proposed by searches and by chance (`proposed_by`); they are no even sample of all.",
        "Who learns from it holds out whole workloads: programs of one workload resemble one another.",
    ]
    failed = card.rows - card.ok
    if failed:
        limits.append(f"{failed:,} rows have no latency ({failed / card.rows:.1%}); `status` says why.")
    few = [inline(str(row["device_id"])) for row in card.devices if row["ok"] < 1000]
    if few:
        limits.append(f"Fewer than 1,000 latencies: {', '.join(few)}.")
    return "\n".join(f"- {limit}" for limit in limits)


def _citation(card: DatasetCard) -> str:
    year = str(card.changes[-1]["date"])[:4] if card.changes else ""
    key = "".join(letter if letter.isalnum() else "_" for letter in card.name)
    lines = [
        f"@misc{{costhub_{key},",
        f"  title = {{{inline(card.name)}: measured tensor programs}},",
        f"  author = {{{' and '.join(map(inline, card.contributors)) or '{the costhub contributors}'}}},",
        *([f"  year = {{{year}}},"] if year.isdigit() else []),
        f"  note = {{data revision {inline(card.revision)}}},",
        "}",
    ]
    return "```bibtex\n" + "\n".join(lines) + "\n```"


CARD_VERSION = 1
"""Raised by one whenever `parse` could no longer read the cards written before."""

_SIZES = (
    (1_000, "n<1K"),
    (10_000, "1K<n<10K"),
    (100_000, "10K<n<100K"),
    (1_000_000, "100K<n<1M"),
    (10_000_000, "1M<n<10M"),
    (100_000_000, "10M<n<100M"),
    (1_000_000_000, "100M<n<1B"),
)
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
            found.append(dataset_config(SAMPLE, f"{SAMPLE}/train-*.parquet"))
        names = {entry["config_name"] for entry in found}
        for device in (str(row["device_id"]) for row in self.devices if row["rows"]):
            # What `datasets` takes for the name of a configuration, and for no pattern in a path.
            if device not in names and device.isprintable() and not set(device) & set('<>:/\\|?*[]{}"'):
                found.append(dataset_config(device, f"measurements/{device}/train-*.parquet"))
        return found


def render(card: DatasetCard) -> str:
    """The README.md of the data folder: YAML for the Hugging Face hub and `parse`, Markdown for people.

    Raises:
        DataError: A row has no licence.
    """
    text = dataset_card_body(card)
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


def recorded_changes(text: str) -> list[dict[str, Any]]:
    """The versions that a card tells of; none where it is no dataset card of costhub.

    Raises:
        DataError: The card is one of a newer version, and writing it again would lose what it tells.

    Example:
        >>> recorded_changes("# Data of somebody")
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
        written = dataset_card_body(card)
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
        != dataset_config(str(entry.get("config_name")), f"measurements/{entry.get('config_name')}/train-*.parquet")
    ]


def _licence(licences: Sequence[str]) -> dict[str, Any]:
    names = sorted({licence.strip().lower() for licence in licences})
    if all(name in HUB_LICENCES for name in names):
        return {"license": names[0] if len(names) == 1 else names}
    return {"license": "other", "license_name": "-and-".join(names)}
