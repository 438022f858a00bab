"""The reference kernel: a matrix product, parallel on a CPU and spread over a GPU."""

from __future__ import annotations

import statistics

import numpy as np
import pytest

from costhub.collector.run.evaluator import on_host
from costhub.collector.run.reference import ARGUMENTS, QUICK_CALLS, reference_module, time_reference


def test_it_is_a_matrix_product() -> None:
    import tvm

    a, b, c = (tvm.runtime.tensor(value) for value in on_host(ARGUMENTS))
    tvm.compile(reference_module("cpu"), target="llvm").mod["main"](a, b, c)
    np.testing.assert_allclose(c.numpy(), a.numpy() @ b.numpy(), rtol=1e-4)


@pytest.mark.parametrize(("kind", "loop"), [("cpu", "T.parallel"), ("cuda", "blockIdx.x")])
def test_it_uses_all_of_a_device(kind: str, loop: str) -> None:
    assert loop in reference_module(kind).script()


def test_both_forms_time_the_same_kernel(target: str) -> None:
    full = [statistics.median(time_reference("cpu", target, quick=False)) for _ in range(5)]
    quick = [statistics.median(time_reference("cpu", target, quick=True)) for _ in range(15)]
    assert len(time_reference("cpu", target, quick=True)) == QUICK_CALLS
    # The best of each: a neighbour's load lengthens some of them, by any factor.
    assert 0.2 < min(quick) / min(full) < 2.0
