"""Provides DatasetCard: a data folder's description for people and hubs, as data and as Markdown."""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Mapping, Sequence
from dataclasses import MISSING, asdict, dataclass, field, fields
from typing import Any, get_origin, get_type_hints

from costhub.cards.card_parts import bibtex_entry, device_facts, facts_table, fenced, inline, licence_entry
from costhub.cards.dataset_origin import (
    cited_works,
    importers,
    is_measurer_known,
    is_sound_origin,
    measurers,
    origin_text,
)
from costhub.cards.markdown import join, split
from costhub.cards.tables import TableColumn, markdown_table, number
from costhub.dataset.check.rules import RULES
from costhub.dataset.readme import CONFIGS, EXAMPLE_QUERY, dataset_config, is_generated
from costhub.dataset.schema import TABLES, document
from costhub.errors import DataError
from costhub.terminal_text import clean, counted

CARD_VERSION = 1
"""Incremented whenever `parse` could no longer read earlier cards."""
LATENCIES_PICTURE = "latencies.png"
PICTURES = {
    LATENCIES_PICTURE: "Latencies of the measured programs, by operator",
}
"""File beside the card -> description of its content."""
SAMPLE = "sample"
"""Folder and configuration holding a few rows of each device."""
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
_OWN = ("license", "license_name", "license_link", "size_categories", "source_datasets", "tags", "configs", "costhub")
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
    "measurements": "every measurement of every device; the default",
    "workloads": "the measured workloads: operator, shapes and the TVM module",
    "devices": "the measured devices",
}


@dataclass(frozen=True, kw_only=True)
class DatasetCard:
    """Everything a card shows; the types are those of YAML, so that a card can be read back unchanged."""

    name: str
    """Readable name."""
    address: str
    """Address for `costhub.load_measurements`."""
    licences: list[str]
    """SPDX names of all rows."""
    devices: list[dict[str, Any]]
    """For each device: `device_id`, `rows`, `ok`, `workloads` and its known facts."""
    rows: int
    ok: int
    """Number of measurements with a latency."""
    workloads: int
    operators: dict[str, int]
    """Operator family -> number of its workloads."""
    tvm_versions: list[str]
    contributors: list[str]
    schema_version: int
    revision: str
    """Identifies the content of the tables."""
    splits: list[str]
    """Names of the split files."""
    sample_rows: int = 0
    """Number of rows in the configuration `sample`; 0 if there is none."""
    pictures: list[str] = field(default_factory=list)
    """The files of `PICTURES` that exist beside the card."""
    changes: list[dict[str, Any]] = field(default_factory=list)
    """For each published version: `date`, `version` (None without a tag), `rows`, `added` and `revision`."""
    transplanted_from: list[str] = field(default_factory=list)
    """Compilers whose code was measured, if TVM only replays the schedules."""
    origins: list[dict[str, Any]] = field(default_factory=list)
    """For the imported rows, by contributor, licence and TVM: `contributor`, `licence`, `tvm_version` and
    `transplanted_from` (empty if the rows have none), `rows`, and `places`, each with `repository`, `revision`,
    `folders`, `changed` (changes made before the import) and, where there is one, the `paper` that the rows were made
    for; empty if unknown. `only_imported` is true where the contributor did not measure the rows, and nobody knows who
    did."""
    warned_rows: dict[str, int] = field(default_factory=dict)
    """Rule id of `costhub check` -> number of rows it warns about."""

    @property
    def date(self) -> str:
        """The day of the last version, ISO 8601; "" if there is none, or a strange card does not say it."""
        return str(self.changes[-1].get("date") or "") if self.changes else ""

    def configs(self) -> list[dict[str, Any]]:
        """The configurations that `datasets.load_dataset` offers: the tables, the sample, each device."""
        found = [dict(entry) for entry in CONFIGS]
        if self.sample_rows:
            found.append(dataset_config(SAMPLE, f"{SAMPLE}/train-*.parquet"))
        names = {entry["config_name"] for entry in found}
        for device in (str(row["device_id"]) for row in self.devices if row["rows"]):
            # Only names that `datasets` accepts as a configuration, not as a path pattern.
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
        DataError: The text is not a dataset card of costhub, or is of a newer version.
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
        raise DataError(f"The card lacks {', '.join(missing)}, which every card needs.")
    card = DatasetCard(**{key: value for key, value in block.items() if key in needed})
    _check_kinds(card)
    return card


def _check_kinds(card: DatasetCard) -> None:
    """Rejects values of the wrong kind: cards are untrusted, and code computes with their numbers."""
    wrong = [
        name
        for name, kind in get_type_hints(DatasetCard).items()
        if type(getattr(card, name)) is not (get_origin(kind) or kind)
    ]
    tables: tuple[tuple[str, Sequence[Any], tuple[str, ...], str], ...] = (
        ("devices", card.devices, ("rows", "ok", "workloads"), "device_id"),
        ("changes", card.changes, ("rows", "added"), "revision"),
        ("origins", card.origins, ("rows",), "contributor"),
    )
    for name, rows, numbers, text in tables if not wrong else ():
        for row in rows:
            sound = isinstance(row, dict) and all(type(row.get(key)) is int for key in numbers)
            if not sound or not isinstance(row.get(text), str):
                wrong.append(name)
    if not wrong and not all(map(is_sound_origin, card.origins)):
        wrong.append("origins")
    if not wrong and any(type(rows) is not int for rows in card.warned_rows.values()):
        wrong.append("warned_rows")
    if wrong:
        raise DataError(
            f"The `costhub` block of the card holds values of the wrong kind ({wrong[0]}). Publish the data "
            "again without it."
        )


