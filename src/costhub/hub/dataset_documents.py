"""Provides write_dataset_documents: writes the card of a data folder, its sample, picture and Croissant document."""

from __future__ import annotations

import hashlib
import heapq
from collections import Counter
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from costhub.cards.card_parts import DEVICE_FACTS, SOURCE, kept_facts
from costhub.cards.dataset_card import (
    LATENCIES_PICTURE,
    PICTURES,
    SAMPLE,
    DatasetCard,
    bibtex,
    complete_dataset_card,
    dataset_tags,
    purpose,
    recorded_importers,
    with_change,
)
from costhub.cards.dataset_origin import ONLY_IMPORTED, measurers
from costhub.cards.markdown import CARD
from costhub.dataset.credit import data_credit, is_imported
from costhub.dataset.croissant import CROISSANT, CroissantFacts, croissant_text
from costhub.dataset.folder import DataFolder
from costhub.dataset.schema import SCHEMA_VERSION, TABLES
from costhub.dataset.shards.shard import write_shard
from costhub.dataset.shards.shard_set import shard_name
from costhub.dataset.splits.split import list_splits
from costhub.dataset.stats.observations import read_observations
from costhub.errors import DataError
from costhub.files import write_replacing
from costhub.hub.remote.address import HF_PREFIX
from costhub.hub.remote.manifest import hash_file
from costhub.hub.sources.catalogue import PublicSource, load_sources
from costhub.hub.staging import read_card

_FACT_COLUMNS = ("device_id", "workload_id", "status", "licence", "contributor", "tvm_version")
_ORIGIN_COLUMNS = ["contributor", "licence", "tvm_version", "transplanted_from", "proposed_by"]
SAMPLE_ROWS = 100
"""Maximum number of rows per device."""


@dataclass(frozen=True)
class DataFacts:
    """Counts and terms of the measurements in a data folder."""

    rows: Mapping[str, int]
    """Device -> number of measurements, including failures."""
    ok: int
    """Number of measurements with a latency."""
    workloads: int
    licences: tuple[str, ...]
    """SPDX names; "" for rows without one."""
    contributors: tuple[str, ...]
    tvm_versions: tuple[str, ...]

    @property
    def total(self) -> int:
        """Measurements of all devices."""
        return sum(self.rows.values())


def data_facts(folder: str | Path) -> DataFacts:
    """Counts the rows of a data folder, with one batch in memory at a time.

    Raises:
        DataError: The folder is missing or cannot be read.

    Example:
        >>> from costhub.hub.catalogue.hubs import dataset_folders
        >>> data_facts(dataset_folders()["costhub/nvidia-h200"]).rows
        {'nvidia-h200': 2520}
    """
    return DataFolder.open(folder).read_batches(count_facts, columns=_FACT_COLUMNS)


def count_facts(batches: Iterable[pa.RecordBatch]) -> DataFacts:
    """Counts measurements in batches.

    Args:
        batches: Batches with device_id, workload_id, status, licence, contributor and tvm_version, at least.
    """
    counts: dict[str, Counter[str]] = {name: Counter() for name in _FACT_COLUMNS}
    for batch in batches:
        for name, counted in counts.items():
            for entry in batch.column(name).value_counts().to_pylist():
                counted[entry["values"] or ""] += entry["counts"]

    def names(column: str) -> tuple[str, ...]:
        return tuple(sorted(counts[column]))

    versions = tuple(version for version in names("tvm_version") if version)
    contributors = tuple(name for name in names("contributor") if name)
    return DataFacts(
        rows={name: counts["device_id"][name] for name in names("device_id")},
        ok=counts["status"]["ok"],
        workloads=len(counts["workload_id"]),
        licences=names("licence"),
        contributors=contributors,
        tvm_versions=versions,
    )


