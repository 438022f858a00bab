"""A collection: half of it near the good end, resumable, safe from kill -9, with an account of its time."""

from __future__ import annotations

import itertools
import json
import random
import subprocess
import sys
import time
from collections import Counter
from pathlib import Path
from types import SimpleNamespace

import pytest

from costhub.collector.build.builder import Builder, BuildResult, BuildSeconds
from costhub.collector.collect import CollectionProgress, Profile, Proposals, collect
from costhub.collector.device.identity import identify
from costhub.collector.measurer import LocalMeasurer, MeasuredDevice, MeasureResult
from costhub.collector.propose.sampler import RANDOM_FIRST
from costhub.collector.run.drift_monitor import DriftSeconds, MachineState
from costhub.collector.run.evaluator import Evaluator
from costhub.collector.run.runner import Runner, RunResult
from costhub.collector.session import Rights
from costhub.collector.workloads.suites import find_suites
from costhub.dataset.folder import DataFolder

BUILT = BuildResult("ok", "a.so", 0.6, None, BuildSeconds(lower=0.2, llvm=0.3, link=0.1))
RESULT = MeasureResult(BUILT, RunResult("ok", (1e-3,), 0.25, None), MachineState(0.0, 1e-3, 0.0), "d")


def test_all_core_seconds_are_accounted_for() -> None:
    profile = Profile(cores=2)
    taken = iter([DriftSeconds(1.0, 2.0, 3.0), DriftSeconds(1.5, 2.25, 3.0)])
    with profile.sampling():
        sum(range(200_000))
    with profile.watching(lambda: next(taken)):
        profile.note(RESULT, is_first=True)
    profile.stop()

    assert sum(profile.seconds.values()) == pytest.approx(2 * profile.wall_s)
    assert profile.seconds["sample"] > 0
    assert profile.seconds["run"] == 0.5, "no other core may work while a program is timed"
    watching = {stage: profile.seconds[stage] for stage in ("reference", "wait", "repeat")}
    assert watching == {"reference": 1.0, "wait": 0.5, "repeat": 0.0}, "what the block took, on both cores"


def test_a_build_that_devices_share_is_counted_once() -> None:
    profile = Profile(cores=2)
    profile.note(RESULT, is_first=True)
    profile.note(RESULT, is_first=False)
    profile.stop()

    assert (profile.programs, profile.good) == (1, 2)
    assert profile.seconds["llvm"] == 0.3
    assert profile.floor_s == pytest.approx(0.3 / 2 + 0.25 * 2)


def test_a_profile_without_cores_has_figures_all_the_same() -> None:
    """Of a collection on a cluster, whose workers account for themselves."""
    figures = Profile(0).as_dict()

    assert (figures["floor_s"], figures["floor_share"]) == (0.0, 0.0)


CHILD = Path(__file__).with_name("collect_child.py")
EVALUATOR = Evaluator(repeat=1, min_repeat_ms=1)
DEVICE = identify()["device_id"]


def run(
    folder: DataFolder,
    target: str,
    builder: Builder,
    runners: dict[str, Runner],
    trials: int,
    stop_after: int = 10**6,
) -> CollectionProgress:
    devices = [MeasuredDevice({"device_id": device_id}, json.loads(target)) for device_id in runners]
    seen = 0

    def on_row(*_: object) -> None:
        nonlocal seen
        seen += 1
        if seen == stop_after:
            raise KeyboardInterrupt

    return collect(
        find_suites(["softmax.64x1000", "matmul.128x128x128"]),
        folder,
        measurer=LocalMeasurer(devices, builder, list(runners.values())),
        rights=Rights("test"),
        proposals=Proposals(trials, seed=1),
        budget_s=600,
        on_row=on_row,
    )


@pytest.mark.slow
def test_an_interrupted_collection_goes_on_where_it_stopped(
    tmp_path: Path, target: str, builder: Builder, runner: Runner
) -> None:
    folder = DataFolder.create(tmp_path / "data")
    with pytest.raises(KeyboardInterrupt):
        run(folder, target, builder, {DEVICE: runner}, trials=48, stop_after=41)
    assert folder.measurements().num_rows == 41

    done = run(folder, target, builder, {DEVICE: runner}, trials=48)

    rows = folder.measurements().to_pylist()
    assert done.done == 96 - 41
    assert len({r["program_id"] for r in rows}) == len(rows) == 96
    assert set(Counter(r["workload_id"] for r in rows).values()) == {48}
    mutations = Counter(r["workload_id"] for r in rows if r["proposed_by"] == "mutation")
    assert mutations
    assert max(mutations.values()) <= (48 - RANDOM_FIRST) / 2
    networks = {row["name"]: row["networks"] for row in folder.workloads().to_pylist()}
    assert networks == {"softmax.64x1000": [], "matmul.128x128x128": [{"name": "bert-tiny", "weight": 8.0}]}
    assert run(folder, target, builder, {DEVICE: runner}, trials=48).done == 0


