"""Where the seconds of a command went: every second in one stage, from the start of the process to its exit."""

from __future__ import annotations

import json
from datetime import datetime, timezone
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner

from scripts.bench.command_line.network_seconds import AIM_S, BEFORE_S, KEY, NETWORKS, SMALLEST, figures, main
from scripts.bench.common.rows import RowFile
from scripts.tables.networks import SECONDS_STAGES

BEGAN = 1_800_000_000.0
RUN = {"opening": 2.0, "reading": 3.0, "extracting": 1.0, "searching": 9.0, "reporting": 1.0, "finishing": 20.0}


def report(**more: Any) -> dict[str, Any]:
    kernel = {"trials": 16, "stages": {"evolution": 1.0, "building": 2.0, "other": 0.5}}
    network = {
        "error": None,
        "stages": {"reading": 4.0, "compiling": 5.0, "compiling untuned": 2.0, "checking": 3.0, "timing": 4.0},
        "latencies": {"tuned": {"median_us": 5.0}, "untuned": {"median_us": 50.0}},
    }
    began = datetime.fromtimestamp(BEGAN, timezone.utc).isoformat(timespec="milliseconds")
    stages = {**RUN, "other": 0.5}
    return {"networks": [network], "workloads": [kernel, kernel], "stages": stages, "began": began, **more}


def test_stages_add_up_to_the_seconds_from_start_to_exit() -> None:
    row = figures(report(), start=BEGAN - 1.5, written=BEGAN + 38.0, end=BEGAN + 38.25)

    assert row["seconds"] == 39.75
    assert row["stages"] == {
        "start": 1.5,
        "opening": 2.0,
        "reading": 7.0,
        "extracting": 1.0,
        "evolution": 2.0,
        "building": 4.0,
        "rest of the kernels": 3.0,
        "compiling": 5.0,
        "compiling untuned": 2.0,
        "checking": 3.0,
        "timing": 4.0,
        "rest of the network": 2.0,
        "report": 2.5,  # one second of the first, and what passed between the last stage and the file
        "other": 0.75,
    }
    assert row["stages"].keys() <= SECONDS_STAGES["tune"].keys()
    assert (row["kernels"], row["measured"], row["kernels_s"], row["error"]) == (2, 32, None, None)
    assert row["latencies_us"] == {"tuned": 5.0, "untuned": 50.0}


def test_a_compilation_has_the_seconds_of_its_kernels() -> None:
    kernel = {"stages": {"space": 1.0, "choosing": 0.5, "other": 0.1}}
    stages = {"opening": 2.0, "reading": 3.0, "extracting": 1.0, "scheduling": 6.0, "finishing": 20.0}

    row = figures(report(workloads=[kernel] * 3, stages=stages), start=BEGAN, written=BEGAN + 33.0, end=BEGAN + 33.0)

    assert (row["kernels"], row["kernels_s"], row["measured"]) == (3, 6.0, 0)
    assert (row["stages"]["space"], row["stages"]["rest of the kernels"]) == (3.0, 1.5)
    assert row["stages"]["report"] == 1.0
    assert row["stages"].keys() <= SECONDS_STAGES["compile"].keys()


def test_what_was_timed_before_is_not_timed_again(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    rows = RowFile(tmp_path / "rows.jsonl", KEY)
    asked: list[tuple[Any, ...]] = []
    made = {**figures(report(), start=BEGAN, written=BEGAN + 37.0, end=BEGAN + 37.0), "network": "resnet18", "seed": 0}
    rows.add({**made, "command": "tune", "trials": 16})
    rows.add({**made, "command": "tune", "trials": 64})  # of another run

    def timed(*key: Any) -> dict[str, Any]:
        asked.append(key)
        return {**made, **dict(zip(KEY, key, strict=True))}

    monkeypatch.setattr("scripts.bench.command_line.network_seconds.timed", timed)
    monkeypatch.setattr("scripts.bench.command_line.network_seconds.warm", lambda: None)
    words = ["--network", "resnet18", "--rows", str(tmp_path / "rows.jsonl"), "--json", str(tmp_path / "out.json")]
    done = CliRunner().invoke(main, words, catch_exceptions=False)

    assert done.exit_code == 0
    assert asked == [("compile", "resnet18", 0, 0)]
    written = json.loads((tmp_path / "out.json").read_text())["rows"]
    assert [(row["command"], row["trials"]) for row in written] == [("tune", 16), ("compile", 0)]


def test_aims_are_of_networks_that_are_timed() -> None:
    assert {network for _, network in [*AIM_S, *BEFORE_S]} == set(NETWORKS)


@pytest.mark.slow
def test_the_quick_form_tunes_and_compiles_a_network(tmp_path: Path) -> None:
    path = tmp_path / "out.json"

    done = CliRunner().invoke(main, ["--quick", "--json", str(path)], catch_exceptions=False)

    assert done.exit_code == 0, done.output
    tuned, compiled = json.loads(path.read_text())["rows"]
    assert [row["network"] for row in (tuned, compiled)] == [SMALLEST] * 2
    # With one batch for each kernel there may be nothing to learn for; a compilation times nothing.
    assert tuned["stages"].keys() | {"learning", "compiling untuned"} == SECONDS_STAGES["tune"].keys()
    assert compiled["stages"].keys() == SECONDS_STAGES["compile"].keys() - {"timing", "compiling untuned"}
    for row in (tuned, compiled):
        assert row["error"] is None
        assert 0.3 < row["busy"] <= 1.0
        assert row["kernels"] > 0
        # The time of a file is rounded down, and a compilation takes no time for its report.
        assert min(seconds for stage, seconds in row["stages"].items() if stage != "report") > 0.0
        assert sum(row["stages"].values()) == pytest.approx(row["seconds"])
    assert tuned["latencies_us"].keys() == {"tuned", "torch"}
    assert tuned["measured"] > 0
