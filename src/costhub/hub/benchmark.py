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
)
from costhub.cards.tables import one_line
from costhub.errors import DataError
from costhub.files import as_number, read_regular, refuse_newer

BENCHMARK = "benchmark.json"
"""File name in a hub."""
BENCHMARK_VERSION = 1
"""Incremented with every change that makes older files unreadable."""
MAX_BYTES = 1 << 20
MAX_ROWS = 500
"""Row limit for all tracks together, and for all replayed searches."""
MAX_COUNT = 1_000_000
"""Of workloads, programs, trials and seeds."""
LEAST_SCORE = -1e6
"""Of replayed searches: far below any that was ever measured, so that sums of scores stay finite."""
WORKLOAD_DIGITS = 12
"""Of the id of a workload in a track of replayed searches."""
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
    tracks = tuple(_track(track, path) for track in objects_of(found, "tracks", path))
    refuse_many(tracks, path)
    return Leaderboard(tracks=tracks, origin=_origin(found), replay=_replay(found, path)), content


def refuse_many(tracks: Sequence[Track | ReplayTrack], path: Path) -> None:
    """Refuses tracks with more rows than a page can show.

    Raises:
        DataError: There are more than MAX_ROWS.
    """
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
        raise DataError(f"{path} cannot be read: expected an object as `replay`, got {type(part).__name__}.")
    tracks = tuple(_replay_track(track, path) for track in objects_of(part, "tracks", path))
    refuse_many(tracks, path)
    return ReplayBoard(tracks=tracks, origin=_origin(part))


def _replay_track(track: Mapping[str, Any], path: Path) -> ReplayTrack:
    return ReplayTrack(
        device_id=text_of(track, "device", path),
        workloads=count_of(track, "workloads", path),
        programs=count_of(track, "programs", path),
        trials=count_of(track, "trials", path),
        workload_ids=_workload_ids(track, path),
        entries=tuple(_replay_entry(row, path) for row in objects_of(track, "rows", path)),
    )


def _workload_ids(track: Mapping[str, Any], path: Path) -> frozenset[str]:
    """The ids of the workloads; files of earlier versions have none."""
    ids = track.get("workload_ids", [])
    if not isinstance(ids, list) or not all(isinstance(each, str) for each in ids):
        raise DataError(f"{path} cannot be read: expected a list of strings as `workload_ids`.")
    return frozenset(ids)


def _replay_entry(row: Mapping[str, Any], path: Path) -> ReplayEntry:
    return ReplayEntry(
        strategy=text_of(row, "strategy", path),
        model=text_of(row, "model", path),
        model_name=text_of(row, "model_name", path),
        method=text_of(row, "method", path),
        kind=_kind(row, (MODEL, BASELINE), path),
        seeds=count_of(row, "seeds", path),
        score=score_of(row, path),
        error=error_of(row, "score_se", path),
        near=near_of(row, "trials_to_95", path),
    )


def score_of(row: Mapping[str, Any], path: Path) -> float:
    """The score of replayed searches: a number of at most 1.

    Raises:
        DataError: It is missing or something else.
    """
    score = as_number(row.get("score"))
    if score is None or not LEAST_SCORE <= score <= 1.0:
        raise DataError(
            f"{path} has the score {row.get('score')!r:.40}, expected a number of at most 1 and at least "
            f"{LEAST_SCORE:,.0f}."
        )
    return score


def error_of(row: Mapping[str, Any], key: str, path: Path) -> float | None:
    """The standard error of a score; None if the file has none.

    Raises:
        DataError: It is negative, or larger than any score.
    """
    error = as_number(row.get(key))
    if error is not None and not 0.0 <= error <= -LEAST_SCORE:
        raise DataError(f"{path} has the standard error {error:.3g}, expected a number that is not negative.")
    return error


def near_of(row: Mapping[str, Any], key: str, path: Path) -> float:
    """The trials of replayed searches to within 5 % of the optimum.

    Raises:
        DataError: They are missing or something else.
    """
    near = as_number(row.get(key))
    if near is None or not 0.0 <= near <= MAX_COUNT:
        raise DataError(f"{path} has {row.get(key)!r:.40} as `{key}`, expected a number of trials.")
    return near


def _track(track: Mapping[str, Any], path: Path) -> Track:
    return Track(
        title=text_of(track, "title", path),
        device_id=text_of(track, "device", path),
        split=text_of(track, "split", path),
        asks=text_of(track, "asks", path),
        workloads=count_of(track, "workloads", path),
        entries=tuple(_entry(row, path) for row in objects_of(track, "rows", path)),
    )


def _entry(row: Mapping[str, Any], path: Path) -> Entry:
    return Entry(
        name=text_of(row, "name", path),
        features=text_of(row, "features", path),
        kind=_kind(row, KINDS, path),
        seeds=count_of(row, "seeds", path),
        figures=_shares(row, METRICS, path),
        errors={name.removesuffix("_se"): v for name, v in _shares(row, [f"{m}_se" for m in METRICS], path).items()},
    )


def _kind(row: Mapping[str, Any], kinds: Sequence[str], path: Path) -> str:
    kind = text_of(row, "kind", path)
    if kind not in kinds:
        raise DataError(f"{path} has a row of the kind {kind!r}, expected one of {', '.join(kinds)}.")
    return kind


def objects_of(mapping: Mapping[str, Any], key: str, path: Path) -> Sequence[Mapping[str, Any]]:
    """A list of objects in an untrusted file.

    Raises:
        DataError: It is missing or something else.
    """
    found = mapping.get(key)
    if not isinstance(found, list) or not all(isinstance(each, Mapping) for each in found):
        raise DataError(f"{path} cannot be read: expected a list of objects as `{key}`.")
    return found


def text_of(mapping: Mapping[str, Any], key: str, path: Path) -> str:
    """A text in an untrusted file, without what a terminal or a reader would obey.

    Raises:
        DataError: It is missing or something else.
    """
    found = mapping.get(key)
    if not isinstance(found, str):
        raise DataError(f"{path} cannot be read: expected a string as `{key}`, got {type(found).__name__}.")
    return one_line(found)  # a page shows it, and anybody may have written it


def count_of(mapping: Mapping[str, Any], key: str, path: Path) -> int:
    """A count in an untrusted file.

    Raises:
        DataError: It is missing or something else.
    """
    found = mapping.get(key)
    if type(found) is not int or not 0 <= found <= MAX_COUNT:
        raise DataError(f"{path} cannot be read: expected a count as `{key}`.")
    return found


def _shares(mapping: Mapping[str, Any], keys: Sequence[str], path: Path) -> dict[str, float]:
    shares = {key: value for key in keys if (value := as_number(mapping.get(key))) is not None}
    for key, value in shares.items():
        if not 0.0 <= value <= 1.0:
            raise DataError(f"{path} has {key} {value:.3g}, expected 0 to 1.")
    return shares
