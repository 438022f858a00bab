"""How results of the replay benchmark are shown and exchanged."""

from __future__ import annotations

import dataclasses
import json
import re
from pathlib import Path

import pytest

from costhub.api.replay.result import ReplayResult, plot_curves, write_t4
from costhub.search.replay.judge import ReplaySettings, replay
from costhub.search.replay.strategies import RandomOrder
from costhub.testing import made_replay
from costhub.versions import costhub_version

SETTINGS = ReplaySettings(batch=4, seeds=2, trials=8)
WORKLOADS = [made_replay(seed=seed) for seed in range(3)]


@pytest.fixture(scope="module")
def result() -> ReplayResult:
    scores = [replay(workload, RandomOrder, lambda seed: None, SETTINGS) for workload in WORKLOADS]
    return ReplayResult("random", "", "", SETTINGS, tuple(scores))


def test_the_score_is_the_mean_over_workloads_and_then_devices(result: ReplayResult) -> None:
    first, second, third = result.scores
    moved = ReplayResult("random", "", "", SETTINGS, (first, second, type(third)(**{**vars(third), "device_id": "b"})))

    assert result.score == pytest.approx((first.score + second.score + third.score) / 3)
    assert moved.score == pytest.approx(((first.score + second.score) / 2 + third.score) / 2)


def test_json_has_the_curves_and_print_the_devices(result: ReplayResult) -> None:
    content = json.loads(result.to_json())

    assert (content["costhub"], content["strategy"], content["workloads"]) == ("replay", "random", 3)
    assert len(content["rows"][0]["curve"]) == 8
    assert content["devices"][0]["score"] == pytest.approx(result.score)
    assert str(result).splitlines()[0] == f"random: score {result.score:.3f}"
    assert "made" in str(result)
    assert list(result.to_pandas()["programs"]) == [64, 64, 64]


def test_a_device_has_the_programs_of_all_its_workloads_beside_the_median() -> None:
    workloads = [made_replay(side=side) for side in (4, 5, 8)]
    scores = tuple(replay(each, RandomOrder, lambda seed: None, SETTINGS) for each in workloads)
    found = ReplayResult("random", "", "", SETTINGS, scores)

    (device,) = found.summary["devices"]

    assert (device["programs"], device["programs_total"]) == (25, 16 + 25 + 64)
    assert re.search(r"^made +3 +25 +105 ", str(found), re.MULTILINE)


def test_t4_holds_each_program_with_its_knobs_and_its_time(result: ReplayResult, tmp_path: Path) -> None:
    files = write_t4(result, WORKLOADS, tmp_path / "t4")

    assert len(files) == 6
    document = json.loads(files[0].read_text())
    assert document["metadata"] == {
        "device": "made",
        "autotuner_version": costhub_version(),
        "timeunit": "milliseconds",
        "autotuner": "costhub random",
    }
    assert len(document["results"]) == 8
    entry, place = document["results"][0], result.scores[0].chosen[0][0]
    assert set(entry) >= {"configuration", "times", "invalidity", "correctness"}  # what the schema requires
    assert entry["configuration"]["decision_1"] == [2 ** (place // 8)]
    assert entry["times"]["runtimes"] == [pytest.approx(WORKLOADS[0].latency_s[place] * 1e3)]


@pytest.mark.parametrize("name", ["curves.png", "curves.svg"])
def test_the_curves_are_drawn(result: ReplayResult, name: str, tmp_path: Path) -> None:
    path = plot_curves(result, tmp_path / name)

    assert path.stat().st_size > 2000


def test_ids_of_somebody_else_stay_in_the_folder(result: ReplayResult, tmp_path: Path) -> None:
    scores = tuple(
        dataclasses.replace(each, workload_id="../../../../x", device_id="a b") for each in result.scores[:1]
    )

    files = write_t4(dataclasses.replace(result, scores=scores), WORKLOADS[:1], tmp_path / "t4")

    assert [path.name for path in files] == [f"a_b-.._.._.._.._-seed{seed}.json" for seed in range(2)]
    assert sorted(tmp_path.iterdir()) == [tmp_path / "t4"]
