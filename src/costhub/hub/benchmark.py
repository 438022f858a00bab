"""Reads the leaderboard of a hub: `benchmark.json` beside its device index."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from costhub.cards.site.facts import (
    BASELINE,
    KINDS,
    METRICS,
    MODEL,
    Entry,
    Leaderboard,
    ReplayBoard,
    ReplayEntry,
    ReplayTrack,
    Track,
    as_number,
)
from costhub.cards.tables import one_line
from costhub.errors import DataError
from costhub.files import read_regular, refuse_newer

BENCHMARK = "benchmark.json"
"""File name in a hub."""
BENCHMARK_VERSION = 1
"""Incremented with every change that makes older files unreadable."""
MAX_BYTES = 1 << 20
MAX_ROWS = 500
"""Row limit for all tracks together, and for all replayed searches."""
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
    _refuse_many(tracks, path)
    return Leaderboard(tracks=tracks, origin=_origin(found), replay=_replay(found, path)), content


def _refuse_many(tracks: Sequence[Track | ReplayTrack], path: Path) -> None:
    if sum(len(track.entries) for track in tracks) > MAX_ROWS:
        raise DataError(f"{path} has more than {MAX_ROWS} rows.")


def _origin(part: Mapping[str, Any]) -> dict[str, str]:
    origin = part.get("origin")
    facts = origin if isinstance(origin, Mapping) else {}
    return {key: one_line(facts[key]) for key in _ORIGIN if isinstance(facts.get(key), str)}


def _replay(found: Mapping[str, Any], path: Path) -> ReplayBoard | None:
    """The replayed searches; files of earlier versions have none."""
    part = found.get("replay")
    if part is None:
        return None
    if not isinstance(part, Mapping):
        raise DataError(f"{path} is not a leaderboard: expected an object as `replay`, got {type(part).__name__}.")
    tracks = tuple(_replay_track(track, path) for track in _list(part, "tracks", path))
    _refuse_many(tracks, path)
    return ReplayBoard(tracks=tracks, origin=_origin(part))


def _replay_track(track: Mapping[str, Any], path: Path) -> ReplayTrack:
    return ReplayTrack(
        device_id=_text(track, "device", path),
        workloads=_count(track, "workloads", path),
        programs=_count(track, "programs", path),
        trials=_count(track, "trials", path),
        entries=tuple(_replay_entry(row, path) for row in _list(track, "rows", path)),
    )


def _replay_entry(row: Mapping[str, Any], path: Path) -> ReplayEntry:
    score, near = as_number(row.get("score")), as_number(row.get("trials_to_95"))
    if score is None or score > 1.0:
        raise DataError(f"{path} has the score {row.get('score')!r:.40}, expected a number of at most 1.")
    if near is None or near < 0.0:
        raise DataError(f"{path} has {row.get('trials_to_95')!r:.40} as `trials_to_95`, expected a number of trials.")
    return ReplayEntry(
        strategy=_text(row, "strategy", path),
        model=_text(row, "model", path),
        model_name=_text(row, "model_name", path),
        method=_text(row, "method", path),
        kind=_kind(row, (MODEL, BASELINE), path),
        seeds=_count(row, "seeds", path),
        score=score,
        error=as_number(row.get("score_se")),
        near=near,
    )


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
    return Entry(
        name=_text(row, "name", path),
        features=_text(row, "features", path),
        kind=_kind(row, KINDS, path),
        seeds=_count(row, "seeds", path),
        figures=_shares(row, METRICS, path),
        errors={name.removesuffix("_se"): v for name, v in _shares(row, [f"{m}_se" for m in METRICS], path).items()},
    )


def _kind(row: Mapping[str, Any], kinds: Sequence[str], path: Path) -> str:
    kind = _text(row, "kind", path)
    if kind not in kinds:
        raise DataError(f"{path} has a row of the kind {kind!r}, expected one of {', '.join(kinds)}.")
    return kind


def _list(mapping: Mapping[str, Any], key: str, path: Path) -> Sequence[Mapping[str, Any]]:
    found = mapping.get(key)
    if not isinstance(found, list) or not all(isinstance(each, Mapping) for each in found):
        raise DataError(f"{path} is not a leaderboard: expected a list of objects as `{key}`.")
    return found


def _text(mapping: Mapping[str, Any], key: str, path: Path) -> str:
    found = mapping.get(key)
    if not isinstance(found, str):
        raise DataError(f"{path} is not a leaderboard: expected a string as `{key}`, got {type(found).__name__}.")
    return one_line(found)  # a page shows it, and anybody may have written it


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
