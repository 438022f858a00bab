"""The benchmark of active learning: what each strategy picks, what may be learned from, and what is saved."""

from __future__ import annotations

import json
from dataclasses import replace
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from click.testing import CliRunner

from costhub.dataset.splits.split import load_split
from costhub.models.protocol import Scores
from costhub.testing import made_programs
from scripts.bench.collecting import active_learning
from scripts.bench.collecting.active_learning import (
    ALL,
    DISTANT,
    HALF,
    HIGHEST,
    LEARNERS,
    RANDOM,
    SPREAD,
    STRATEGIES,
    TARGETS,
    Sides,
    chosen,
    dataset_of,
    equal_programs,
    main,
    member_scores,
    orders,
    other_chips,
    places,
    summary,
    workload_sides,
)
from scripts.bench.common.data import DATASETS, plain_workloads
from scripts.bench.models.grid import TILES, GridEntry
from scripts.release.train import ANY_CPU

POOL = replace(made_programs(TILES, workloads=3, each=24, seed=0), device_ids=("acme",))
SCORES = np.random.default_rng(0).normal(size=(3, POOL.n))
DRAWN = np.array([3, 2, 0, 1])
OPINIONS = np.array([[3.0, 1.0, 2.0, 0.0], [3.0, 3.0, 2.0, 0.0]])
"""Of two members about four programs: 1 is where they differ most."""
FEATURES = np.array([[0.0], [10.0], [1.0], [6.0]])


def test_each_strategy_picks_what_it_says() -> None:
    found = orders(OPINIONS, FEATURES, DRAWN)

    assert {strategy: order.tolist() for strategy, order in found.items()} == {
        RANDOM: [3, 2, 0, 1],
        HIGHEST: [0, 2, 1, 3],  # 1 and 2 have the same mean
        SPREAD: [1, 3, 2, 0],  # the others are spread alike
        DISTANT: [3, 0, 1, 2],  # 0 and then 1 are the farthest from what was taken
        HALF: [0, 3, 2, 1],
    }


def test_a_member_that_takes_the_whole_workload_for_slower_does_not_disagree() -> None:
    shifted = OPINIONS - np.array([[0.0], [8.0]])

    assert orders(shifted, FEATURES, DRAWN)[SPREAD].tolist() == orders(OPINIONS, FEATURES, DRAWN)[SPREAD].tolist()


def test_equal_programs_are_not_taken_twice() -> None:
    found = orders(OPINIONS, np.zeros((4, 1)), DRAWN)

    assert sorted(found[DISTANT].tolist()) == [0, 1, 2, 3]


@pytest.mark.parametrize("strategy", STRATEGIES)
def test_a_larger_share_holds_the_smaller_and_two_programs_are_the_least(strategy: str) -> None:
    place = places(POOL, SCORES, 0)[strategy]
    picked = [chosen(POOL, place, share) for share in (0.01, 0.25, 0.5, ALL)]

    assert [np.bincount(programs.workload).tolist() for programs in picked] == [[2] * 3, [6] * 3, [12] * 3, [24] * 3]
    for few, more in pairwise(picked):
        assert set(few.latency_s) < set(more.latency_s)


def test_the_highest_scores_are_those_of_each_workload_whatever_the_level_of_the_others() -> None:
    scores = (-np.log(POOL.latency_s) + 100.0 * POOL.workload)[None]

    found = chosen(POOL, places(POOL, scores, 0)[HIGHEST], 0.25)

    for number in range(3):
        own = np.sort(POOL.latency_s[POOL.workload == number])
        assert sorted(found.latency_s[found.workload == number]) == own[:6].tolist()


def test_draws_depend_on_the_seed_and_differ_between_workloads() -> None:
    one, again, other = (places(POOL, SCORES, seed)[RANDOM] for seed in (0, 0, 1))

    assert one.tolist() == again.tolist() != other.tolist()
    assert one[:24].tolist() != one[24:48].tolist()


@pytest.mark.parametrize("device", TARGETS)
def test_no_held_out_workload_is_learned_from(device: str) -> None:
    dataset = dataset_of(device)
    train, test = workload_sides(dataset, None)
    plain = plain_workloads(DATASETS / dataset)
    others = list(other_chips(dataset, train))

    assert plain is not None
    assert (len(test), len(train) > 100) == (40, True)
    assert not train & test
    assert train <= plain
    assert {folder.name for folder, _, _ in others} == set(ANY_CPU.dataset.split("+")) - {dataset}
    for folder, devices, learned in others:
        assert devices
        assert set(devices) <= set(ANY_CPU.devices)
        assert learned <= train
        assert not learned & set(load_split(folder, ANY_CPU.split).test)


def test_a_workload_that_another_dataset_holds_out_is_not_learned_there() -> None:
    dataset = dataset_of(TARGETS[0])
    held_out = workload_sides(dataset, None)[1]

    assert all(not learned for _, _, learned in other_chips(dataset, held_out))


def sides() -> Sides:
    """A pool, what is tested on, and what two devices have measured elsewhere."""
    there = made_programs(TILES, workloads=3, each=24, seed=0)
    there = replace(there, device=np.arange(there.n) % 2, device_ids=("one", "two"))
    cores = {"acme": 4, "one": 1, "two": 2}
    rows = {name: {"device_id": name, "kind": "cpu", "cores": count} for name, count in cores.items()}
    return Sides(POOL, made_programs(TILES, workloads=3, each=24, seed=1), there, rows, 0.5)