def write_dataset_documents(
    place: Path,
    text: str,
    *,
    name: str,
    address: str,
    changes: Sequence[Mapping[str, Any]],
    date: str,
    version: str | None = None,
    warned_rows: Mapping[str, int] | None = None,
    importers: Collection[str] = (),
) -> DatasetCard:
    """Writes the card of a data folder, a sample of its rows, a picture of its latencies and `croissant.json`.

    The same tables always give the same files.

    Args:
        place: The data folder, without journals.
        text: The README written by people, or that of a new data folder; a card says who only imported rows.
        name: Name of the data on the card.
        address: The address for `costhub.load_measurements`.
        changes: The versions so far; see `dataset_card.with_change`.
        date: Date of this version, ISO 8601.
        version: Tag of this version.
        warned_rows: Rule id of `costhub check` -> number of rows it warns about; none by default.
        importers: Contributors who only imported rows, beside those of whom `text` says so.

    Raises:
        DataError: A row has no licence, or the README has no block of YAML.
    """
    observed = read_observations(DataFolder.open(place))
    revision = tables_revision(place)
    facts = count_facts(observed.to_batches())
    card = DatasetCard(
        name=name,
        address=address,
        licences=list(facts.licences),
        devices=_devices(place, observed),
        rows=facts.total,
        ok=facts.ok,
        workloads=facts.workloads,
        operators=_operators(place),
        tvm_versions=list(facts.tvm_versions),
        contributors=list(facts.contributors),
        schema_version=SCHEMA_VERSION,
        revision=revision,
        splits=list_splits(place),
        sample_rows=write_sample(place),
        pictures=_pictures(place, observed),
        changes=with_change(changes, date=date, version=version, rows=facts.total, revision=revision),
        transplanted_from=_compilers(place),
        warned_rows=dict(warned_rows or {}),
        origins=_origins(place, address, {*importers, *recorded_importers(text)}),
    )
    (place / CARD).write_text(complete_dataset_card(text, card), encoding="utf-8")
    write_replacing(place / CROISSANT, croissant_text(place, croissant_facts(card)).encode())
    return card


def croissant_facts(card: DatasetCard) -> CroissantFacts:
    """Contents of `croissant.json` besides files and columns, taken from the dataset's card."""
    page = card.address.removeprefix(HF_PREFIX).partition("@")[0]
    return CroissantFacts(
        name=card.name,
        description=purpose(card),
        licences=card.licences,
        creators=measurers(card.contributors, card.origins, card.rows)
        or ["unknown" if card.origins else "the costhub contributors"],
        keywords=dataset_tags(card),
        url=f"https://huggingface.co/datasets/{page}" if card.address.startswith(HF_PREFIX) else "",
        citation=bibtex(card),
        date=card.date,
        versions=len(card.changes),
    )


def folder_credit(folder: str | Path, device_ids: Sequence[str] | None = None) -> str | None:
    """Names who measured the data of a folder, as `data_credit` does, but not those who only imported them.

    Args:
        folder: The data folder; its card says who only imported rows. A folder may have none.
        device_ids: The devices; all by default.

    Raises:
        DataError: The folder cannot be read, or has no such device.

    Example:
        >>> from costhub.hub.catalogue.hubs import dataset_folders
        >>> folder_credit(dataset_folders()["costhub/nvidia-h200"])
        'measurer not recorded (Apache-2.0)'
    """
    return data_credit(folder, device_ids, importers=recorded_importers(_card_text(Path(folder))))


def _card_text(folder: Path) -> str:
    """The README of a data folder; empty where it cannot be read as text, which keeps nobody from using the rows."""
    try:
        return read_card(folder / CARD)
    except DataError:
        return ""


def tables_revision(place: Path) -> str:
    """Names the content of the tables of a data folder: the start of a sha256 over the hashes of the shards.

    Example:
        >>> import tempfile
        >>> tables_revision(DataFolder.create(tempfile.mkdtemp()).path)
        'e3b0c44298fc'
    """
    return tables_hash(place)[:12]


def tables_hash(place: Path) -> str:
    """The full sha256 over all shards; `tables_revision` is its beginning.

    Example:
        >>> import tempfile
        >>> len(tables_hash(DataFolder.create(tempfile.mkdtemp()).path))
        64
    """
    paths = [path for table in TABLES for path in (place / table).rglob("*.parquet")]
    return shards_hash({path.relative_to(place).as_posix(): hash_file(path).sha256 for path in paths})


def shards_hash(hashes: Mapping[str, str]) -> str:
    """The sha256 over names and hashes of shards.

    Args:
        hashes: Path in the data folder -> hash of the shard.
    """
    ordered = sorted(hashes, key=lambda path: path.split("/"))
    return hashlib.sha256("".join(f"{path} {hashes[path]}\n" for path in ordered).encode()).hexdigest()


def write_sample(place: Path, *, each: int = SAMPLE_ROWS) -> int:
    """Writes some rows of every device as a shard in a separate folder, outside the tables.

    The rows are drawn by the hashes of their ids, so the same rows are drawn regardless of other rows in the folder.

    Args:
        place: The data folder.
        each: Maximum number of rows per device.

    Returns:
        The number of rows; a folder without rows gets no sample.
    """
    folder = DataFolder.open(place)
    parts = []
    for device_id in folder.device_ids():
        drawn = heapq.nsmallest(each, _record_ids(folder, device_id), key=_hash)
        parts.append(folder.select_measurements([device_id], where=pc.field("record_id").isin(drawn)))
    table = pa.concat_tables(parts) if parts else None
    if table is None or not table.num_rows:
        return 0
    (place / SAMPLE).mkdir(exist_ok=True)
    write_shard(table, place / SAMPLE / shard_name(0, 1))
    return int(table.num_rows)


