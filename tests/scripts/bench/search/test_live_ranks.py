"""Live searches beside replayed ones: without noise they are the same, and rows that are there are not made again."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from statistics import fmean
from typing import Any

import click
import numpy as np
import pytest

from costhub.models.trees.gbt import Gbt, GbtOptions
from costhub.search.replay import judge
from costhub.search.replay.workloads import Latencies, ReplayWorkload
from costhub.testing import made_programs, made_replay
from scripts.bench.common import machine
from scripts.bench.common.live_pools import Subject
from scripts.bench.common.rows import Row, RowFile
from scripts.bench.search.live_ranks import (
    DENSE,
    FIRST_SEED,
    KEY,
    STRATEGIES,
    LiveSearch,
    Setting,
    completed,
    live_rows,
    players,
    published_scores,
    replay_rows,
    search_live,
    subjects,
)
from scripts.tables.strategies import LIVE, REPLAYED, live_ranks_summary, live_ranks_table

BATCH, TRIALS = 4, 22


class Device:
    """Measures programs of a pool; the n-th measurement takes 1 + n * drift times as long as the pool says.

    Args:
        pool: The programs.
        drift: How much slower each measurement is than the one before.
        broken: Programs that fail.
    """

    def __init__(self, pool: ReplayWorkload, *, drift: float = 0.0, broken: Sequence[int] = ()) -> None:
        self.pool, self.drift, self.broken = pool, drift, broken
        self.told: list[tuple[list[int], list[float]]] = []

    def measure(self, places: Sequence[int]) -> Latencies:
        before = sum(len(programs) for programs, _ in self.told)
        slower = 1.0 + self.drift * (before + np.arange(len(places)))
        found = np.where(np.isin(places, self.broken), np.inf, self.pool.latency_s[list(places)] * slower)
        self.told.append((list(places), found.tolist()))
        return found


@pytest.fixture(scope="module")
def model() -> Gbt:
    found = Gbt(feature_spec="made@1", options=GbtOptions(rounds=4))
    found.fit(made_programs("made@1"), None, seed=0, progress=False)
    return found


def live(device: Device, model: Gbt | None = None, **changed: Any) -> list[LiveSearch]:
    options = {"seeds": range(2), "batch": BATCH, "trials": TRIALS, "failed_s": 1.0, **changed}
    return search_live(device.pool.task, players(model), device.measure, **options)


def side_by_side(searches: Sequence[LiveSearch], pool: ReplayWorkload) -> dict[int, float]:
    return {search.best: float(pool.latency_s[search.best]) * 1e6 for search in searches}


def test_without_noise_a_live_search_is_the_replay(model: Gbt) -> None:
    pool = made_replay()

    searches = live(Device(pool), model)
    rows = live_rows(searches, pool, side_by_side(searches, pool))
    replayed = replay_rows(pool, players(model), seeds=2, batch=BATCH, trials=TRIALS)

    settings = judge.ReplaySettings(batch=BATCH, seeds=2, trials=TRIALS)
    for name, player in players(model).items():
        theirs = judge.replay(pool, player.factory, player.new_model, settings)
        assert [tuple(s.chosen) for s in searches if s.strategy == name] == list(theirs.chosen)
        for found in (rows, replayed):
            assert fmean(row["score"] for row in found if row["strategy"] == name) == pytest.approx(theirs.score)
    assert [row["strategy"] for row in rows[:4]] == list(STRATEGIES)
    assert {(row["apart"], row["failures"]) for row in rows} == {(0.0, 0)}


def test_a_strategy_is_told_what_was_measured_for_it() -> None:
    device = Device(made_replay(), drift=0.01)

    searches = live(device, trials=BATCH)

    assert sorted((search.chosen, search.latency_s) for search in searches) == sorted(device.told)
    # Three strategies begin with the same programs, but each has measurements of its own.
    first = {search.strategy: search for search in searches if search.seed == 0}
    assert first["random"].chosen == first["nearest"].chosen
    assert first["random"].latency_s != first["nearest"].latency_s
    for search in searches:
        np.testing.assert_array_equal(search.player.latency_s, search.latency_s)  # type: ignore[attr-defined]


def test_no_search_is_more_than_a_batch_ahead_of_another() -> None:
    device = Device(made_replay())

    searches = live(device)

    asked, each = [batch for batch, _ in device.told], len(searches)
    in_turn = []
    for number, start in enumerate(range(0, len(asked), each)):
        own = [search.chosen[number * BATCH :][:BATCH] for search in searches]
        assert sorted(asked[start : start + each]) == sorted(own)
        in_turn.append(asked[start : start + each] == own)
    assert [len(search.chosen) for search in searches] == [TRIALS] * each
    assert not all(in_turn)  # their order changes


def test_a_program_that_fails_counts_as_the_slowest() -> None:
    pool = made_replay()
    broken = int(np.argmin(pool.latency_s))
    slowest_s = float(pool.latency_s.max())

    searches = live(Device(pool, broken=[broken]), trials=pool.task.n, failed_s=slowest_s)

    for search in searches:
        assert search.failures == 1
        assert search.latency_s[search.chosen.index(broken)] == slowest_s
        assert search.best != broken


def test_the_end_of_a_live_search_is_what_its_own_choice_takes_beside_the_others() -> None:
    pool = made_replay()
    searches = live(Device(pool))
    best = sorted({search.best for search in searches})
    best_us = {place: 10.0 * (1 + number) for number, place in enumerate(best)}

    rows = live_rows(searches, pool, best_us)

    assert [row["end"] for row in rows] == [10.0 / best_us[search.best] for search in searches]
    assert [row["claimed_us"] for row in rows] == [pytest.approx(min(s.latency_s) * 1e6) for s in searches]


SETTING = Setting(pool=24, trials=8, batch=4, seeds=2, replay_seeds=3)
SUBJECTS = [Subject("id-a", "a", "{}", 1.0), Subject("id-b", "b", "{}", 2.0)]
NAMES = ("random", "genetic")


def made_rows(subject: Subject, score: float, setting: Setting = SETTING, device: str = "here") -> list[Row]:
    about = {"workload": subject.name, "workload_id": subject.workload_id, **setting.about(device)}
    return [
        {**about, "where": where, "strategy": name, "seed": seed, "score": score}
        for name in NAMES
        for where, seed in setting.searches
    ]


def complete(path: Path | None, setting: Setting = SETTING, *, score: float = 0.5) -> tuple[list[Row], list[str]]:
    done: list[str] = []

    def work(subject: Subject) -> list[Row]:
        done.append(subject.name)
        return made_rows(subject, score, setting)

    kept = RowFile(path, KEY)
    return completed(kept, SUBJECTS, setting, device="here", strategies=NAMES, work=work), done


def test_workloads_whose_rows_are_there_are_not_searched_again(tmp_path: Path) -> None:
    path = tmp_path / "rows.jsonl"
    first, done = complete(path)
    assert done == ["a", "b"]
    assert [row["seed"] for row in first[:5]] == [FIRST_SEED, FIRST_SEED + 1, 0, 1, 2]
    assert len(first) == 2 * 2 * 5

    again, done = complete(path)

    assert done == []
    assert again == first


def test_a_workload_of_which_a_row_is_missing_is_searched_again_as_a_whole(tmp_path: Path) -> None:
    path = tmp_path / "rows.jsonl"
    complete(path)
    path.write_text(path.read_text()[:-9])  # an interruption cuts the last row short

    rows, done = complete(path, score=0.75)

    assert done == ["b"]
    assert [row["score"] for row in rows] == [0.5] * 10 + [0.75] * 10
    assert complete(path) == (rows, [])


def test_rows_of_another_setting_or_device_are_left_out(tmp_path: Path) -> None:
    path, other = tmp_path / "rows.jsonl", Setting(pool=24, trials=16, batch=4, seeds=2, replay_seeds=3)
    complete(path)
    RowFile(path, KEY).add(*made_rows(SUBJECTS[0], 0.1, other, "there"))

    rows, done = complete(path, other, score=0.9)

    assert done == ["a", "b"]
    assert {(row["most_trials"], row["score"]) for row in rows} == {(16, 0.9)}


def test_the_published_scores_are_those_of_the_table() -> None:
    found = published_scores()

    assert set(found) == {"random", "genetic", "nearest", "model"}
    assert max(found, key=lambda name: found[name]) == "model"
    rows = json.loads((machine.RESULTS / "replay.json").read_text())["rows"]
    assert found["nearest"] in [row["score"] for row in rows if row["device"] == DENSE]


@pytest.mark.slow
def test_workloads_that_the_model_knows_are_left_out() -> None:
    densest = subjects(10)
    known = {densest[0].workload_id, densest[3].workload_id}

    assert subjects(2, known) == densest[1:3]
    assert subjects(8, known) == [each for each in densest if each.workload_id not in known]
    assert subjects(1, small=True) == [min(densest, key=lambda each: each.flop)]
    with pytest.raises(
        click.ClickException, match="has 8 workloads of intel-xeon-emeraldrapids-2c-avx2 that the model has not learned"
    ):
        subjects(9, known)


def test_the_table_shows_what_the_rows_hold(model: Gbt) -> None:
    rows: list[Row] = []
    for seed in range(2):
        pool = made_replay(seed=seed)
        searches = live(Device(pool), model)
        found = live_rows(searches, pool, side_by_side(searches, pool))
        found += replay_rows(pool, players(model), seeds=2, batch=BATCH, trials=TRIALS)
        rows += [{"workload": f"w{seed}", "programs": pool.task.n, **row} for row in found]

    summary = live_ranks_summary(rows)
    shown = live_ranks_table(
        {
            "model": "any",
            "seeds": 2,
            "replay_seeds": 2,
            "batch": BATCH,
            "published": {},
            "summary": summary,
            "rows": rows,
        }
    )

    means = {
        where: fmean(row["score"] for row in rows if (row["strategy"], row["where"]) == ("nearest", where))
        for where in (LIVE, REPLAYED)
    }
    assert means[LIVE] == pytest.approx(means[REPLAYED])
    (line,) = [line for line in shown.splitlines() if line.startswith("| nearest |")]
    assert line.split("|")[2].strip().startswith(f"{means[LIVE]:.2f} ± ")
    assert "| model (`any`, frozen) |" in shown
    assert "| score | 1.00 | 1.00 | 12 |" in shown
    assert "| w1 | 64 | 22 |" in shown
