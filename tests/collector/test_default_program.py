"""A workload without a schedule: it builds, runs, and says how long its sums are."""

from __future__ import annotations

from costhub.collector.builder import Builder
from costhub.collector.default_program import default_program, longest_reduction
from costhub.collector.runner import Runner
from costhub.collector.suite import find_workload


def test_it_runs(target: str, builder: Builder, runner: Runner) -> None:
    default = default_program(find_workload("softmax.64x1000").module(), target)
    assert default.arguments == (("float32", (64, 1000)),) * 2
    assert default.reduction == 1000
    built = builder.build([default.module_json])[0]
    assert built.artifact is not None
    ran = runner.expected(built.artifact, default.arguments, reduction=default.reduction)
    assert ran.status == "ok"
    assert len(ran.run_s) == 1


def test_sums_over_several_axes_count_together() -> None:
    assert longest_reduction(find_workload("resnet18.c7").module()) == 3 * 3 * 128


def test_a_gpu_gets_threads() -> None:
    cuda = '{"kind": "cuda", "arch": "sm_80", "max_threads_per_block": 1024}'
    default = default_program(find_workload("matmul.128x128x128").module(), cuda)
    assert "blockIdx.x" in default.module_json
