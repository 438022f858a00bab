"""Provides croissant_document: the contents of a data folder as JSON-LD in the Croissant 1.0 format.

Croissant (http://mlcommons.org/croissant/1.0) is the vocabulary read by dataset catalogues: the files with their
sha256, and every column with its type and meaning. The columns come from the schema module, like those of the card.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pyarrow as pa

from costhub.dataset.schema import DOC_KEY, SCHEMA_VERSION, TABLES, stored_schema
from costhub.dataset.shards.shard import MOST_SHARD_BYTES
from costhub.dataset.shards.shard_set import shard_paths
from costhub.dataset.splits.split import SPLITS_FOLDER, list_splits, load_split
from costhub.errors import DataError
from costhub.files import hash_regular, read_regular
from costhub.terminal_text import counted

CROISSANT = "croissant.json"
MAX_CROISSANT_BYTES = 4 << 20
"""Some 30 kB, and 300 bytes more for each file."""
_CONFORMS_TO = "http://mlcommons.org/croissant/1.0"
_CONTEXT: dict[str, Any] = {
    "@language": "en",
    "@vocab": "https://schema.org/",
    "cr": "http://mlcommons.org/croissant/",
    "rai": "http://mlcommons.org/croissant/RAI/",
    "dct": "http://purl.org/dc/terms/",
    "sc": "https://schema.org/",
    "data": {"@id": "cr:data", "@type": "@json"},
    "dataType": {"@id": "cr:dataType", "@type": "@vocab"},
    "examples": {"@id": "cr:examples", "@type": "@json"},
    "conformsTo": "dct:conformsTo",
    **{
        term: f"cr:{term}"
        for term in (
            *("citeAs", "column", "equivalentProperty", "extract", "field", "fileProperty", "fileObject", "fileSet"),
            *("format", "includes", "isLiveDataset", "jsonPath", "key", "md5", "parentField", "path", "recordSet"),
            *("references", "regex", "repeated", "replace", "samplingRate", "separator", "source", "subField"),
            "transform",
        )
    },
}
"""The context of Croissant 1.0: readers of JSON-LD warn about any other."""


@dataclass(frozen=True, kw_only=True)
class CroissantFacts:
    """Contents of the document besides its files and columns; the card of the dataset has the same."""

    name: str
    description: str
    licences: Sequence[str]
    """SPDX names."""
    creators: Sequence[str]
    keywords: Sequence[str]
    url: str = ""
    """The page of the dataset; empty without one."""
    citation: str = ""
    """In BibTeX."""
    date: str = ""
    """Date of the version, ISO 8601."""
    versions: int = 0
    """Number of published versions, including this one."""


def croissant_document(folder: Path, facts: CroissantFacts) -> dict[str, Any]:
    """The Croissant document of a data folder without journals; the same tables and facts give the same document.

    Args:
        folder: The data folder; every shard and split is hashed.
        facts: Further contents of the document.

    Raises:
        DataError: A split cannot be read.
    """
    optional = {"url": facts.url, "datePublished": facts.date, "citeAs": facts.citation}
    return {
        "@context": _CONTEXT,
        "@type": "sc:Dataset",
        "conformsTo": _CONFORMS_TO,
        "name": facts.name,
        "description": facts.description,
        **{key: value for key, value in optional.items() if value},
        "version": f"{SCHEMA_VERSION}.{facts.versions}.0",
        "license": [f"https://spdx.org/licenses/{name}" for name in facts.licences],
        "creator": [{"@type": "sc:Organization", "name": name} for name in facts.creators],
        "keywords": list(facts.keywords),
        "distribution": [*_files(folder), *_file_sets(folder)],
        "recordSet": [*(_records(table, folder) for table in TABLES if _shards(folder, table)), *_splits(folder)],
    }


def croissant_text(folder: Path, facts: CroissantFacts) -> str:
    """The content of `croissant.json`; see `croissant_document`."""
    return json.dumps(croissant_document(folder, facts), indent=1, ensure_ascii=False) + "\n"


def croissant_differences(folder: Path) -> list[str]:
    """How the files that a Croissant document lists differ from those of its folder, as sentences.

    Args:
        folder: A data folder; one without a document differs in nothing.

    Example:
        >>> import tempfile
        >>> croissant_differences(Path(tempfile.mkdtemp()))
        []
    """
    path = folder / CROISSANT
    if not path.is_file():
        return []
    try:
        content = json.loads(read_regular(path, limit=MAX_CROISSANT_BYTES, error=DataError))
        listed = {
            each["contentUrl"]: each["sha256"] for each in content["distribution"] if each["@type"] == "cr:FileObject"
        }
        if not all(isinstance(text, str) for pair in listed.items() for text in pair):
            raise TypeError("names and hashes must be strings")
    except (DataError, ValueError, LookupError, TypeError, AttributeError, RecursionError):
        return ["It is not a Croissant document that costhub wrote."]
    present = dict(_described(folder))
    changed = [name for name, file in present.items() if name in listed and listed[name] != _hash_of(file)]
    found = (
        (sorted(set(present) - set(listed)), "it does not list"),
        (sorted(set(listed) - set(present)), "it lists, but the folder lacks"),
        (sorted(changed), "it lists with another sha256"),
    )
    return [f"{counted(len(names), 'file')} {what}, such as {names[0]}." for names, what in found if names]


def _hash_of(file: Path) -> str | None:
    """The SHA-256 of a file; None for what no document lists: a pipe, a device, a dead link, or more than any shard."""
    try:
        return hash_regular(file, limit=MOST_SHARD_BYTES, error=DataError)[0]
    except (DataError, OSError):
        return None


def _shards(folder: Path, table: str) -> list[Path]:
    places = sorted((folder / table).glob("*")) if table == "measurements" else [folder / table]
    return [path for place in places for path in shard_paths(place)]


def _described(folder: Path) -> Iterator[tuple[str, Path]]:
    """Path in the folder -> file, for everything that the document lists."""
    files = [path for table in TABLES for path in _shards(folder, table)]
    for path in (*files, *sorted((folder / SPLITS_FOLDER).glob("*.json"))):
        yield path.relative_to(folder).as_posix(), path


def _files(folder: Path) -> Iterator[dict[str, Any]]:
    for name, path in _described(folder):
        sha256, size = hash_regular(path, error=DataError)
        yield {
            "@type": "cr:FileObject",
            "@id": name,
            "name": name,
            "contentUrl": name,
            "contentSize": f"{size} B",
            "encodingFormat": "application/x-parquet" if path.suffix == ".parquet" else "application/json",
            "sha256": sha256,
        }


def _file_sets(folder: Path) -> Iterator[dict[str, Any]]:
    """The shards of each table as one file set, beside the document, as the missing `containedIn` indicates."""
    for table in TABLES:
        if _shards(folder, table):
            yield {
                "@type": "cr:FileSet",
                "@id": f"{table}-shards",
                "name": f"{table}-shards",
                "description": f"All shards of the table {table}.",
                "encodingFormat": "application/x-parquet",
                "includes": f"{table}/*/train-*.parquet" if table == "measurements" else f"{table}/train-*.parquet",
            }


def _records(table: str, folder: Path) -> dict[str, Any]:
    """The columns that all shards of a table have, with the descriptions of the schema module."""
    import pyarrow.parquet as pq

    names = [set(pq.read_schema(path).names) for path in _shards(folder, table)]
    columns = [column for column in stored_schema(table) if all(column.name in each for each in names)]
    return {
        "@type": "cr:RecordSet",
        "@id": table,
        "name": table,
        "description": f"The table {table}, a record for each row.",
        "field": [_field(table, column) for column in columns],
    }


def _field(table: str, column: pa.Field) -> dict[str, Any]:
    doc = (column.metadata or {}).get(DOC_KEY, b"").decode()
    name = f"{table}/{column.name}"
    field = {"@type": "cr:Field", "@id": name, "name": name, "description": doc or column.name}
    kind, is_list = column.type, pa.types.is_list(column.type)
    if is_list:
        kind, field = kind.value_type, {**field, "repeated": True}
    if not pa.types.is_struct(kind):
        return {**field, "dataType": _data_type(kind), "source": _source(table, column.name)}
    parts = [
        {
            "@type": "cr:Field",
            "@id": f"{name}/{part.name}",
            "name": f"{name}/{part.name}",
            "description": f"The {part.name} of each.",
            "dataType": _data_type(part.type),
            "source": {**_source(table, column.name), "transform": {"jsonPath": part.name}},
        }
        for part in kind
    ]
    return {**field, "subField": parts}


def _source(table: str, column: str) -> dict[str, Any]:
    return {"fileSet": {"@id": f"{table}-shards"}, "extract": {"column": column}}


def _data_type(kind: pa.DataType) -> str:
    """Croissant's name for an Arrow type."""
    kinds = (
        (pa.types.is_boolean, "sc:Boolean"),
        (pa.types.is_integer, "sc:Integer"),
        (pa.types.is_floating, "sc:Float"),
        (pa.types.is_timestamp, "sc:DateTime"),
    )
    return next((name for fits, name in kinds if fits(kind)), "sc:Text")


def _splits(folder: Path) -> Iterator[dict[str, Any]]:
    """The frozen splits by name: each is a file with the ids of the workloads to train and to test on."""
    rows = [
        {
            "splits/name": name,
            "splits/file": f"{SPLITS_FOLDER}/{name}.json",
            "splits/train": len(split.train),
            "splits/test": len(split.test),
        }
        for name in list_splits(folder)
        for split in (load_split(folder, name),)
    ]
    if not rows:
        return
    fields = {
        "name": ("sc:Text", "Name of the split."),
        "file": ("sc:Text", "The file that lists the ids of its workloads."),
        "train": ("sc:Integer", "Workloads to train on."),
        "test": ("sc:Integer", "Workloads to test on."),
    }
    yield {
        "@type": "cr:RecordSet",
        "@id": "splits",
        "name": "splits",
        "description": "Splits by workload, never by row: programs of one workload resemble one another.",
        "key": {"@id": "splits/name"},
        "field": [
            {"@type": "cr:Field", "@id": f"splits/{key}", "name": f"splits/{key}", "description": doc, "dataType": kind}
            for key, (kind, doc) in fields.items()
        ],
        "data": rows,
    }
