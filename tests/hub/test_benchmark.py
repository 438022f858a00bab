"""The leaderboard of a hub: what is read, and what is refused."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

import pytest

from costhub.api.replay.bench import SUITE
from costhub.errors import DataError
from costhub.hub.benchmark import BENCHMARK, MAX_ROWS, read_benchmark
from costhub.hub.catalogue.hubs import EMBEDDED
from scripts.release.benchmark import RESULTS, benchmark_json, replay_json
from scripts.tables.benchmark import TRACKS

ROW = {"name": "mlp", "features": "tiles@1", "kind": "model", "seeds": 3, "top_1": 0.7, "top_1_se": 0.02}
SEARCH = {
    "strategy": "model",
    "model": "auto",
    "model_name": "lab/acme-mlp",
    "method": "frozen",
    "kind": "model",
    "seeds": 5,
    "score": -0.5,
    "score_se": 0.1,
    "trials_to_95": 2.5,
}
REPLAY = {"device": "acme", "workloads": 10, "programs": 160, "trials": 39, "rows": [SEARCH]}
TRACK = {"title": "CPU", "device": "acme", "split": "s", "asks": "a", "workloads": 40, "rows": [ROW]}


def board(tmp_path: Path, **more: Any) -> Path:
    path = tmp_path / BENCHMARK
    path.write_text(json.dumps({"version": 1, "origin": {"date": "2026", "odd": 7}, "tracks": [TRACK], **more}))
    return path


def test_the_embedded_leaderboard_is_the_results_of_the_benchmark() -> None:
    made = benchmark_json(Path(__file__).parents[2] / RESULTS)

    assert json.loads((EMBEDDED / BENCHMARK).read_text(encoding="utf-8")) == made


def test_every_track_of_the_benchmark_has_models_baselines_and_a_ceiling() -> None:
    found = read_benchmark(EMBEDDED / BENCHMARK)

    assert found is not None
    for track in found[0].tracks[: len(TRACKS)]:
        assert {entry.kind for entry in track.entries} == {"model", "baseline", "ceiling"}
        assert all(set(entry.figures) == set(entry.errors) for entry in track.entries)
    assert found[0].origin["results"].startswith(RESULTS)


def test_shipped_models_are_judged_on_the_workloads_of_their_track() -> None:
    found = read_benchmark(EMBEDDED / BENCHMARK)

    assert found is not None
    shipped = {
        (track.title, entry.name.removesuffix(", shipped")): (track.workloads, entry.figures["top_1"])
        for track in found[0].tracks
        for entry in track.entries
        if entry.name.endswith(", shipped")
    }
    assert {title for title, _ in shipped} == {"CPU", "Second CPU", "Unseen CPU", "A100", "V100", "K80", "MI50"}
    checked = json.loads((Path(__file__).parents[2] / RESULTS / "release.json").read_text(encoding="utf-8"))["rows"]
    for title, device, model in (
        ("CPU", "amd-epyc-zen5-2c", "any-cpu-conditioned"),
        ("Second CPU", "intel-xeon-graniterapids-2c", "any-cpu-conditioned"),
        ("A100", "nvidia-a100", "nvidia-a100-mlp"),
        ("V100", "nvidia-v100", "nvidia-v100-blend"),
    ):
        (row,) = [row for row in checked if (row["device"], row["model"]) == (device, f"costhub/{model}")]
        assert shipped[title, model] == (row["workloads"], pytest.approx(row["top_1"], abs=1e-6))


def test_figures_and_what_is_known_of_their_run_are_read(tmp_path: Path) -> None:
    found = read_benchmark(board(tmp_path))

    assert found is not None
    (entry,) = found[0].tracks[0].entries
    assert (entry.figures, entry.errors) == ({"top_1": 0.7}, {"top_1": 0.02})
    assert found[0].origin == {"date": "2026"}
    assert read_benchmark(tmp_path / "none.json") is None


def test_replayed_searches_are_read_and_files_without_any_too(tmp_path: Path) -> None:
    found = read_benchmark(board(tmp_path, replay={"tracks": [REPLAY], "origin": {"date": "2027", "odd": 7}}))

    assert found is not None
    assert found[0].replay is not None
    (track,) = found[0].replay.tracks
    (entry,) = track.entries
    assert (track.device_id, track.workloads, track.programs, track.trials) == ("acme", 10, 160, 39)
    assert (entry.score, entry.error, entry.near, entry.model_name) == (-0.5, 0.1, 2.5, "lab/acme-mlp")
    assert found[0].replay.origin == {"date": "2027"}
    earlier = read_benchmark(board(tmp_path))
    assert earlier is not None
    assert earlier[0].replay is None


def test_the_embedded_replayed_searches_are_those_of_the_suite() -> None:
    found = read_benchmark(EMBEDDED / BENCHMARK)

    assert found is not None
    assert found[0].replay is not None
    tracks = {track.device_id: track for track in found[0].replay.tracks}
    assert set(tracks) == set(SUITE)
    for track in tracks.values():
        (baseline,) = [entry for entry in track.entries if entry.kind == "baseline"]
        assert (baseline.strategy, baseline.model) == ("random", "")
        assert abs(baseline.score) < 0.5  # of many searches, it would be 0
    led = [entry for track in tracks.values() for entry in track.entries if entry.model]
    assert all(entry.model_name.startswith("costhub/") and entry.method for entry in led)


def test_searches_of_different_workloads_are_not_put_side_by_side() -> None:
    result = json.loads((Path(__file__).parents[2] / RESULTS / "replay.json").read_text(encoding="utf-8"))
    assert len(replay_json(result)["tracks"]) == len(SUITE)
    result["rows"][0]["by_workload"] = {"0123456789ab": 0.5}

    with pytest.raises(DataError, match="different workloads on nvidia-v100"):
        replay_json(result)


@pytest.mark.parametrize(
    ("more", "sentence"),
    [
        ({"tracks": None}, "expected a list of objects as `tracks`"),
        ({"tracks": [7]}, "expected a list of objects as `tracks`"),
        ({"tracks": [{**TRACK, "title": 7}]}, "expected a string as `title`, got int"),
        ({"tracks": [{**TRACK, "workloads": -1}]}, "expected a count as `workloads`"),
        ({"tracks": [{**TRACK, "rows": [{**ROW, "kind": "best"}]}]}, "of the kind 'best'"),
        ({"tracks": [{**TRACK, "rows": [{**ROW, "top_1": 1.5}]}]}, "top_1 1.5, expected 0 to 1"),
        ({"tracks": [{**TRACK, "rows": [ROW] * (MAX_ROWS + 1)}]}, "more than"),
        ({"replay": [REPLAY]}, "expected an object as `replay`, got list"),
        ({"replay": {}}, "expected a list of objects as `tracks`"),
        ({"replay": {"tracks": [{**REPLAY, "programs": "160"}]}}, "expected a count as `programs`"),
        ({"replay": {"tracks": [{**REPLAY, "rows": [{**SEARCH, "score": 1.01}]}]}}, "score 1.01, expected a number of"),
        ({"replay": {"tracks": [{**REPLAY, "rows": [{**SEARCH, "trials_to_95": -1}]}]}}, "-1 as `trials_to_95`"),
        ({"replay": {"tracks": [{**REPLAY, "rows": [{**SEARCH, "kind": "ceiling"}]}]}}, "of the kind 'ceiling'"),
        ({"replay": {"tracks": [{**REPLAY, "rows": [SEARCH] * (MAX_ROWS + 1)}]}}, "more than"),
        ({"version": 99}, "Update costhub"),
    ],
)
def test_what_is_no_leaderboard_is_refused(tmp_path: Path, more: dict[str, Any], sentence: str) -> None:
    with pytest.raises(DataError, match=sentence):
        read_benchmark(board(tmp_path, **more))


@pytest.mark.parametrize("text", ["[", "[]", "[" * 100_000, "nul\0"])
def test_other_files_are_refused(tmp_path: Path, text: str) -> None:
    (tmp_path / BENCHMARK).write_text(text)

    with pytest.raises(DataError):
        read_benchmark(tmp_path / BENCHMARK)


def test_a_pipe_does_not_hold_the_site_up(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / BENCHMARK)

    with pytest.raises(DataError, match="named pipe"):
        read_benchmark(tmp_path / BENCHMARK)


def test_texts_hold_nothing_that_a_terminal_or_a_reader_would_obey(tmp_path: Path) -> None:
    odd, shown = "a\x1b[2J\u202eb\nc", "a?[2J?b c"
    replay = {"tracks": [{**REPLAY, "rows": [{**SEARCH, "strategy": odd}]}]}
    path = board(tmp_path, tracks=[{**TRACK, "asks": odd}], origin={"command": odd}, replay=replay)

    found = read_benchmark(path)

    assert found is not None
    assert found[0].replay is not None
    texts = found[0].tracks[0].asks, found[0].origin["command"], found[0].replay.tracks[0].entries[0].strategy
    assert set(texts) == {shown}
