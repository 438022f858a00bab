"""The probe from outside: numbers with how they were taken, or a sentence."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

import pytest

from costhub.collector.device.cpu_state import ONE_CPU_PER_THREAD, pick_cpus, tvm_threads
from costhub.collector.device.local import local_target
from costhub.collector.probe.probe import PASSES, PEAK_COLUMNS, better, describe_method, probe
from costhub.collector.probe.steps import ProbeAnswer, ProbeSetting, ProbeStep, prepare_probe, take_step
from costhub.dataset.schema import PROBED, table_from_rows
from costhub.errors import MeasureError
from costhub.isolation.child import Child


def test_instructions_the_clock_and_what_is_missing_are_named() -> None:
    text = describe_method(
        ProbeSetting("{}", "cpu", 2, 1 << 20),
        {
            ProbeStep("peak", dtype="float32"): ProbeAnswer(100.0, "vfmadd231ps zmm"),
            ProbeStep("peak", dtype="float16"): ProbeAnswer(None, "the target has none"),
            ProbeStep("clock"): ProbeAnswer(4.256),
            ProbeStep("overhead"): ProbeAnswer(None, "killed"),
            ProbeStep("bandwidth", bytes=8192): ProbeAnswer(50.0, bytes=8192),
        },
    )

    assert "Threads: 2." in text
    assert "4.26 GHz" in text
    assert "float32: vfmadd231ps zmm." in text
    assert "float16: the target has none." in text
    assert "Not measured: overhead (killed)." in text
    assert "8 KiB" not in text


SMALL = {"device_id": "here", "kind": "cpu", "cores": 2, "l1d_bytes": 32 << 10, "memory_bytes": 4 << 20}
RUNGS = 8  # 8 KiB to a quarter of that memory


@pytest.mark.slow
def test_a_device_is_probed_in_a_known_number_of_steps(target: str) -> None:
    steps: list[tuple[str, int, int]] = []

    row = probe(target, device=SMALL, threads=2, budget_s=0.0, on_step=lambda *step: steps.append(step))

    assert set(row) == set(PROBED)
    assert table_from_rows("devices", [{**SMALL, **row}]).num_rows == 1
    assert row["peak_gflops"] > 0
    assert row["l1_gbs"] == max(r["gbs"] for r in row["bandwidth_ladder"] if r["bytes"] <= 48 << 10)
    assert row["l2_gbs"] is None
    assert len(row["bandwidth_ladder"]) == RUNGS
    assert row["thread_scaling"][0] == 1.0
    assert len(row["thread_scaling"]) == 2
    assert 0 < row["launch_overhead_us"] < 10_000
    # No time at all: the second pass is gone through without measuring.
    total = PASSES * (len(PEAK_COLUMNS) + 2 + 2 + RUNGS)
    assert [done for _, done, _ in steps] == list(range(1, total + 1))
    assert {of for _, _, of in steps} == {total}


def test_instructions_that_the_cpu_does_not_have_cost_their_own_figure(target: str) -> None:
    made = json.loads(target)
    info = Path("/proc/cpuinfo")
    flags = info.read_text().split() if info.exists() else []
    if "avx512f" not in flags or "avx512_fp16" in flags:
        pytest.skip("needs a CPU with AVX-512 that does not compute in float16")

    row = probe({**made, "mcpu": "sapphirerapids"}, device=SMALL, threads=1, budget_s=0.0)

    assert row["peak_gflops_float16"] is None
    assert "float16: the child process ended (killed by SIGILL)" in row["probe_method"]
    assert row["peak_gops_int8"] > 0
    assert row["dram_gbs"] > 0


@pytest.mark.slow
def test_a_device_that_cannot_run_the_first_kernel_is_a_sentence(target: str) -> None:
    triple = "x86_64-linux-gnu" if "aarch64" in target else "aarch64-linux-gnu"

    with pytest.raises(MeasureError, match=r"The probe's peak float32 does not run on this cpu: .*architecture"):
        probe({"kind": "llvm", "mtriple": triple}, device=SMALL, threads=1, budget_s=0.0)


def test_the_less_disturbed_answer_counts() -> None:
    peak, overhead = ProbeStep("peak", dtype="float32"), ProbeStep("overhead")

    assert better(ProbeAnswer(1.0), ProbeAnswer(2.0), peak).value == 2.0
    assert better(ProbeAnswer(1.0), ProbeAnswer(2.0), overhead).value == 1.0
    assert better(ProbeAnswer(1.0), ProbeAnswer(None, "killed"), peak).value == 1.0
    assert better(None, ProbeAnswer(None, "killed"), peak).value is None


def test_a_gpu_is_probed_by_the_same_steps() -> None:
    import tvm

    if not tvm.cuda(0).exist:
        pytest.skip("needs a CUDA GPU")
    row = probe(local_target("cuda"), device_kind="cuda", budget_s=5.0)

    assert row["peak_gflops"] > row["peak_gflops_float64"] > 1
    assert row["peak_gflops_float16"] > row["peak_gflops"] / 2
    assert row["dram_gbs"] > 10
    assert row["thread_scaling"] is None
    assert row["governor"] is None


def test_the_child_computes_on_the_cores_it_was_given(target: str) -> None:
    if not hasattr(os, "sched_getaffinity"):
        pytest.skip("this system does not tell where a process runs")
    with Child(environment=tvm_threads(1), is_shared=False) as child:
        child.call(prepare_probe, ProbeSetting(target, "cpu", 1, 1 << 20), timeout_s=120)

        assert child.pid is not None
        assert os.sched_getaffinity(child.pid) == set(pick_cpus(1))
        for task in os.listdir(f"/proc/{child.pid}/task"):
            assert os.sched_getaffinity(int(task)) == set(pick_cpus(1))


def test_tvms_own_threads_are_bound_to_those_cores(target: str, monkeypatch: pytest.MonkeyPatch) -> None:
    bound: list[Any] = []
    monkeypatch.setattr("costhub.collector.run.runner.use_cpus", bound.append)
    monkeypatch.setattr("tvm.get_global_func", lambda name: lambda *arguments: bound.append((name, *arguments)))
    threads = min(2, len(pick_cpus(2)))

    prepare_probe(ProbeSetting(target, "cpu", threads, 1 << 20))

    cpus = pick_cpus(threads)
    assert bound == [cpus, ("runtime.config_threadpool", ONE_CPU_PER_THREAD, threads, [str(cpu) for cpu in cpus])]


@pytest.mark.parametrize(
    "step",
    [
        ProbeStep("clock"),
        ProbeStep("overhead"),
        ProbeStep("peak", dtype="float32"),
        ProbeStep("peak", dtype="float32", workers=1),
        ProbeStep("bandwidth", bytes=64 << 10),
    ],
)
def test_each_step_is_answered_by_a_number(target: str, step: ProbeStep) -> None:
    answer = take_step(ProbeSetting(target, "cpu", 1, 1 << 20), step, 0.0)

    assert answer.value is not None
    assert answer.value > 0, answer.how


def test_what_a_target_cannot_do_is_an_answer() -> None:
    old = ProbeSetting('{"kind": "llvm", "mtriple": "x86_64-linux-gnu", "mcpu": "x86-64-v2"}', "cpu", 1, 1 << 20)

    answer = take_step(old, ProbeStep("peak", dtype="bfloat16"), 0.0)

    assert answer.value is None
    assert "bfloat16" in answer.how


def test_people_see_what_is_measured() -> None:
    assert ProbeStep("peak", dtype="int8").label == "peak int8"
    assert ProbeStep("peak", dtype="float32", workers=2).label == "peak float32, 2 threads"
    assert ProbeStep("bandwidth", bytes=8 << 10).label == "reading 8 KiB"
