"""Provides read_searches and with_searches: results of `costhub bench search` as lines of a hub's leaderboard."""

from __future__ import annotations

import json
import statistics
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from costhub.cards.site.facts import MODEL, Leaderboard, ReplayBoard, ReplayEntry, ReplayTrack
from costhub.cards.tables import one_line
from costhub.errors import ArgumentError, DataError
from costhub.files import read_regular, refuse_newer
from costhub.hub.benchmark import (
    MAX_BYTES,
    WORKLOAD_DIGITS,
    count_of,
    error_of,
    near_of,
    objects_of,
    refuse_many,
    score_of,
    text_of,
)
from costhub.search.replay.judge import ReplaySettings
from costhub.terminal_text import clean

RESULT = "replay"
"""What a result of `costhub bench search` says that it is."""
RESULT_VERSION = 1
"""Of its JSON; raised whenever the code can no longer read what it wrote before."""
_ROUNDING = 1e-6
_DEVICE_LENGTH = 60
_USUAL = ReplaySettings()


@dataclass(frozen=True)
class DeviceSearches:
    """The searches of a result on one device."""

    device_id: str
    workload_ids: frozenset[str]
    """First digits of the ids, as in a leaderboard."""
    programs: int
    trials: int
    entry: ReplayEntry


@dataclass(frozen=True)
class SearchResult:
    """A result of `costhub bench search`, as read from its file."""

    path: Path
    devices: tuple[DeviceSearches, ...]


def read_searches(path: str | Path) -> SearchResult:
    """Reads the file that `costhub bench search --out` wrote, or anything that somebody made of it.

    Raises:
        DataError: It is something else, damaged, or of a newer costhub; or it was played with another batch or with
            fewer searches than the searches of a leaderboard.
    """
    path = Path(path)
    content = read_regular(path, limit=MAX_BYTES, error=DataError)
    try:
        found = json.loads(content)
    except (ValueError, RecursionError) as error:
        raise DataError(f"{path} is not JSON. Write it again with `costhub bench search --out`.") from error
    if not isinstance(found, Mapping) or found.get("costhub") != RESULT:
        raise DataError(f"{path} is not a result of `costhub bench search`; write one with its option --out.")
    refuse_newer(found, newest=RESULT_VERSION, what=path, error=DataError)
    _refuse_settings(found, path)
    rows: dict[str, list[Mapping[str, Any]]] = {}
    for row in objects_of(found, "rows", path):
        rows.setdefault(text_of(row, "device", path), []).append(row)
    devices = objects_of(found, "devices", path)
    names = [text_of(device, "device", path) for device in devices]
    if not names or len(set(names)) < len(names) or set(names) != set(rows):
        raise DataError(f"{path} is damaged: its `devices` and its `rows` are not of the same devices.")
    pairs = zip(names, devices, strict=True)
    return SearchResult(path, tuple(_device(device, found, rows[name], path) for name, device in pairs))


def _refuse_settings(found: Mapping[str, Any], path: Path) -> None:
    """Refuses what cannot be compared with the searches of a leaderboard, whatever they searched."""
    batch, seeds = count_of(found, "batch", path), count_of(found, "seeds", path)
    if batch != _USUAL.batch:
        raise DataError(
            f"{path} was played with batches of {batch}, those of a leaderboard have {_USUAL.batch}. Play it again "
            "without --batch."
        )
    if seeds < _USUAL.seeds:
        raise DataError(
            f"{path} has {seeds} searches of each workload, a leaderboard shows means over {_USUAL.seeds} or more. "
            f"Play it again with --seeds {_USUAL.seeds}."
        )


def _device(
    device: Mapping[str, Any], found: Mapping[str, Any], own: Sequence[Mapping[str, Any]], path: Path
) -> DeviceSearches:
    """The searches on one device, whose score is the mean of those of its workloads, its `own` rows."""
    device_id, score = text_of(device, "device", path), score_of(device, path)
    if abs(statistics.fmean(score_of(row, path) for row in own) - score) > _ROUNDING:
        raise DataError(
            f"{path} is damaged: the score on {clean(device_id, _DEVICE_LENGTH)} is not the mean over its workloads."
        )
    ids = [text_of(row, "workload_id", path)[:WORKLOAD_DIGITS] for row in own]
    if len(set(ids)) < len(ids):
        raise DataError(f"{path} is damaged: it has a workload of {clean(device_id, _DEVICE_LENGTH)} twice.")
    entry = ReplayEntry(
        strategy=text_of(found, "strategy", path),
        model=text_of(found, "model", path),
        model_name="",
        method=text_of(found, "method", path),
        kind=MODEL,
        seeds=count_of(found, "seeds", path),
        score=score,
        error=error_of(device, "error", path),
        near=near_of(device, "near", path),
        source=one_line(path.name),
    )
    programs, trials = count_of(device, "programs", path), count_of(device, "trials", path)
    return DeviceSearches(device_id, frozenset(ids), programs, trials, entry)


def with_searches(board: Leaderboard | None, results: Sequence[SearchResult]) -> Leaderboard | None:
    """The leaderboard with the lines of further results, in the tracks of their devices.

    Args:
        board: That of a hub; None if it has none.
        results: What to add.

    Raises:
        ArgumentError: The hub has no replayed searches.
        DataError: A result has a device that the leaderboard lacks, or was played on other workloads, programs or
            trials than the searches there.
    """
    if not results:
        return board
    if board is None or board.replay is None:
        raise ArgumentError(f"The hub has no replayed searches to set those of {results[0].path} beside.")
    tracks = {track.device_id: track for track in board.replay.tracks}
    for result in results:
        for own in result.devices:
            if own.device_id not in tracks:
                raise DataError(
                    f"{result.path} has searches on {clean(own.device_id, _DEVICE_LENGTH)}; the leaderboard has those "
                    f"on {', '.join(clean(name, _DEVICE_LENGTH) for name in tracks)}."
                )
            track = tracks[own.device_id]
            _refuse_other_searches(own, track, result.path)
            tracks[own.device_id] = replace(track, entries=(*track.entries, own.entry))
    refuse_many(tuple(tracks.values()), results[-1].path)
    return replace(board, replay=ReplayBoard(tracks=tuple(tracks.values()), origin=board.replay.origin))


def _refuse_other_searches(own: DeviceSearches, track: ReplayTrack, path: Path) -> None:
    """Refuses searches that had other programs to find, or more or less time for it."""
    device = clean(own.device_id, _DEVICE_LENGTH)
    where = f"The searches on {device} in {path}"
    if not track.workload_ids:
        raise DataError(
            f"{where} cannot be compared: the leaderboard does not say which workloads its searches are of. Its hub "
            "must write it again, with this version of costhub."
        )
    if own.workload_ids != track.workload_ids:
        others = len(own.workload_ids - track.workload_ids)
        raise DataError(
            f"{where} are not of the leaderboard's {len(track.workload_ids)} workloads: of their "
            f"{len(own.workload_ids)}, {others} are others. Play them again without --data, --split and --workloads."
        )
    if own.programs != track.programs:
        raise DataError(
            f"{where} are among {own.programs:,} programs of each workload (median), those of the leaderboard among "
            f"{track.programs:,}. Play them again with the measurements of this hub."
        )
    if own.trials != track.trials:
        raise DataError(
            f"{where} have {own.trials:,} trials (median), those of the leaderboard {track.trials:,}. Play them again "
            "without --trials-per-workload."
        )