def recorded_changes(text: str) -> list[dict[str, Any]]:
    """Returns the versions listed on a card; empty if it is not a dataset card of costhub.

    Raises:
        DataError: The card has a newer version, and rewriting it would lose information.

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


def recorded_importers(text: str) -> frozenset[str]:
    """Returns the contributors who only imported rows, as a card says; empty if it is not a dataset card of costhub.

    A card that cannot be read says nothing of anyone: its rows can be used all the same.

    Example:
        >>> sorted(recorded_importers("# Data of somebody"))
        []
    """
    try:
        return importers(parse(text).origins)
    except DataError:
        return frozenset()


def with_change(
    changes: Sequence[Mapping[str, Any]], *, date: str, version: str | None, rows: int, revision: str
) -> list[dict[str, Any]]:
    """Returns the versions so far, plus one more unless the data are the same as in the last one.

    Example:
        >>> first = with_change([], date="2026-01-01", version="v1", rows=7, revision="a")
        >>> both = with_change(first, date="2026-02-01", version=None, rows=9, revision="b")
        >>> [change["added"] for change in both]
        [7, 2]
    """
    versions = [dict(change) for change in changes]
    if versions and versions[-1].get("revision") == revision:
        return versions
    before = versions[-1].get("rows", 0) if versions else 0
    return [
        *versions,
        {"date": date, "version": version, "rows": rows, "added": rows - before, "revision": revision},
    ]


def complete_dataset_card(text: str, card: DatasetCard) -> str:
    """Updates the README of a data folder with a card; keeps text that people wrote there.

    The text below the block is rewritten only if costhub wrote it and no one has changed it since. Other keys,
    tags and configurations of the block stay.

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
    before = block.get("costhub")
    ours_before = _pretty_name(before.get("name")) if isinstance(before, dict) else None
    # People's keys come before ours. The name that costhub gave is not theirs: it follows that of the data.
    others = {k: v for k, v in block.items() if k not in _OWN and (k, v) != ("pretty_name", ours_before)}
    return join({**ours, **others}, written)


def _metadata(card: DatasetCard, body: str | None) -> dict[str, Any]:
    """The block of a card, with the hash of its text if costhub wrote it, so that it can be recognised later."""
    if not card.licences or not all(licence.strip() for licence in card.licences):
        raise DataError(
            "Some rows have no licence, so nobody may use them. Write an SPDX name such as CC-BY-4.0 "
            "into these rows, as `costhub collect` and `costhub import` do with --licence."
        )
    size = next((name for limit, name in _SIZES if card.rows < limit), _BEYOND)
    written = {} if body is None else {"body_sha256": _sha256(body)}
    return {
        **licence_entry(card.licences),
        "pretty_name": _pretty_name(card.name),
        "task_categories": ["tabular-regression"],
        "annotations_creators": ["machine-generated"],
        "size_categories": [size],
        "source_datasets": _sources(card),
        "tags": dataset_tags(card),
        "configs": card.configs(),
        "costhub": {"dataset_card_version": CARD_VERSION, **written, **asdict(card)},
    }


def _pretty_name(name: Any) -> str:
    return f"{name}: measured tensor programs"


def dataset_tags(card: DatasetCard) -> list[str]:
    """The search tags of a dataset, including its devices and TVM versions."""
    tags = ["costhub", "tvm", "cost-model", *(f"device:{row['device_id']}" for row in card.devices)]
    return list(dict.fromkeys([*tags, *(f"tvm:{version}" for version in card.tvm_versions)]))


def _sources(card: DatasetCard) -> list[str]:
    """The sources of the rows in the Hugging Face hub's terms; a contributor OWNER/NAME is an imported repository.

    Imported rows of which nobody knows who measured them are not original either.
    """
    imported = [name for name in card.contributors if "/" in name]
    is_unknown = any(not is_measurer_known(origin) for origin in card.origins)
    own = [name for name in measurers(card.contributors, card.origins, card.rows) if "/" not in name]
    original = ["original"] if own or not (imported or is_unknown) else []
    unknown = ["extended|other"] if is_unknown else []
    named = [f"extended|other-{re.sub('[^A-Za-z0-9.]+', '-', name).strip('-')}" for name in imported]
    return [*original, *unknown, *named]


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
    """Configurations that people added, without those of removed devices."""
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


