"""One workload under collection: what comes next, and what a folder held before."""

from __future__ import annotations

import json
import os
import signal
import weakref
from collections import Counter
from pathlib import Path
from typing import Any

import pytest

from costhub.collector.propose.sampler import Sampler, Shares
from costhub.collector.workload_queue import QueuedWorkload, make_queue, next_workload, put_workloads
from costhub.collector.workloads.suites import SuiteWorkload, find_suites
from costhub.dataset.folder import DataFolder
from costhub.errors import WorkloadError
from costhub.isolation.child import Child, ChildDied


def queue(workloads: list[SuiteWorkload], folder: DataFolder, target: str) -> list[QueuedWorkload]:
    how = {"device_id": "d", "target": json.loads(target)}
    return make_queue(workloads, folder, **how, open_sampler=Sampler, space="default", seed=0)


def plan_of(name: str, target: str) -> QueuedWorkload:
    workload = find_suites([name])[0]
    return QueuedWorkload(workload, "w", lambda: Sampler(workload.module(), target, seed=1), 0, [])


def test_the_first_programs_are_random_and_half_of_the_later_ones_are_mutations(target: str) -> None:
    plan = plan_of("matmul.128x128x128", target)
    first = plan.propose(16, shares=Shares(), scorer=None)
    plan.good = [(1.0 + i, p.trace) for i, p in enumerate(first)]
    later = Counter(p.proposed_by for p in plan.propose(32, shares=Shares(), scorer=None))
    assert {p.proposed_by for p in first} == {"random"}
    assert later == {"random": 16, "mutation": 16}
    assert plan.attempts == 48
    assert plan.best_us == 1e6


def test_a_workload_frees_its_design_space_and_can_make_it_again(target: str) -> None:
    plan = plan_of("softmax.64x1000", target)
    first = plan.propose(4, shares=Shares(random=1, mutation=0), scorer=None)
    held = weakref.ref(plan.sampler)
    plan.forget_sampler()

    assert held() is None
    again = plan.propose(4, shares=Shares(random=1, mutation=0), scorer=None)
    assert [p.program_id for p in again] == [p.program_id for p in first]


def test_the_least_measured_workload_is_next_until_all_have_their_trials(target: str) -> None:
    plans = [plan_of("softmax.64x1000", target), plan_of("matmul.128x128x128", target)]
    plans[0].attempts = 3
    assert next_workload(plans, 4) is plans[1]
    plans[1].exhausted = True
    assert next_workload(plans, 4) is plans[0]
    plans[0].attempts = 4
    assert next_workload(plans, 4) is None


def test_a_workload_that_two_sources_know_is_planned_once_with_the_networks_of_both(
    tmp_path: Path, target: str
) -> None:
    workload = find_suites(["matmul.128x128x128"])[0]
    other = SuiteWorkload("mine.matmul", workload.operator, workload.sizes, (("my-net", 2.0),))
    folder = DataFolder.create(tmp_path / "data")

    with folder.writer("d"):
        plans = queue([workload, other], folder, target)

    assert [plan.spec.name for plan in plans] == ["matmul.128x128x128"]
    (row,) = folder.workloads().to_pylist()
    assert {n["name"]: n["weight"] for n in row["networks"]} == {**dict(workload.networks), "my-net": 2.0}


def test_networks_of_an_earlier_collection_are_kept(tmp_path: Path, target: str) -> None:
    workload = find_suites(["matmul.128x128x128"])[0]
    folder = DataFolder.create(tmp_path / "data")

    with folder.writer("d"):
        for networks in ((("one-net", 1.0), ("both", 1.0)), (("other-net", 2.0), ("both", 3.0))):
            subject = SuiteWorkload("mine.matmul", workload.operator, workload.sizes, networks)
            queue([subject], folder, target)

    (row,) = folder.workloads().to_pylist()
    assert {n["name"]: n["weight"] for n in row["networks"]} == {
        "one-net": 1.0,
        "other-net": 2.0,
        "both": 3.0,
    }


