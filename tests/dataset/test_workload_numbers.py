"""Workloads in numbers: loops, buffers and calls, whatever the names."""

from __future__ import annotations

import numpy as np
import pytest

from costhub.collector.workloads.suites import find_suites
from costhub.dataset.workload_numbers import NAMES, workload_numbers


def of(name: str) -> dict[str, float]:
    (workload,) = find_suites([name])
    return dict(zip(NAMES, workload_numbers(workload.module()).tolist(), strict=True))


def test_a_product_of_matrices() -> None:
    found = of("matmul.512x512x512")

    assert found["flop"] == 28.0  # 2 * 512 ** 3
    assert (found["spatial"], found["reduction"]) == (18.0, 9.0)
    assert (found["spatial_outermost"], found["spatial_innermost"], found["reduction_innermost"]) == (9.0, 9.0, 9.0)
    assert found["input_bytes"] == 21.0  # two of a MiB
    assert found["output_bytes"] == 20.0
    assert (found["between_bytes"], found["blocks"], found["arguments"]) == (0.0, 1.0, 3.0)
    assert found["flop_per_step"] == 1.0
    assert found["is_matmul"] == 1.0


def test_a_convolution_has_a_window_and_a_padded_input() -> None:
    found = of("resnet18.c7")

    assert found["window"] == pytest.approx(np.log2(9))
    assert found["between_bytes"] > 0
    assert found["is_conv"] == 1.0
    assert found["calls"] == 0.0  # a guarded border calls nothing


def test_a_softmax_calls_exp_and_its_steps_are_several() -> None:
    found = of("softmax.512x512")

    assert found["calls"] > 0
    assert found["work_of_others"] > 0
    assert found["is_softmax"] == 1.0


def test_twos_count_how_often_lengths_can_be_halved() -> None:
    import tvm
    from tvm import te

    source = te.placeholder((3, 12), name="A")
    function = te.create_prim_func([source, te.compute((3, 12), lambda i, j: source[i, j] + 1.0, name="B")])
    numbers = workload_numbers(tvm.IRModule({"main": function.with_attr("global_symbol", "main")}))
    found = dict(zip(NAMES, numbers.tolist(), strict=True))
    assert (found["innermost_twos"], found["spatial_twos"]) == (2.0, 2.0)
    assert (found["reduction_loops"], found["reduction"]) == (1.0, 0.0)
    assert found["flop"] == pytest.approx(np.log2(36))
