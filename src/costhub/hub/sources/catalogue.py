"""Provides the catalogue of public measurements: their locations, devices and licences."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from fnmatch import fnmatchcase
from pathlib import Path
from typing import Any

from costhub.errors import DataError, UnknownNameError, last_line
from costhub.files import read_regular, refuse_newer
from costhub.names import close_names, is_plain_name

SOURCES_FILE = Path(__file__).with_name("sources.yaml")
"""The sources that costhub knows; their measurements are not part of it."""
SOURCES_VERSION = 1
FORMATS = ("metaschedule", "ansor")

_MOST_BYTES = 4 << 20
_MOST_SOURCES = 10_000
_MOST_DEPTH, _MOST_EVENTS = 16, 150_000
"""Of lists and maps in one another, and of what YAML tells apart: a source has some thirty of these parts."""
_NAME = re.compile(r"[a-z0-9][a-z0-9._-]{0,60}/[a-z0-9][a-z0-9._-]{0,60}")
_REVISION = re.compile(r"[0-9a-f]{40}|[0-9a-f]{64}")
_ADDRESS = re.compile(r"(https://[A-Za-z0-9.-]+(:\d+)?|file://)/[A-Za-z0-9._/+~-]+")
_PATH = re.compile(r"[A-Za-z0-9_+-][A-Za-z0-9._+-]*(/[A-Za-z0-9_+-][A-Za-z0-9._+-]*)*")


@dataclass(frozen=True, kw_only=True)
class PublicSource:
    """Published measurements of one device."""

    name: str
    """Name, such as ``bennu/a64fx-resnet18``."""
    format: str
    """One of `FORMATS`."""
    repository: str
    """Address of a git repository."""
    revision: str
    """The full id of a commit."""
    folder: str
    """Path of the measurements in it."""
    device: str
    licence: str
    """SPDX name."""
    contributor: str
    rows: int | None = None
    """Number of measurements, including failed ones; None if not counted."""
    rows_from: str = ""
    """How `rows` was determined."""
    target: str = ""
    """TVM's target for the device, by name or as JSON, if the measurements do not specify it."""
    tvm: str = ""
    """The TVM version used for measuring."""
    note: str = ""
    dataset: str = ""
    """The dataset of the package made from it, such as ``costhub/nvidia-v100``."""
    changed: str = ""
    """What was changed before the import, as sentences."""
    paper: str = ""
    """The paper that it was measured for, with year and venue; empty if there is none."""


def load_sources(path: str | Path = SOURCES_FILE) -> tuple[PublicSource, ...]:
    """Reads the sources in a catalogue, sorted by name.

    Args:
        path: A YAML file; by default the one shipped with costhub.

    Raises:
        DataError: The file is not such a catalogue.

    Example:
        >>> {source.licence for source in load_sources()} >= {"MIT", "Apache-2.0"}
        True
    """
    import yaml

    try:
        text = read_regular(path, limit=_MOST_BYTES, error=DataError).decode("utf-8")
        _check_events(yaml.parse(text, yaml.SafeLoader), path)
        content = yaml.safe_load(text)
    except (yaml.YAMLError, UnicodeDecodeError, RecursionError) as error:
        raise DataError(f"{path} cannot be read as YAML ({last_line(error)}).") from error
    if not isinstance(content, dict) or not isinstance(content.get("repositories"), list):
        raise DataError(f"{path} is not a catalogue of sources: it needs a list of repositories.")
    refuse_newer(content, newest=SOURCES_VERSION, what=path, error=DataError)
    sources: dict[str, PublicSource] = {}
    for source in _sources(content["repositories"], path):
        if source.name in sources:
            raise DataError(f"{path} names {source.name} twice.")
        sources[source.name] = source
        if len(sources) > _MOST_SOURCES:
            raise DataError(f"{path} names more than {_MOST_SOURCES:,} sources.")
    return tuple(sources[name] for name in sorted(sources))


def _check_events(events: Iterable[Any], path: str | Path) -> None:
    """Refuses YAML that takes long or much memory to read: a few bytes may stand for gigabytes.

    Raises:
        DataError: It has aliases, is nested deep, or has far more parts than any catalogue.
    """
    import yaml

    depth = 0
    for number, event in enumerate(events):
        depth += isinstance(event, yaml.CollectionStartEvent) - isinstance(event, yaml.CollectionEndEvent)
        if isinstance(event, yaml.AliasEvent):
            raise DataError(f"{path} uses aliases, which a catalogue does not need.")
        if depth > _MOST_DEPTH or number > _MOST_EVENTS:
            raise DataError(
                f"{path} cannot be read as YAML: a catalogue has at most {_MOST_DEPTH} lists and maps in one another, "
                f"and {_MOST_EVENTS:,} parts."
            )


def find_sources(name: str, sources: Sequence[PublicSource]) -> list[PublicSource]:
    """Finds the sources that match a name or a pattern such as ``bennu/a64fx-*``.

    Raises:
        UnknownNameError: It matches none.
    """
    found = [source for source in sources if fnmatchcase(source.name, name)]
    if not found:
        names = [source.name for source in sources]
        raise UnknownNameError("source", name, close_names(name, names), "`costhub import sources`")
    return found


def _sources(repositories: Sequence[Any], path: str | Path) -> Iterator[PublicSource]:
    for repository in repositories:
        shared = {name: value for name, value in repository.items() if name != "sources"} if _is_map(repository) else {}
        listed = repository.get("sources") if _is_map(repository) else None
        if not isinstance(listed, list):
            raise DataError(f"{path} has a repository without a list of sources.")
        for entry in listed:
            if not _is_map(entry):
                raise DataError(f"{path} has a source that is not a map: {entry!r:.80}.")
            yield _checked({**shared, **entry}, path)


def _is_map(value: Any) -> bool:
    return isinstance(value, Mapping) and all(isinstance(name, str) for name in value)


def _checked(entry: Mapping[str, Any], path: str | Path) -> PublicSource:
    try:
        source = PublicSource(**entry)
    except TypeError as error:
        raise DataError(f"{path}: {entry.get('name', entry)!r:.80} cannot be read ({last_line(error)}).") from error
    wrong = [name for name, is_right in _rules(source) if not is_right]
    if wrong:
        value = getattr(source, wrong[0])
        raise DataError(f"{path}: {wrong[0]} of {source.name!r:.80} is {value!r:.120}, which is not accepted.")
    return source


def _rules(source: PublicSource) -> Iterator[tuple[str, bool]]:
    """Yields each field, and whether its value is usable."""
    texts = ("name", "format", "repository", "revision", "folder", "device", "licence", "contributor")
    for name in (*texts, "rows_from", "target", "tvm", "note", "dataset", "changed", "paper"):
        value = getattr(source, name)
        is_text = isinstance(value, str) and len(value) < 1000 and value.isprintable()
        yield name, is_text and bool(value or name not in texts)
        if not is_text:
            return
    yield "name", bool(_NAME.fullmatch(source.name))
    yield "format", source.format in FORMATS
    yield "repository", bool(_ADDRESS.fullmatch(source.repository)) and ".." not in source.repository
    yield "revision", bool(_REVISION.fullmatch(source.revision))
    yield "folder", bool(_PATH.fullmatch(source.folder))
    yield "device", is_plain_name(source.device)
    yield "rows", source.rows is None or (type(source.rows) is int and source.rows > 0)
