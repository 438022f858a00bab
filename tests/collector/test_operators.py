"""Every operator of the suites builds, and belongs to a family."""

import pytest

from costhub.collector.operators import FAMILY, expression
from costhub.collector.suite import find_suites

SMALL = {"layer_norm": (4, 8), "rms_norm": (4, 8), "softmax": (4, 8), "norm": (1, 4, 8), "matmul": (4, 8, 16)}


@pytest.mark.parametrize("operator", sorted(SMALL))
def test_an_operator_computes_one_output(operator: str) -> None:
    tensors = expression(operator)(*SMALL[operator])
    assert len(tensors) >= 2


def test_every_operator_of_a_suite_has_a_family_and_an_expression() -> None:
    operators = {w.operator for w in find_suites(["all"])}
    assert operators <= set(FAMILY)
    assert all(callable(expression(o)) for o in operators)


def test_layer_norm_is_that_of_torch() -> None:
    import numpy as np
    import torch
    import tvm
    from tvm import te

    rng = np.random.default_rng(0)
    data, scale, shift = rng.random((4, 8), np.float32), rng.random(8, np.float32), rng.random(8, np.float32)
    built = tvm.compile(te.create_prim_func(expression("layer_norm")(4, 8)), target="llvm")
    out = tvm.runtime.tensor(np.zeros((4, 8), np.float32))
    built(*(tvm.runtime.tensor(a) for a in (data, scale, shift)), out)

    expected = torch.nn.functional.layer_norm(
        torch.from_numpy(data), (8,), torch.from_numpy(scale), torch.from_numpy(shift)
    )
    np.testing.assert_allclose(out.numpy(), expected.numpy(), rtol=1e-4, atol=1e-5)