def test_an_interrupted_batch_leaves_no_file(tmp_path: Path, target: str, builder: Builder, runner: Runner) -> None:
    folder = DataFolder.create(tmp_path / "data")
    before = set(builder._scratch.path.rglob("*"))

    with pytest.raises(KeyboardInterrupt):
        run(folder, target, builder, {DEVICE: runner}, trials=2, stop_after=2)

    assert set(builder._scratch.path.rglob("*")) == before
    assert folder.measurements().num_rows == 2


def test_a_batch_that_the_budget_cuts_short_leaves_the_collection_incomplete(
    tmp_path: Path, target: str, builder: Builder, runner: Runner, monkeypatch: pytest.MonkeyPatch
) -> None:
    rows: list[object] = []
    late = SimpleNamespace(monotonic=lambda: time.monotonic() + 1e6 * bool(rows), thread_time=time.thread_time)
    monkeypatch.setattr("costhub.collector.collect.time", late)

    done = collect(
        find_suites(["softmax.64x1000"]),
        DataFolder.create(tmp_path / "data"),
        measurer=LocalMeasurer([MeasuredDevice({"device_id": DEVICE}, json.loads(target))], builder, [runner]),
        rights=Rights("test"),
        proposals=Proposals(2, seed=1),
        budget_s=600,
        on_row=lambda *each: rows.append(each),
    )

    assert (done.done, done.is_complete) == (1, False)


@pytest.mark.slow
def test_devices_that_share_builds_have_a_row_each(
    tmp_path: Path, target: str, builder: Builder, runner: Runner
) -> None:
    folder = DataFolder.create(tmp_path / "data")
    with Runner(target, threads=1, evaluator=EVALUATOR) as single:
        done = run(folder, target, builder, {DEVICE: runner, "single": single}, trials=5)

    assert done.good == 20
    assert done.profile.programs == 10
    assert 0 < done.profile.seconds["reference"] < done.profile.cores * done.profile.wall_s
    programs = [
        set(folder.measurements(d, columns=["program_id"])["program_id"].to_pylist()) for d in (DEVICE, "single")
    ]
    assert programs[0] == programs[1]
    assert len(programs[0]) == 10


def test_a_program_that_cannot_be_built_is_a_row_and_the_others_go_on(
    tmp_path: Path, target: str, builder: Builder, runner: Runner, monkeypatch: pytest.MonkeyPatch
) -> None:
    submit = builder.submit
    number = itertools.count()
    monkeypatch.setattr(builder, "submit", lambda module: submit("no module" if next(number) == 3 else module))
    folder = DataFolder.create(tmp_path / "data")
    before = set(builder._scratch.path.rglob("*"))

    done = run(folder, target, builder, {DEVICE: runner}, trials=4)

    assert (done.good, done.failed) == (7, 1)
    assert set(builder._scratch.path.rglob("*")) == before, "no library stays"
    assert sorted(folder.measurements(columns=["status"])["status"].to_pylist()) == ["build_error"] + ["ok"] * 7


@pytest.mark.slow
def test_a_default_program_that_cannot_be_built_is_built_once(
    tmp_path: Path, target: str, builder: Builder, runner: Runner, monkeypatch: pytest.MonkeyPatch
) -> None:
    tried: list[str] = []
    build = builder.build

    def broken(modules: list[str]) -> list[BuildResult]:
        tried.extend(modules)
        return build(["no module"] * len(modules))

    monkeypatch.setattr(builder, "build", broken)
    done = collect(
        find_suites(["softmax.64x1000"]),
        DataFolder.create(tmp_path / "data"),
        measurer=LocalMeasurer([MeasuredDevice({"device_id": DEVICE}, json.loads(target))], builder, [runner]),
        rights=Rights("test"),
        proposals=Proposals(3, seed=1, check_outputs=True),
        budget_s=600,
        on_row=lambda *_: None,
    )

    assert (done.done, len(tried)) == (3, 1)


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

    assert len(acknowledged) > 20
    assert len(found) == len(set(found)), "a measurement was doubled"
    assert set(acknowledged) <= set(found), "a measurement was lost"
    # A row may be written and the kill come before it was said.
    assert len(found) - len(acknowledged) <= 20
