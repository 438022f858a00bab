"""Results of `costhub bench search` beside the searches of a leaderboard: what is added, and what is refused."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

import pytest

from costhub.api.replay.bench import BenchOptions, bench_search
from costhub.cards.site.facts import Leaderboard, ReplayBoard, ReplayEntry, ReplayTrack
from costhub.cards.site.site_page import site_page
from costhub.errors import ArgumentError, CosthubError, DataError
from costhub.hub.benchmark import BENCHMARK, MAX_BYTES, MAX_ROWS, read_benchmark
from costhub.hub.catalogue.hubs import EMBEDDED, HubRoot
from costhub.hub.searches import read_searches, with_searches
from costhub.hub.site import site_contents
from costhub.search.replay.judge import ReplaySettings

DEVICE = {"device": "acme", "workloads": 2, "programs": 160, "trials": 39, "score": 0.25, "error": 0.1, "near": 20.5}
ROWS = [
    {"device": "acme", "workload_id": "0123456789abcdef", "score": 0.5},
    {"device": "acme", "workload_id": "fedcba9876543210", "score": 0.0},
]
FOUND = {
    "costhub": "replay",
    "version": 1,
    "strategy": "Mine",
    "model": "ridge",
    "method": "frozen",
    "batch": 16,
    "seeds": 5,
    "score": 0.25,
    "devices": [DEVICE],
    "rows": ROWS,
}
BASELINE = ReplayEntry(
    strategy="random", model="", model_name="", method="", kind="baseline", seeds=5, score=0.0, error=None, near=40.0
)
TRACK = ReplayTrack(
    device_id="acme",
    workloads=2,
    programs=160,
    trials=39,
    entries=(BASELINE,),
    workload_ids=frozenset({"0123456789ab", "fedcba987654"}),
)


def board(*tracks: ReplayTrack) -> Leaderboard:
    return Leaderboard(tracks=(), origin={}, replay=ReplayBoard(tracks=tracks or (TRACK,), origin={"date": "2026"}))


def written(tmp_path: Path, **more: Any) -> Path:
    path = tmp_path / "mine.json"
    path.write_text(json.dumps({**FOUND, **more}))
    return path


def test_a_result_becomes_a_line_of_its_devices_track(tmp_path: Path) -> None:
    found = with_searches(board(TRACK), [read_searches(written(tmp_path))])

    assert found is not None
    assert found.replay is not None
    (track,) = found.replay.tracks
    baseline, mine = track.entries
    assert baseline == BASELINE
    assert (mine.strategy, mine.model, mine.method, mine.kind, mine.seeds) == ("Mine", "ridge", "frozen", "model", 5)
    assert (mine.score, mine.error, mine.near, mine.source) == (0.25, 0.1, 20.5, "mine.json")
    assert found.replay.origin == {"date": "2026"}


def test_several_results_and_the_devices_of_one_go_each_to_its_track(tmp_path: Path) -> None:
    other = {**DEVICE, "device": "blit", "score": -0.5}
    both = written(tmp_path, devices=[DEVICE, other], rows=[*ROWS, {**ROWS[0], "device": "blit", "score": -0.5}])
    one = read_searches(both)
    ids = frozenset({"0123456789ab"})
    blit = ReplayTrack(device_id="blit", workloads=1, programs=160, trials=39, entries=(), workload_ids=ids)

    found = with_searches(board(TRACK, blit), [one, one])

    assert found is not None
    assert found.replay is not None
    assert [[entry.score for entry in track.entries] for track in found.replay.tracks] == [
        [0.0, 0.25, 0.25],
        [-0.5, -0.5],
    ]


def test_without_results_a_leaderboard_stays_and_a_hub_needs_none(tmp_path: Path) -> None:
    own = board()

    assert with_searches(own, []) is own
    assert with_searches(None, []) is None
    for missing in (None, Leaderboard(tracks=(), origin={})):
        with pytest.raises(ArgumentError, match=r"The hub has no replayed searches to set those of .*mine\.json"):
            with_searches(missing, [read_searches(written(tmp_path))])


def test_what_the_benchmark_writes_stands_beside_the_searches_of_the_embedded_hub(tmp_path: Path) -> None:
    device = "amd-epyc-zen5-1c"
    found = read_benchmark(EMBEDDED / BENCHMARK)
    assert found is not None

    def played(**options: Any) -> Path:
        result = bench_search("random", None, options=BenchOptions(devices=(device,), **options), progress=False)
        (tmp_path / "mine.json").write_text(result.to_json())
        return tmp_path / "mine.json"

    added = with_searches(found[0], [read_searches(played())])

    assert added is not None
    assert added.replay is not None
    entries = {track.device_id: track.entries for track in added.replay.tracks}[device]
    (random,) = [entry for entry in entries if entry.strategy == "random" and not entry.source]
    assert entries[-1].source == "mine.json"
    assert (entries[-1].score, entries[-1].near) == (pytest.approx(random.score, abs=1e-6), random.near)
    for options, sentence in (
        ({"workloads": 3}, "are not of the leaderboard's 10 workloads: of their 3, 0 are others"),
        ({"settings": ReplaySettings(trials=20)}, r"have 20 trials \(median\), those of the leaderboard 39"),
    ):
        with pytest.raises(DataError, match=sentence):
            with_searches(found[0], [read_searches(played(**options))])
    for settings, sentence in (
        (ReplaySettings(batch=8), "played with batches of 8, those of a leaderboard have 16"),
        (ReplaySettings(seeds=4), "has 4 searches of each workload, a leaderboard shows means over 5 or more"),
    ):
        with pytest.raises(DataError, match=sentence):
            read_searches(played(workloads=1, settings=settings))


@pytest.mark.parametrize(
    ("more", "sentence"),
    [
        ({"costhub": "benchmark"}, "is not a result of `costhub bench search`"),
        ({"version": 99}, "Update costhub"),
        ({"batch": 32}, "batches of 32, those of a leaderboard have 16"),
        ({"batch": "16"}, "expected a count as `batch`"),
        ({"seeds": 4}, "has 4 searches of each workload"),
        ({"seeds": True}, "expected a count as `seeds`"),
        ({"seeds": 10**30}, "expected a count as `seeds`"),
        ({"strategy": None}, "expected a string as `strategy`, got NoneType"),
        ({"model": ["x"]}, "expected a string as `model`, got list"),
        ({"method": 7}, "expected a string as `method`, got int"),
        ({"devices": []}, "`devices` and its `rows` are not of the same devices"),
        ({"devices": {}}, "expected a list of objects as `devices`"),
        ({"devices": [DEVICE, DEVICE]}, "`devices` and its `rows` are not of the same devices"),
        ({"rows": [*ROWS, {**ROWS[0], "device": "b"}]}, "`devices` and its `rows` are not of the same devices"),
        ({"rows": []}, "`devices` and its `rows` are not of the same devices"),
        ({"rows": [7]}, "expected a list of objects as `rows`"),
        ({"rows": [*ROWS, ROWS[1], ROWS[0]]}, "it has a workload of acme twice"),
        ({"rows": [{**ROWS[0], "workload_id": 7}, ROWS[1]]}, "expected a string as `workload_id`, got int"),
        ({"rows": [{**ROWS[0], "score": 0.75}, ROWS[1]]}, "the score on acme is not the mean"),
        ({"rows": [{**ROWS[0], "score": -1e308}, {**ROWS[1], "score": -1e308}]}, "score -1e.308, expected a number"),
        ({"devices": [{**DEVICE, "score": 1.5}]}, "score 1.5, expected a number of at most 1"),
        ({"devices": [{**DEVICE, "score": float("nan")}]}, "score nan, expected a number of at most 1"),
        ({"devices": [{**DEVICE, "score": 10**400}]}, "expected a number of at most 1"),
        ({"devices": [{**DEVICE, "error": -0.5}]}, "standard error -0.5, expected a number that is not negative"),
        ({"devices": [{**DEVICE, "near": "2"}]}, "'2' as `near`, expected a number of trials"),
        ({"devices": [{**DEVICE, "near": 1e300}]}, "as `near`, expected a number of trials"),
        ({"devices": [{**DEVICE, "programs": -1}]}, "expected a count as `programs`"),
        ({"devices": [{**DEVICE, "trials": 1.5}]}, "expected a count as `trials`"),
    ],
)
def test_what_is_damaged_or_cannot_be_compared_is_refused(tmp_path: Path, more: dict[str, Any], sentence: str) -> None:
    with pytest.raises(DataError, match=sentence):
        read_searches(written(tmp_path, **more))


@pytest.mark.parametrize(
    ("device", "rows", "sentence"),
    [
        ({"device": "blit"}, ROWS, r"searches on blit; the leaderboard has those on acme\."),
        ({"device": "a\x1b[2Jb"}, ROWS, r"searches on a\?\[2Jb; the leaderboard"),
        ({}, [ROWS[0], {**ROWS[1], "workload_id": "another"}], "of the leaderboard's 2 workloads: of their 2, 1 are"),
        ({"score": 0.5}, ROWS[:1], "workloads: of their 1, 0 are others. Play them again without --data"),
        ({"programs": 161}, ROWS, r"among 161 programs of each workload \(median\), those of the leaderboard .* 160"),
        ({"trials": 64}, ROWS, r"have 64 trials \(median\), those of the leaderboard 39. Play them again without --tr"),
    ],
)
def test_searches_of_something_else_than_the_leaderboards_are_refused(
    tmp_path: Path, device: dict[str, Any], rows: list[dict[str, Any]], sentence: str
) -> None:
    own = {**DEVICE, **device}
    path = written(tmp_path, devices=[own], rows=[{**row, "device": own["device"]} for row in rows])

    with pytest.raises(DataError, match=sentence):
        with_searches(board(), [read_searches(path)])


def test_a_leaderboard_that_does_not_say_its_workloads_takes_no_line(tmp_path: Path) -> None:
    silent = ReplayTrack(device_id="acme", workloads=2, programs=160, trials=39, entries=())

    with pytest.raises(DataError, match="the leaderboard does not say which workloads its searches are of"):
        with_searches(board(silent), [read_searches(written(tmp_path))])


def test_a_page_does_not_take_any_number_of_lines(tmp_path: Path) -> None:
    with pytest.raises(DataError, match=f"more than {MAX_ROWS} rows"):
        with_searches(board(), [read_searches(written(tmp_path))] * MAX_ROWS)


@pytest.mark.parametrize("text", ["", "[", "[]", "7", "nul\0", "[" * 100_000, '{"costhub": "replay", "batch": 1e999}'])
def test_other_files_are_refused(tmp_path: Path, text: str) -> None:
    (tmp_path / "mine.json").write_text(text)

    with pytest.raises(DataError):
        read_searches(tmp_path / "mine.json")


def test_large_files_pipes_and_missing_files_are_refused(tmp_path: Path) -> None:
    (tmp_path / "large.json").write_text(" " * (MAX_BYTES + 1))
    os.mkfifo(tmp_path / "pipe.json")

    for name, sentence in (("large", "At most 1,048,576 are read"), ("pipe", "named pipe"), ("none", "cannot be read")):
        with pytest.raises(CosthubError, match=sentence):
            read_searches(tmp_path / f"{name}.json")


def test_texts_of_strangers_are_only_text_on_the_page(hub: Path, tmp_path: Path) -> None:
    row = {**DEVICE, "rows": [], "workload_ids": ["0123456789ab", "fedcba987654"]}
    (hub / BENCHMARK).write_text(json.dumps({"tracks": [], "replay": {"tracks": [row]}}))
    script = "<script>document.title='pwned'</script>\x1b[2J\u202e"
    path = tmp_path / "<b>mine.json"
    path.write_text(json.dumps({**FOUND, "strategy": script, "model": script, "method": script}))

    page = site_page(site_contents([HubRoot(hub, "here")], searches=[read_searches(path)]).site)

    assert page.count("&lt;script&gt;document.title=&#39;pwned&#39;&lt;/script&gt;?[2J?") == 3
    assert "<script>document" not in page
    assert "&lt;b&gt;mine.json" in page
    assert "Lines with the name of a file below the strategy were added to this page" in page
    assert "\x1b" not in page
    assert "\u202e" not in page
    without = site_page(site_contents([HubRoot(hub, "here")]).site)
    assert "Lines with the name of a file" not in without
