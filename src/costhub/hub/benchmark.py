"""Reads the leaderboard of a hub: `benchmark.json` beside its device index."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from costhub.cards.site.facts import KINDS, METRICS, Entry, Leaderboard, Track, as_number
from costhub.errors import DataError
from costhub.files import read_regular, refuse_newer

BENCHMARK = "benchmark.json"
"""File name in a hub."""
BENCHMARK_VERSION = 1
"""Incremented with every change that makes older files unreadable."""
MAX_BYTES = 1 << 20
MAX_ROWS = 500
"""Row limit for all tracks together."""
_ORIGIN = ("results", "command", "machine", "date", "versions")


def read_benchmark(path: str | Path) -> tuple[Leaderboard, bytes] | None:
    """Reads a leaderboard.

    Args:
        path: The file.

    Returns:
        The leaderboard, and the file's bytes; None if there is no such file.

    Raises:
        DataError: It is not a leaderboard, or a newer costhub wrote it.

    Example:
        >>> from costhub.hub.catalogue.hubs import EMBEDDED
        >>> board, _ = read_benchmark(EMBEDDED / BENCHMARK)
        >>> [track.title for track in board.tracks][:4]
        ['CPU', 'Networks', 'Second CPU', 'GPU']
    """
    path = Path(path)
    if not path.exists() and not path.is_symlink():
        return None
    content = read_regular(path, limit=MAX_BYTES, error=DataError)
    try:
        found = json.loads(content)
    except (ValueError, RecursionError) as error:
        raise DataError(f"{path} is not JSON. Write it again with `python -m scripts.release benchmark`.") from error
    if not isinstance(found, Mapping):
        raise DataError(f"{path} is not a leaderboard: expected an object with `tracks`.")
    refuse_newer(found, newest=BENCHMARK_VERSION, what=path, error=DataError)
    tracks = tuple(_track(track, path) for track in _list(found, "tracks", path))
    if sum(len(track.entries) for track in tracks) > MAX_ROWS:
        raise DataError(f"{path} has more than {MAX_ROWS} rows.")
    origin = found.get("origin")
    facts = origin if isinstance(origin, Mapping) else {}
    kept = {key: facts[key] for key in _ORIGIN if isinstance(facts.get(key), str)}
    return Leaderboard(tracks=tracks, origin=kept), content


def _track(track: Mapping[str, Any], path: Path) -> Track:
    return Track(
        title=_text(track, "title", path),
        device_id=_text(track, "device", path),
        split=_text(track, "split", path),
        asks=_text(track, "asks", path),
        workloads=_count(track, "workloads", path),
        entries=tuple(_entry(row, path) for row in _list(track, "rows", path)),
    )


def _entry(row: Mapping[str, Any], path: Path) -> Entry:
    kind = _text(row, "kind", path)
    if kind not in KINDS:
        raise DataError(f"{path} has a row of the kind {kind!r}, expected one of {', '.join(KINDS)}.")
    return Entry(
        name=_text(row, "name", path),
        features=_text(row, "features", path),
        kind=kind,
        seeds=_count(row, "seeds", path),
        figures=_shares(row, METRICS, path),
        errors={name.removesuffix("_se"): v for name, v in _shares(row, [f"{m}_se" for m in METRICS], path).items()},
    )


def _list(mapping: Mapping[str, Any], key: str, path: Path) -> Sequence[Mapping[str, Any]]:
    found = mapping.get(key)
    if not isinstance(found, list) or not all(isinstance(each, Mapping) for each in found):
        raise DataError(f"{path} is not a leaderboard: expected a list of objects as `{key}`.")
    return found


def _text(mapping: Mapping[str, Any], key: str, path: Path) -> str:
    found = mapping.get(key)
    if not isinstance(found, str):
        raise DataError(f"{path} is not a leaderboard: expected a string as `{key}`, got {type(found).__name__}.")
    return found


def _count(mapping: Mapping[str, Any], key: str, path: Path) -> int:
    found = mapping.get(key)
    if not isinstance(found, int) or not 0 <= found <= 1_000_000:
        raise DataError(f"{path} is not a leaderboard: expected a count as `{key}`.")
    return found


def _shares(mapping: Mapping[str, Any], keys: Sequence[str], path: Path) -> dict[str, float]:
    shares = {key: value for key in keys if (value := as_number(mapping.get(key))) is not None}
    for key, value in shares.items():
        if not 0.0 <= value <= 1.0:
            raise DataError(f"{path} has {key} {value:.3g}, expected 0 to 1.")
    return shares
