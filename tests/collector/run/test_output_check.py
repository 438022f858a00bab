"""What a program computes is compared with the default program, in whatever layout its weights are."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest

from costhub.collector.build.builder import Builder
from costhub.collector.propose.sampler import Sampler
from costhub.collector.run.evaluator import Arguments
from costhub.collector.run.output_check import (
    REWRITES,
    ExpectedOutputs,
    default_program,
    longest_reduction,
    relaid,
    tolerance,
    unlike,
)
from costhub.collector.run.runner import Runner
from costhub.collector.workloads.suites import find_workload
from costhub.dataset.workload import module_from_json


def test_programs_compute_the_same_with_relaid_weights(target: str) -> None:
    import json

    import tvm
    from tvm.s_tir.transform import RemoveWeightLayoutRewriteBlock

    workload = find_workload("matmul.128x128x128").module()
    free = tvm.IRModule({"main": workload["main"].with_attr("layout_free_buffers", [1])})
    rng = np.random.default_rng(0)
    values = [rng.random((128, 128), dtype=np.float32) for _ in range(3)]
    changed = 0
    for program in Sampler(free, target, seed=1).random(4):
        shapes = [shape for _, shape in program.arguments]
        module = RemoveWeightLayoutRewriteBlock(skip_tensor_rewrite=True)(module_from_json(program.module_json))
        built = tvm.compile(module, target=tvm.target.Target(json.loads(target)))
        tensors = [tvm.runtime.tensor(v) for v in relaid(values, program.module_json, shapes)]
        built["main"](*tensors)
        np.testing.assert_allclose(tensors[2].numpy(), values[0] @ values[1], rtol=1e-4)
        changed += REWRITES in program.module_json
    assert changed


def test_without_a_rewrite_nothing_is_read() -> None:
    values = [np.ones(3)]
    assert relaid(values, "no module at all", [(3,)]) is values


def test_an_unknown_layout_is_refused() -> None:
    import tvm
    from tvm.script import tirx as T

    @T.prim_func(s_tir=True)
    def main(a: T.Buffer((8,), "float32"), b: T.Buffer((8,), "float32")) -> None:
        moved = T.sblock_alloc_buffer((8,))
        for i in T.grid(8):
            with T.sblock("moved"):
                v = T.axis.spatial(8, i)
                T.sblock_attr({"meta_schedule.layout_rewrite_preproc": True})
                moved[T.max(v, 0)] = a[v]
        for i in T.grid(8):
            with T.sblock("b"):
                v = T.axis.spatial(8, i)
                b[v] = moved[v]

    text = str(tvm.ir.save_json(tvm.IRModule({"main": main})))
    with pytest.raises(ValueError, match="Max"):
        relaid([np.ones(8), np.ones(8)], text, [(8,), (8,)])


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


SHAPES: Arguments = (("float32", (16, 32)), ("float32", (32, 8)), ("float32", (16, 8)))


def product(tensors: list[Any], change: Any = None) -> None:
    """A program: the last argument becomes the product of the others, or what `change` makes of it."""
    a, b, c = (tensor.numpy() for tensor in tensors)
    result = a @ b
    if change is not None:
        result = change(result, c)
    tensors[2].copyfrom(result)


@pytest.fixture
def expected() -> ExpectedOutputs:
    import tvm

    return ExpectedOutputs.of(product, SHAPES, tvm.cpu(), reduction=32)


def said(expected: ExpectedOutputs, call: Any) -> str | None:
    import tvm

    return expected.difference(call, SHAPES, None, tvm.cpu())


def test_what_a_program_changes_is_its_output(expected: ExpectedOutputs) -> None:
    assert set(expected.after) == {2}
    assert said(expected, product) is None


def test_rounding_is_no_difference(expected: ExpectedOutputs) -> None:
    assert said(expected, lambda t: product(t, lambda new, old: new * np.float32(1 + 1e-5))) is None


def poke(value: float) -> Any:
    def change(new: Any, old: Any) -> Any:
        new[3, 5] = value
        return new

    return change


@pytest.mark.parametrize("value", [0.0, math.nan, math.inf, -math.inf, 1e30])
def test_one_wrong_element_is_found(expected: ExpectedOutputs, value: float) -> None:
    assert "argument 2" in (said(expected, lambda t: product(t, poke(value))) or "")


def test_an_output_that_is_not_written_is_found(expected: ExpectedOutputs) -> None:
    # Another program has just left the right result there: it must not be mistaken for this one's.
    assert said(expected, product) is None
    assert said(expected, lambda tensors: None)
    assert said(expected, lambda t: product(t, lambda new, old: np.where(np.arange(8) < 4, new, old)))


def test_a_written_input_is_found(expected: ExpectedOutputs) -> None:
    def greedy(tensors: list[Any]) -> None:
        product(tensors)
        tensors[0].copyfrom(np.zeros((16, 32), np.float32))

    assert "is not an output" in (said(expected, greedy) or "")


def test_another_layout_without_its_description_cannot_be_compared(expected: ExpectedOutputs) -> None:
    import tvm

    other = (SHAPES[0], ("float32", (8, 32)), SHAPES[2])
    with pytest.raises(ValueError, match="layout"):
        expected.difference(product, other, None, tvm.cpu())


def test_infinities_that_belong_there_are_right() -> None:
    wanted = np.array([1.0, np.inf, -np.inf, np.nan])
    assert unlike(wanted.copy(), wanted, reduction=1, rounds=True) is None
    assert unlike(np.array([1.0, np.inf, np.inf, np.nan]), wanted, reduction=1, rounds=True)
    assert unlike(np.array([1.0, np.inf, -np.inf, 3.0]), wanted, reduction=1, rounds=True)


def test_where_terms_cancel_the_size_of_the_others_counts() -> None:
    wanted = np.array([1.0, 1.0, 1e-9], np.float32)
    assert unlike(np.array([1.0, 1.0, -1e-8], np.float32), wanted, reduction=1, rounds=True) is None


def test_integers_are_exact_unless_they_are_rounded() -> None:
    wanted = np.array([1, 2, 255], np.uint8)
    off = np.array([1, 3, 255], np.uint8)
    assert unlike(off, wanted, reduction=9, rounds=False)
    assert unlike(off, wanted, reduction=9, rounds=True) is None
    assert unlike(np.array([1, 4, 255], np.uint8), wanted, reduction=9, rounds=True)
    assert unlike(np.array([True]), np.array([False]), reduction=1, rounds=True)


def test_longer_sums_and_smaller_types_are_given_more_room() -> None:
    assert tolerance("float32", 1) < tolerance("float32", 10**6) < tolerance("float16", 10**4)
    assert tolerance("float16", 100) < tolerance("bfloat16", 100) <= 0.5
