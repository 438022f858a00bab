"""The child: its threads are set before TVM starts, and what goes wrong in a step is its answer."""

from __future__ import annotations

import os

import pytest

from costhub.collector.cpu_state import pick_cpus
from costhub.collector.probe.service import Setting, Step, handle
from costhub.worker import Worker


def test_the_child_computes_on_the_cores_it_was_given(target: str) -> None:
    if not hasattr(os, "sched_getaffinity"):
        pytest.skip("this system does not tell where a process runs")
    with Worker("costhub.collector.probe.service:handle") as worker:
        worker.call(Setting(target, "cpu", 1, 1 << 20), timeout_s=120)

        assert worker.pid is not None
        assert os.sched_getaffinity(worker.pid) == set(pick_cpus(1))
        for task in os.listdir(f"/proc/{worker.pid}/task"):
            assert os.sched_getaffinity(int(task)) == set(pick_cpus(1))


@pytest.mark.parametrize(
    "step",
    [
        Step("clock"),
        Step("overhead"),
        Step("peak", dtype="float32"),
        Step("peak", dtype="float32", workers=1),
        Step("bandwidth", bytes=64 << 10),
    ],
)
def test_each_step_is_answered_by_a_number(target: str, step: Step) -> None:
    answer = handle((Setting(target, "cpu", 1, 1 << 20), step, 0.0))

    assert answer is not None
    assert answer.value is not None
    assert answer.value > 0, answer.how


def test_what_a_target_cannot_do_is_an_answer() -> None:
    old = Setting('{"kind": "llvm", "mtriple": "x86_64-linux-gnu", "mcpu": "x86-64-v2"}', "cpu", 1, 1 << 20)

    answer = handle((old, Step("peak", dtype="bfloat16"), 0.0))

    assert answer is not None
    assert answer.value is None
    assert "bfloat16" in answer.how


def test_people_see_what_is_measured() -> None:
    assert Step("peak", dtype="int8").label == "peak int8"
    assert Step("peak", dtype="float32", workers=2).label == "peak float32, 2 threads"
    assert Step("bandwidth", bytes=8 << 10).label == "reading 8 KiB"