def test_a_workload_that_cannot_be_scheduled_is_given_up_with_a_reason(target: str) -> None:
    def fail() -> Sampler:
        raise WorkloadError("no space for it")

    plan = QueuedWorkload(find_suites(["softmax.64x1000"])[0], "w", fail, 0, [])
    assert plan.propose(4, shares=Shares(), scorer=None) == []
    assert plan.exhausted
    assert plan.problem == "no space for it"


def test_a_workload_of_which_tvm_rejects_every_draw_is_given_up_with_a_reason() -> None:
    class Nothing:
        def propose(self, *_: Any, **__: Any) -> list[Any]:
            return []

    plan = QueuedWorkload(find_suites(["softmax.64x1000"])[0], "w", Nothing, 0, [])  # type: ignore[arg-type]
    exhausted = QueuedWorkload(find_suites(["softmax.64x1000"])[0], "w", Nothing, 7, [])  # type: ignore[arg-type]

    for each in (plan, exhausted):
        assert each.propose(4, shares=Shares(), scorer=None) == []
    assert plan.problem == "TVM rejected every program drawn from the design space of this workload."
    assert exhausted.problem is None


@pytest.mark.slow
def test_rows_of_a_folder_are_parents_only_if_a_child_can_replay_them(target: str) -> None:
    """Somebody else may have written them; TVM crashes on some traces."""
    plan = plan_of("matmul.128x128x128", target)
    first = plan.propose(16, shares=Shares(), scorer=None)
    good = first[0].trace
    imports = json.loads(good)
    imports[0].append(["Annotate", [imports[0][1][3][0], '"x"'], ["pragma_import_llvm"], []])
    endless = f"[{json.dumps(json.loads(good)[0])}, [[1e999, 4]]]"
    plan.unchecked = [(0.1, json.dumps(imports)), (0.2, "[" * 50_000), (0.25, endless), (0.3, good)]
    assert plan.best_us == 0.1 * 1e6

    later = Counter(p.proposed_by for p in plan.propose(8, shares=Shares(), scorer=None))

    assert plan.good == [(0.3, good)]
    assert not plan.unchecked
    assert later["mutation"] > 0


def test_a_row_that_kills_tvm_costs_the_parents_only(target: str, monkeypatch: pytest.MonkeyPatch) -> None:
    def die(self: Child, *_: object, **__: object) -> None:
        self.start()
        os.kill(self.pid or 0, signal.SIGKILL)
        raise ChildDied("killed by SIGKILL")

    monkeypatch.setattr(Child, "call", die)
    plan = plan_of("matmul.128x128x128", target)
    plan.unchecked = [(0.1, "x")]

    assert len(plan.propose(4, shares=Shares(), scorer=None)) == 4
    assert plan.good == []


def test_networks_that_another_collection_writes_meanwhile_are_kept(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    workload = find_suites(["matmul.128x128x128"])[0]
    mine, other = (SuiteWorkload("m", workload.operator, workload.sizes, ((net, 1.0),)) for net in ("mine", "other"))
    folder = DataFolder.create(tmp_path / "data")
    module = SuiteWorkload.module

    def slow(self: SuiteWorkload) -> object:
        if self is mine:
            put_workloads([other], folder)
        return module(self)

    monkeypatch.setattr(SuiteWorkload, "module", slow)
    put_workloads([mine], folder)

    (row,) = folder.workloads().to_pylist()
    assert {network["name"] for network in row["networks"]} == {"mine", "other"}


@pytest.mark.parametrize("run_s", [None, []])
def test_a_good_row_without_latencies_is_no_parent(
    tmp_path: Path, target: str, run_s: list[float] | None, monkeypatch: pytest.MonkeyPatch
) -> None:
    """`costhub check` refuses such a row; another tool may have written it."""
    workload = find_suites(["matmul.128x128x128"])[0]
    key = put_workloads([workload], folder := DataFolder.create(tmp_path / "data"))[0][0]
    row = {"program_id": "p", "status": "ok", "run_s": run_s, "trace": "[]", "space": "default"}
    monkeypatch.setattr("costhub.collector.workload_queue._measured", lambda *_: {key: [row]})

    (plan,) = queue([workload], folder, target)

    assert (plan.attempts, plan.unchecked, plan.best_us) == (1, [], None)
