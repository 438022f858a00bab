"""The probe from outside: numbers with how they were taken, or a sentence."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from costhub.collector.probe.probe import COLUMNS, PASSES, PEAK_COLUMNS, better, probe
from costhub.collector.probe.service import Answer, Step
from costhub.collector.target import local_target
from costhub.dataset.schema import table_from_rows
from costhub.errors import MeasureError

SMALL = {"device_id": "here", "kind": "cpu", "cores": 2, "l1d_bytes": 32 << 10, "memory_bytes": 4 << 20}
RUNGS = 8  # 8 KiB to a quarter of that memory


def test_a_device_is_probed_in_a_known_number_of_steps(target: str) -> None:
    steps: list[tuple[str, int, int]] = []

    row = probe(target, device=SMALL, threads=2, budget_s=0.0, on_step=lambda *step: steps.append(step))

    assert set(row) == set(COLUMNS)
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


def test_a_device_that_cannot_run_the_first_kernel_is_a_sentence(target: str) -> None:
    triple = "x86_64-linux-gnu" if "aarch64" in target else "aarch64-linux-gnu"

    with pytest.raises(
        MeasureError, match=r"The probe's peak float32 does not run on this cpu: .*architecture"
    ):
        probe({"kind": "llvm", "mtriple": triple}, device=SMALL, threads=1, budget_s=0.0)


def test_the_less_disturbed_answer_counts() -> None:
    peak, overhead = Step("peak", dtype="float32"), Step("overhead")

    assert better(Answer(1.0), Answer(2.0), peak).value == 2.0
    assert better(Answer(1.0), Answer(2.0), overhead).value == 1.0
    assert better(Answer(1.0), Answer(None, "killed"), peak).value == 1.0
    assert better(None, Answer(None, "killed"), peak).value is None


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