def test_members_differ_and_so_do_seeds(monkeypatch: pytest.MonkeyPatch) -> None:
    few = {**active_learning.CHOOSER.options, "members": "gbt(objective=log,rounds=20)"}
    monkeypatch.setattr(active_learning, "CHOOSER", replace(active_learning.CHOOSER, options=few))

    scores, again, other = (member_scores(sides(), 2, seed) for seed in (0, 0, 1))

    assert scores.shape == (2, POOL.n)
    assert np.array_equal(scores, again)
    assert not np.array_equal(scores[0], scores[1])
    assert not np.array_equal(scores, other)


def row(strategy: str, share: float, programs: int, levels: list[float], seed: int = 0) -> dict[str, Any]:
    """A row of two workloads, whose metrics are all the same."""
    about = {"device": "acme", "model": "gbt", "strategy": strategy, "share": share, "seed": seed}
    return {**about, "programs": programs, "by_workload": dict.fromkeys(("top_1", "top_5", "pairwise"), levels)}


def test_what_is_saved_is_told_by_the_random_programs_that_serve_as_well() -> None:
    rows = [row(RANDOM, 0.25, 100, [0.4, 0.6]), row(RANDOM, ALL, 400, [0.6, 0.8])]
    rows += [row(HIGHEST, 0.25, 100, [0.4, 0.6], seed=0), row(HIGHEST, 0.25, 100, [0.6, 0.8], seed=1)]
    rows += [row(SPREAD, 0.25, 100, [0.2, 0.5]), row(DISTANT, 0.25, 100, [0.9, 0.9])]

    found = {(line["strategy"], line["share"]): line for line in summary(rows)}

    highest = found[HIGHEST, 0.25]
    assert highest["seeds"] == 2
    assert (highest["pairwise"], highest["pairwise_se"]) == pytest.approx((0.6, 0.1))
    assert (highest["pairwise_gain"], highest["pairwise_gain_se"]) == pytest.approx((0.1, 0.0))
    equal = [highest[f"top_1_{name}"] for name in ("equal", "low", "high", "saved")]
    assert equal == pytest.approx([200.0, 200.0, 200.0, 0.5])  # half way between the logarithms of 100 and 400
    spread = found[SPREAD, 0.25]
    assert spread["pairwise_equal"] == pytest.approx(100.0)
    assert (spread["pairwise_gain"], spread["pairwise_gain_se"]) == pytest.approx((-0.15, 0.05))
    assert [found[DISTANT, 0.25][f"pairwise_{name}"] for name in ("equal", "saved")] == pytest.approx([400.0, 0.75])
    assert "pairwise_equal" not in found[RANDOM, ALL]


def test_an_interval_is_as_wide_as_the_workloads_disagree() -> None:
    rows = [row(RANDOM, 0.25, 100, [0.5, 0.5]), row(RANDOM, ALL, 400, [0.7, 0.7]), row(HALF, 0.25, 100, [0.5, 0.7])]

    line = next(line for line in summary(rows) if line["strategy"] == HALF)

    found = [line[f"pairwise_{name}"] for name in ("low", "equal", "high")]
    assert found == pytest.approx([100.0, 200.0, 400.0])  # a quarter of the bootstraps has the first workload only


def test_a_random_curve_that_falls_by_chance_is_levelled_out() -> None:
    found = equal_programs(0.6, [100, 200, 400, 800], np.array([0.5, 0.7, 0.65, 0.8]))

    assert found == pytest.approx(100 * 2 ** (0.1 / 0.175))  # between 0.5 and the mean of 0.7 and 0.65


@pytest.fixture
def asked(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """Has the benchmark choose among made programs; returns the seeds for which it makes scores."""
    seeds: list[int] = []

    def scored(_: Sides, members: int, seed: int) -> Scores:
        seeds.append(seed)
        return SCORES[:members]

    monkeypatch.setattr(active_learning, "load_sides", lambda *_: sides())
    monkeypatch.setattr(active_learning, "member_scores", scored)
    monkeypatch.setitem(LEARNERS, "gbt", GridEntry("gbt", TILES, "log", {"rounds": 5}))
    return seeds


def test_an_interrupted_run_goes_on_with_the_rows_that_are_missing(asked: list[int], tmp_path: Path) -> None:
    path, kept = tmp_path / "active_learning.json", tmp_path / "rows.jsonl"
    results = []
    for each in range(3):
        if each == 2:
            lines = kept.read_text().splitlines(keepends=True)
            kept.write_text("".join([*lines[:2], *lines[3:]]))
        done = CliRunner().invoke(main, ["--quick", "--rows", str(kept), "--json", str(path)], catch_exceptions=False)
        assert done.exit_code == 0, done.output
        results.append(json.loads(path.read_text(encoding="utf-8")))

    assert asked == [0, 0], "nothing in the second run"
    assert len(kept.read_text().splitlines()) == 7  # three shares at random, and one by each other strategy
    first, again, after_loss = (result["summary"] for result in results)
    assert first == again == after_loss
    quarters = {line["strategy"]: line["programs"] for line in first if line["share"] == 0.25}
    assert quarters == dict.fromkeys(STRATEGIES, 18)
    assert (results[0]["workloads"], results[0]["pools"][0]["learned_devices"]) == (3, 2)
    assert f"| {HALF} | 25% | 18 |" in done.output
