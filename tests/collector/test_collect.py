"""A collection: half of it near the good end, resumable, and safe from kill -9."""

from __future__ import annotations

import random
import subprocess
import sys
from collections import Counter
from pathlib import Path

import pytest

from costhub.collector.builder import Builder
from costhub.collector.collect import Plan, Progress, collect
from costhub.collector.device import identify
from costhub.collector.row import Session
from costhub.collector.run_service import Evaluator
from costhub.collector.runner import Runner
from costhub.collector.suite import find_suites
from costhub.dataset.folder import DataFolder

CHILD = Path(__file__).with_name("collect_child.py")
EVALUATOR = Evaluator(repeat=1, min_repeat_ms=1)


def run(
    folder: DataFolder, target: str, builder: Builder, runner: Runner, trials: int, stop_after: int = 10**6
) -> Progress:
    import json

    session = Session(identify()["device_id"], json.loads(target), EVALUATOR, "test", "CC-BY-4.0", None)
    seen = 0

    def on_outcome(*_: object) -> None:
        nonlocal seen
        seen += 1
        if seen == stop_after:
            raise KeyboardInterrupt

    return collect(
        find_suites(["softmax.64x1000", "matmul.128x128x128"]),
        folder,
        session=session,
        trials=trials,
        budget_s=600,
        builder=builder,
        runner=runner,
        seed=1,
        on_outcome=on_outcome,
    )


@pytest.mark.slow
def test_an_interrupted_collection_goes_on_where_it_stopped(
    tmp_path: Path, target: str, builder: Builder, runner: Runner
) -> None:
    folder = DataFolder.create(tmp_path / "data")
    with pytest.raises(KeyboardInterrupt):
        run(folder, target, builder, runner, trials=48, stop_after=41)
    assert folder.measurements().num_rows == 41

    done = run(folder, target, builder, runner, trials=48)

    rows = folder.measurements().to_pylist()
    assert done.done == 96 - 41
    assert len({r["program_id"] for r in rows}) == len(rows) == 96
    assert set(Counter(r["workload_id"] for r in rows).values()) == {48}
    assert 0 < Counter(r["proposed_by"] for r in rows)["mutation"] <= 16
    networks = {row["name"]: row["networks"] for row in folder.workloads().to_pylist()}
    assert networks == {"softmax.64x1000": [], "matmul.128x128x128": [{"name": "bert-tiny", "weight": 8.0}]}
    assert run(folder, target, builder, runner, trials=48).done == 0


def test_the_first_programs_are_random_and_half_of_the_later_ones_are_mutations(target: str) -> None:
    from costhub.collector.sampler import Sampler

    workload = find_suites(["matmul.128x128x128"])[0]
    plan = Plan(workload, "w", Sampler(workload.module(), target, seed=1), 0, [])
    first = plan.propose(32)
    plan.attempts, plan.good = 32, [(1.0 + i, p.trace) for i, p in enumerate(first)]
    later = Counter(p.proposed_by for p in plan.propose(32))
    assert {p.proposed_by for p in first} == {"random"}
    assert later == {"random": 16, "mutation": 16}


def kill_collector(folder: Path, kills: int, seed: int) -> tuple[list[str], list[str]]:
    """Kills a collection `kills` times at random moments; returns (acknowledged, found) program ids."""
    rng = random.Random(seed)
    acknowledged: list[str] = []
    for _ in range(kills):
        with subprocess.Popen(
            [sys.executable, str(CHILD), str(folder), "5000"], stdout=subprocess.PIPE, text=True
        ) as child:
            assert child.stdout is not None
            wanted = rng.randint(0, 60)
            try:
                # Up to `wanted` rows, then a moment more, so that the kill falls into any of the steps:
                # building, running, writing, compacting.
                for _, line in zip(range(wanted), child.stdout, strict=False):
                    acknowledged.append(line.strip())
                child.wait(timeout=rng.uniform(0.0, 0.3))
            except subprocess.TimeoutExpired:
                pass
            child.kill()
            acknowledged += [line.strip() for line in child.stdout]
    rows = DataFolder.open(folder).measurements(columns=["program_id", "record_id"]).to_pylist()
    return acknowledged, [r["program_id"] for r in rows]


@pytest.mark.slow
def test_kill_9_loses_at_most_the_program_in_flight(tmp_path: Path) -> None:
    acknowledged, found = kill_collector(tmp_path / "data", kills=20, seed=0)

    assert len(found) == len(set(found)), "a measurement was doubled"
    assert set(acknowledged) <= set(found), "a measurement was lost"
    # A row may be written and the kill come before it was said.
    assert len(found) - len(acknowledged) <= 20