def dataset_card_body(card: DatasetCard) -> str:
    """The Markdown of a card below its metadata."""
    parts = [
        f"# {inline(card.name)}",
        purpose(card),
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
        *(["## Where the imported rows are from", origin_text(card.origins)] if card.origins else []),
        "## Limits",
        _limits(card),
        *(["## Changes", markdown_table(card.changes[::-1], _CHANGES)] if card.changes else []),
        "## Licence",
        ", ".join(inline(licence) for licence in card.licences) + ".",
        "## Citation",
        fenced(bibtex(card)),
    ]
    return "\n\n".join(parts) + "\n"


def purpose(card: DatasetCard) -> str:
    """The contents and purpose of a dataset, in Markdown."""
    return (
        f"{card.rows:,} measurements of programs of Apache TVM MetaSchedule on "
        f"{', '.join(inline(str(row['device_id'])) for row in card.devices) or 'no device'}, to train "
        "cost models on and to compare them. A row is one program with its latency or with the reason why it "
        "failed. The latency of a program is the median of `run_s` in seconds. "
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
        "To read the data without costhub, use `datasets.load_dataset` with the configurations below, or DuckDB "
        f"on the files. The best program of each workload:\n\n```sql\n{EXAMPLE_QUERY}\n```"
    )


def _devices(card: DatasetCard) -> str:
    return "\n\n".join(facts_table(device_facts(row)) for row in card.devices) or "None."


def _content(card: DatasetCard) -> str:
    operators = [{"operator": name, "workloads": count} for name, count in card.operators.items()]
    text = f"{card.rows:,} measurements of {card.workloads:,} workloads, {card.ok:,} of them with a latency"
    if card.tvm_versions:
        text += f", by TVM {', '.join(map(inline, card.tvm_versions))}"
    known = measurers(card.contributors, card.origins, card.rows)
    if known:
        text += f". Measured by {', '.join(map(inline, known))}"
    # The name of the last contributor may end with a full stop, like "Ada L.".
    parts = [f"{text.removesuffix('.')}.", markdown_table(card.devices, _CONTENT)]
    if operators:
        parts.append(
            markdown_table(operators, (TableColumn("operator", "operator"), number("workloads", "workloads", ",d")))
        )
    return "\n\n".join([*parts, *(f"![{PICTURES[name]}]({name})" for name in card.pictures)])


def _configurations(card: DatasetCard) -> str:
    rows = [{"name": f"`{name}`", "holds": holds} for name, holds in _CONFIGS.items()]
    if card.sample_rows:
        holds = f"{card.sample_rows:,} measurements, drawn by their ids from every device, to look at"
        rows.append({"name": "`sample`", "holds": holds})
    named = {config["config_name"] for config in card.configs()}
    for row in card.devices:
        if row["device_id"] in named:
            rows.append({"name": f"`{row['device_id']}`", "holds": "the measurements of that device"})
    text = "Each has one split, `train`, which holds all rows. What to hold out depends on the question: "
    splits = ", ".join(f"`{inline(name)}`" for name in card.splits)
    text += f"the folder `splits` has {splits}, as ids of workloads." if splits else "`costhub split` makes splits."
    return markdown_table(rows, (TableColumn("name", "name"), TableColumn("holds", "holds"))) + f"\n\n{text}"


def _limits(card: DatasetCard) -> str:
    limits = [
        "Latencies of different devices or workloads are not comparable.",
        "Programs were proposed by searches, by models or at random, as `proposed_by` says of each row (`imported`: "
        "its source does not); only those that are `random` are a fair sample of the design space.",
        "Hold out whole workloads when you train on it: programs of one workload resemble one another.",
    ]
    if card.transplanted_from:
        compilers = ", ".join(map(inline, card.transplanted_from))
        limits.append(
            f"Latencies are those of code by {compilers}, of the TVM named above. The TVM of today makes the same "
            "programs, but generates other code for them: train and evaluate apart from native measurements."
        )
    failed = card.rows - card.ok
    if failed:
        have = "has" if failed == 1 else "have"
        limits.append(f"{counted(failed, 'row')} {have} no latency ({failed / card.rows:.1%}); `status` says why.")
    for rule, rows in card.warned_rows.items():
        asks = f" ({RULES[rule].title})" if rule in RULES else ""
        do = "does" if rows == 1 else "do"
        limits.append(f"{counted(rows, 'row')} {do} not keep the rule {inline(rule)} of `costhub check`{asks}.")
    few = [inline(str(row["device_id"])) for row in card.devices if row["ok"] < 1000]
    if few:
        limits.append(f"Fewer than 1,000 latencies: {', '.join(few)}.")
    return "\n".join(f"- {limit}" for limit in limits)


def bibtex(card: DatasetCard) -> str:
    """A BibTeX entry for citing a dataset."""
    known = measurers(card.contributors, card.origins, card.rows)
    return bibtex_entry(
        "".join(letter if letter.isalnum() else "_" for letter in card.name),
        title=f"{inline(card.name)}: measured tensor programs",
        author=" and ".join(map(inline, known)) or ("{unknown}" if card.origins else "{the costhub contributors}"),
        year=card.date[:4],
        note=", ".join([f"data revision {inline(card.revision)}", *cited_works(card.origins)]),
    )