def _record_ids(folder: DataFolder, device_id: str) -> list[str]:
    batches = folder.iter_measurements([device_id], columns=["record_id"])
    return [name for batch in batches for name in batch.column(0).to_pylist()]


def _hash(record_id: str) -> bytes:
    return hashlib.sha256(record_id.encode()).digest()


def _devices(place: Path, observed: pa.Table) -> list[dict[str, Any]]:
    rows = {row["device_id"]: row for row in DataFolder.open(place).devices().to_pylist()}
    ran = observed.append_column("ok", pc.cast(pc.equal(observed["status"], "ok"), pa.int64()))
    aggregations = [([], "count_all"), ("ok", "sum"), ("workload_id", "count_distinct")]
    counted = ran.group_by("device_id").aggregate(aggregations).to_pylist()
    facts = [key for key in (*DEVICE_FACTS, SOURCE) if key != "device_id"]
    devices = []
    for count in sorted(counted, key=lambda count: str(count["device_id"])):
        described = kept_facts(rows.get(count["device_id"], {}))
        devices.append(
            {
                "device_id": count["device_id"],
                "rows": count["count_all"],
                "ok": count["ok_sum"],
                "workloads": count["workload_id_count_distinct"],
                **{key: described[key] for key in facts if key in described},
            }
        )
    return devices


def _compilers(place: Path) -> list[str]:
    batches = DataFolder.open(place).iter_measurements(columns=["transplanted_from"])
    return sorted({name for batch in batches for name in pc.unique(batch.column(0)).to_pylist() if name})


def _origins(place: Path, address: str, importers: Collection[str]) -> list[dict[str, Any]]:
    """The imported rows of a data folder, in the form of `DatasetCard.origins`.

    Args:
        place: The data folder.
        address: Of the dataset; the catalogue of sources lists the origins of those shipped with costhub.
        importers: Contributors who did not measure the rows that they imported.
    """
    counts: Counter[tuple[str, ...]] = Counter()
    for batch in DataFolder.open(place).iter_measurements(columns=_ORIGIN_COLUMNS):
        groups = pa.Table.from_batches([batch]).group_by(_ORIGIN_COLUMNS).aggregate([([], "count_all")])
        for row in groups.to_pylist():
            counts[tuple(row[column] or "" for column in _ORIGIN_COLUMNS)] += row["count_all"]
    groups = [(dict(zip(_ORIGIN_COLUMNS, key, strict=True)), rows) for key, rows in sorted(counts.items())]
    imported = [(values, rows) for values, rows in groups if is_imported(values)]
    sources = [source for source in load_sources() if source.dataset == address] if imported else []
    found = []
    for values, rows in imported:
        del values["proposed_by"]
        only = {ONLY_IMPORTED: True} if values["contributor"] in importers else {}
        found.append({**values, "rows": rows, "places": _places(sources, values["contributor"]), **only})
    return found


def _places(sources: Iterable[PublicSource], contributor: str) -> list[dict[str, Any]]:
    """Public locations of the rows of a shipped dataset, one entry per repository revision."""
    places: dict[tuple[str, str], dict[str, Any]] = {}
    for source in sources:
        if source.contributor == contributor:
            at = (source.repository, source.revision)
            paper = {"paper": source.paper} if source.paper else {}
            empty = {"repository": at[0], "revision": at[1], "folders": [], "changed": "", **paper}
            entry = places.setdefault(at, empty)
            entry["folders"].append(source.folder)
            entry["changed"] = " ".join(filter(None, (entry["changed"], source.changed)))
    return list(places.values())


def _operators(place: Path) -> dict[str, int]:
    operators = DataFolder.open(place).workloads(["operator"])["operator"].to_pylist()
    return dict(sorted(Counter(operators).items()))


def _pictures(place: Path, observed: pa.Table) -> list[str]:
    from costhub.cards.reports.stats_plots import plot_latencies

    ran = observed.filter(pc.is_finite(observed["latency_us"])).group_by("operator")
    shown = {
        row["operator"]: np.array(row["latency_us_list"]) for row in ran.aggregate([("latency_us", "list")]).to_pylist()
    }
    if not shown:
        return []
    plot_latencies(place / LATENCIES_PICTURE, shown, title=PICTURES[LATENCIES_PICTURE])
    return [LATENCIES_PICTURE]
