"""The newcomer's strategy and model, and how the commands that play them are timed."""

from __future__ import annotations

import json
import statistics
import subprocess
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import click
import numpy as np
import pytest
from click.testing import CliRunner

import costhub
from costhub.api.replay.bench import SUITE
from costhub.dataset.programs import Programs
from costhub.models.own_code import imported
from costhub.search.replay.judge import ReplaySettings, replay
from costhub.testing import made_programs, made_replay
from scripts.bench.command_line import newcomer
from scripts.bench.command_line.newcomer import EXAMPLES, FEW, PARTS, main, played
from scripts.bench.common.machine import ROOT

STRATEGY, MODEL = (ROOT / EXAMPLES / name for name in ("strategy.py", "model.py"))
FOUND = {
    "strategy": "Neighbours",
    "model": "",
    "batch": 16,
    "seeds": 5,
    "score": 0.25,
    "devices": [{"device": "acme", "score": 0.25, "error": 0.05}],
}


def test_the_strategy_is_better_than_chance_where_neighbours_are_alike() -> None:
    factory = imported(f"{STRATEGY}:Neighbours")

    scores = [
        replay(made_replay(side=12, seed=seed), factory, lambda _: None, ReplaySettings(batch=4, seeds=6)).score
        for seed in range(3)
    ]

    assert statistics.fmean(scores) > 0.25


def test_a_quarter_of_a_batch_of_the_strategy_is_random() -> None:
    workload = made_replay(side=12)
    one, other = (imported(f"{STRATEGY}:Neighbours")(workload.task, seed=seed) for seed in range(2))
    for search in (one, other):
        search.tell(np.array([3, 70]), workload.latency_s[[3, 70]])

    first, second = one.ask(8), other.ask(8)

    assert len({*first.tolist()}) == len({*second.tolist()}) == 8
    assert set(first[:6].tolist()) == set(second[:6].tolist())
    assert set(first[6:].tolist()) != set(second[6:].tolist())


def test_the_model_learns_only_from_what_no_device_of_the_benchmark_is_scored_on(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    asked: dict[str, set[str]] = {}

    def load(device: str, *, workloads: set[str]) -> Programs:
        asked[device] = workloads
        return made_programs("tiles@1", seed=len(asked))

    monkeypatch.setattr(costhub, "load_programs", load)

    imported(f"{MODEL}:Ridge")()

    assert imported(f"{MODEL}:SCORED") == SUITE
    scored = {each for device, split in SUITE.items() for each in costhub.load_split(device, split).test}
    assert asked.keys() == {"amd-epyc-zen5-2c", "nvidia-h200"}
    for device, split in imported(f"{MODEL}:LEARNED").values():
        assert len(asked[device]) == imported(f"{MODEL}:WORKLOADS")
        assert asked[device] <= set(costhub.load_split(device, split).train)
        assert asked[device].isdisjoint(scored)


def test_the_model_learns_an_order_and_scores_programs_of_gpus_with_weights_of_their_own(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    threads = imported(f"{MODEL}:THREADS")
    made = made_programs("tiles@1", seed=3)
    programs = made.select(made.counts > 0)
    rows = programs.rows.copy()
    rows[:, threads] = 1.0
    # The first row decides, in one direction on CPUs and in the other on GPUs.
    deciding = rows[np.cumsum(programs.counts) - programs.counts, 51].astype(float)
    cpu, gpu = (replace(programs, rows=rows, latency_s=8.0 ** (sign * deciding)) for sign in (-1, 1))
    learned = iter((cpu, gpu))
    monkeypatch.setattr(costhub, "load_programs", lambda *_, **__: next(learned))
    model = imported(f"{MODEL}:Ridge")()

    on_cpu = model.predict(rows, programs.counts)
    on_gpu = model.predict(np.where(np.arange(rows.shape[1]) == threads, 6.0, rows), programs.counts)

    group = programs.group == 0
    assert np.corrcoef(on_cpu[group], np.log(1.0 / cpu.latency_s[group]))[0, 1] > 0.9
    assert np.corrcoef(on_gpu[group], np.log(1.0 / gpu.latency_s[group]))[0, 1] > 0.9
    assert np.isfinite(model.predict(rows[:2], np.array([0, 2, 0]))).all(), "a program without rows"


class Recorded:
    """In the place of `run_module`: keeps what was asked, and writes a result as the command does."""

    def __init__(self, code: int = 0) -> None:
        self.code, self.asked = code, []  # type: ignore[var-annotated]

    def __call__(
        self, module: str, *words: Any, variables: Mapping[str, str], **options: Any
    ) -> subprocess.CompletedProcess[str]:
        cache = Path(variables["COSTHUB_CACHE"])
        self.asked.append((words, cache, cache.exists(), variables["CUDA_VISIBLE_DEVICES"]))
        cache.mkdir(exist_ok=True)
        Path(words[words.index("--out") + 1]).write_text(json.dumps(FOUND))
        return subprocess.CompletedProcess([], self.code, "", "Warning: a\ncosthub: It broke.\n")


def test_a_cold_start_has_an_empty_cache_and_no_gpu_and_the_second_run_what_the_first_left(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    recorded = Recorded()
    monkeypatch.setattr(newcomer, "run_module", recorded)

    done = CliRunner().invoke(main, ["--json", str(tmp_path / "out.json")], catch_exceptions=False)

    assert done.exit_code == 0
    words, caches, existed, gpus = zip(*recorded.asked, strict=True)
    assert existed == (False, False, True)
    assert caches[1] == caches[2] != caches[0]
    assert set(gpus) == {""}
    assert not any("--device" in each or "--seeds" in each for each in words), "every device, as users get it"
    rows = json.loads((tmp_path / "out.json").read_text())["rows"]
    assert [row["part"] for row in rows] == [part.name for part in PARTS]
    assert [row["devices"] for row in rows] == [FOUND["devices"]] * 3
    assert rows[1]["played"] == "costhub bench search --model examples/newcomer/model.py:Ridge"
    assert 0 < rows[0]["lines"] < len(STRATEGY.read_text().splitlines())


def test_what_a_command_said_last_is_told_where_it_fails(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr(newcomer, "run_module", Recorded(code=2))

    with pytest.raises(click.ClickException, match=r"--model none ended with 2 and said: costhub: It broke\."):
        played(PARTS[0], tmp_path / "cache")


def test_the_strategy_is_played_from_an_empty_cache(tmp_path: Path) -> None:
    row = played(PARTS[0], tmp_path / "cache", FEW)

    assert (row["strategy"], row["model"], row["seeds"]) == ("Neighbours", "", 1)
    (device,) = row["devices"]
    assert (device["device"], device["workloads"], device["trials"]) == ("amd-epyc-zen5-1c", 1, 16)


@pytest.mark.slow  # the features that the model learns from
def test_the_quick_form_plays_both(tmp_path: Path) -> None:
    path = tmp_path / "out.json"

    done = CliRunner().invoke(main, ["--quick", "--json", str(path)], catch_exceptions=False)

    assert done.exit_code == 0, done.output
    strategy, model, again = json.loads(path.read_text())["rows"]
    assert [row["model"] for row in (strategy, model, again)] == ["", "Ridge", "Ridge"]
    assert model["devices"] == again["devices"], "the model is the same from kept features"
