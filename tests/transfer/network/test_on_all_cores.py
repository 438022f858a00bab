"""Kernels that no search sees: shared among the cores where that pays, and still computing the same."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from costhub.dataset.target import parse_target
from costhub.transfer.network.compile import SCHEDULED
from costhub.transfer.network.on_all_cores import LEAST_ELEMENTS, on_all_cores


def kernel(rows: int, columns: int, *, of: str = "exp") -> Any:
    import tvm
    from tvm import te, topi

    x = te.placeholder((rows, columns), name="x")
    y = {"exp": topi.exp, "softmax": topi.nn.softmax, "transpose": topi.transpose}[of](x)
    return tvm.IRModule({"main": te.create_prim_func([x, y])})


def run(mod: Any, target: Any, value: np.ndarray, shape: tuple[int, ...]) -> np.ndarray:
    import tvm

    out = tvm.runtime.tensor(np.zeros(shape, "float32"))
    tvm.compile(mod, target)(tvm.runtime.tensor(value), out)
    return np.asarray(out.numpy())


@pytest.mark.parametrize("of", ["exp", "softmax", "transpose"])
def test_a_large_kernel_runs_on_all_cores_and_computes_the_same(of: str, target: str) -> None:
    here, mod = parse_target(target), kernel(300, 200, of=of)
    value = np.random.default_rng(0).standard_normal((300, 200)).astype("float32")
    shape = (200, 300) if of == "transpose" else (300, 200)

    shared, count = on_all_cores(mod, here, SCHEDULED)

    assert count == 1
    assert "T.parallel" in shared["main"].script()
    assert "T.parallel" not in mod["main"].script()
    np.testing.assert_allclose(run(shared, here, value, shape), run(mod, here, value, shape), rtol=1e-6)


def test_a_small_one_stays_as_it_is(target: str) -> None:
    mod = kernel(1, LEAST_ELEMENTS - 1)

    assert on_all_cores(mod, parse_target(target), SCHEDULED) == (mod, 0)


def test_one_with_a_schedule_stays_as_it_is(target: str) -> None:
    import tvm

    mod = tvm.IRModule({"main": kernel(300, 200)["main"].with_attr(SCHEDULED, True)})

    assert on_all_cores(mod, parse_target(target), SCHEDULED) == (mod, 0)


def test_one_of_unknown_sizes_stays_as_it_is(target: str) -> None:
    import tvm
    from tvm import te, topi

    n = te.var("n")
    x = te.placeholder((n, 512), name="x")
    mod = tvm.IRModule({"main": te.create_prim_func([x, topi.exp(x)])})

    assert on_all_cores(mod, parse_target(target), SCHEDULED) == (mod, 0)
