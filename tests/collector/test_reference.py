"""The reference kernel: a matrix product, parallel on a CPU and spread over a GPU."""

from __future__ import annotations

import numpy as np
import pytest

from costhub.collector.arguments import on_host
from costhub.collector.reference import ARGUMENTS, reference_module


def test_it_is_a_matrix_product() -> None:
    import tvm

    a, b, c = (tvm.runtime.tensor(value) for value in on_host(ARGUMENTS))
    tvm.compile(reference_module("cpu"), target="llvm").mod["main"](a, b, c)
    np.testing.assert_allclose(c.numpy(), a.numpy() @ b.numpy(), rtol=1e-4)


@pytest.mark.parametrize(("kind", "loop"), [("cpu", "T.parallel"), ("cuda", "blockIdx.x")])
def test_it_uses_all_of_a_device(kind: str, loop: str) -> None:
    assert loop in reference_module(kind).script()
