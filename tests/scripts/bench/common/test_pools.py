"""Simulated searches: what is measured, in which order, and which knobs belong to which program."""

from __future__ import annotations

from pathlib import Path

import numpy as np

from costhub.dataset.folder import DataFolder
from costhub.dataset.load import load_programs
from costhub.dataset.programs import IntArray
from costhub.search.knobs import Knobs
from costhub.search.replay.strategies import GeneticOrder, RandomOrder
from costhub.testing import made_replay
from scripts.bench.common.data import DEVICE, small_folder
from scripts.bench.common.pools import asked_of, best_so_far, keep_order, knobs_of_workloads, search_pool


def test_every_program_is_measured_once_and_no_more_than_asked_for() -> None:
    chosen = search_pool(np.arange(20.0), keep_order, batch=8, trials=18, seed=0)

    assert len(chosen) == len(set(chosen.tolist())) == 18


def test_a_pool_that_is_used_up_ends_the_search() -> None:
    assert sorted(search_pool(np.arange(5.0), keep_order, batch=2, trials=64, seed=0).tolist()) == [0, 1, 2, 3, 4]


def test_equal_seeds_give_equal_first_batches_whatever_proposes_later() -> None:
    def reversed_later(chosen: IntArray, rest: IntArray) -> IntArray:
        return rest if not len(chosen) else rest[::-1]

    first, second = (
        search_pool(np.arange(30.0), propose, batch=8, trials=16, seed=3) for propose in (keep_order, reversed_later)
    )

    assert first[:8].tolist() == second[:8].tolist()
    assert first[8:].tolist() != second[8:].tolist()


def test_a_proposal_sees_what_was_measured_and_only_a_batch_of_it_is_taken() -> None:
    seen: list[tuple[int, int]] = []

    def propose(chosen: IntArray, rest: IntArray) -> IntArray:
        seen.append((len(chosen), len(rest)))
        return np.sort(rest)[::-1]

    chosen = search_pool(np.arange(10.0), propose, batch=4, trials=6, seed=0)

    assert seen == [(0, 10), (4, 6)]
    assert chosen.tolist() == [9, 8, 7, 6, 5, 4]


def test_the_best_so_far_never_falls() -> None:
    assert best_so_far(np.array([0.5, 1.0, 0.2]), np.array([0, 2, 1])).tolist() == [0.5, 0.5, 1.0]


def test_knobs_stand_in_the_order_of_the_programs(tmp_path: Path) -> None:
    folder = small_folder(tmp_path / "data")
    programs = load_programs(folder, device=DEVICE, spec="trace_decisions@1", progress=False)
    rows = DataFolder.open(folder).measurements(DEVICE, ["workload_id", "trace", "run_s"], "ok").to_pylist()

    for name in {programs.workload_ids[number] for number in np.unique(programs.workload)}:
        own = programs.of_workloads({name})
        found = knobs_of_workloads(folder, DEVICE, "trace_decisions@1", {name})[name]
        by_latency = {float(np.median(r["run_s"])): Knobs.read(r["trace"]) for r in rows if r["workload_id"] == name}
        assert found == [by_latency[latency] for latency in own.latency_s.tolist()]


def test_a_strategy_is_told_each_latency_once_and_asked_for_what_is_left() -> None:
    told: list[tuple[list[int], list[float]]] = []

    class Noting(RandomOrder):
        def tell(self, programs: IntArray, latency_s: np.ndarray) -> None:
            told.append((programs.tolist(), latency_s.tolist()))
            super().tell(programs, latency_s)

    workload = made_replay(side=4)
    propose = asked_of(Noting(workload.task, model=None, seed=0), workload.latency_s, batch=5)

    chosen = search_pool(1 / workload.latency_s, propose, batch=5, trials=12, seed=0)

    assert len(set(chosen.tolist())) == 12
    assert [programs for programs, _ in told] == [chosen[:5].tolist(), chosen[5:10].tolist()]
    assert told[0][1] == workload.latency_s[chosen[:5]].tolist()


def test_a_genetic_search_finds_better_programs_than_chance_where_knobs_matter_one_by_one() -> None:
    workload = made_replay(side=16)

    def mean_of_last(*, genetic: bool) -> float:
        lasts = []
        for seed in range(6):
            strategy = GeneticOrder(workload.task, model=None, seed=seed)
            propose = asked_of(strategy, workload.latency_s, batch=8) if genetic else keep_order
            chosen = search_pool(1 / workload.latency_s, propose, batch=8, trials=64, seed=seed)
            lasts.append(workload.best_s / workload.latency_s[chosen].min())
        return float(np.mean(lasts))

    assert mean_of_last(genetic=True) > 1.2 * mean_of_last(genetic=False)
