"""Kernels that no search sees: on all cores where that pays, on GPUs always in threads, still computing the same."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from costhub.collector.workloads.network_source import read_network
from costhub.collector.workloads.relax_import import fuse
from costhub.dataset.workload import parse_target
from costhub.search.whole_network.default_schedules import (
    MIN_ELEMENTS,
    SCHEDULED,
    schedule_untuned,
    scheduled_kernels,
)

GPU = '{"kind": "cuda", "arch": "%s", "max_threads_per_block": 1024, "max_shared_memory_per_block": 49152}'


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

    shared, count = schedule_untuned(mod, here)

    assert count == 1
    assert "T.parallel" in shared["main"].script()
    assert "T.parallel" not in mod["main"].script()
    np.testing.assert_allclose(run(shared, here, value, shape), run(mod, here, value, shape), rtol=1e-6)


def test_a_small_one_stays_as_it_is(target: str) -> None:
    mod = kernel(1, MIN_ELEMENTS - 1)

    assert schedule_untuned(mod, parse_target(target)) == (mod, 0)


def test_one_with_a_schedule_stays_as_it_is(target: str) -> None:
    import tvm

    mod = tvm.IRModule({"main": kernel(300, 200)["main"].with_attr(SCHEDULED, True)})

    assert schedule_untuned(mod, parse_target(target)) == (mod, 0)


def test_one_of_unknown_sizes_stays_as_it_is(target: str) -> None:
    import tvm
    from tvm import te, topi

    n = te.var("n")
    x = te.placeholder((n, 512), name="x")
    mod = tvm.IRModule({"main": te.create_prim_func([x, topi.exp(x)])})

    assert schedule_untuned(mod, parse_target(target)) == (mod, 0)


@pytest.mark.parametrize("of", ["exp", "softmax", "transpose"])
def test_on_a_gpu_even_a_small_kernel_runs_in_threads(of: str) -> None:
    mod = kernel(3, 5, of=of)

    scheduled, count = schedule_untuned(mod, parse_target(GPU % "sm_80"))

    assert count == 1
    assert scheduled_kernels(scheduled) == ("main",)
    assert 'thread="threadIdx.x"' in scheduled["main"].script()


def test_on_a_gpu_a_schedule_of_the_search_stays() -> None:
    import tvm

    mod = tvm.IRModule({"main": kernel(300, 200)["main"].with_attr(SCHEDULED, True)})

    scheduled, count = schedule_untuned(mod, parse_target(GPU % "sm_80"))

    assert count == 0
    assert "threadIdx" not in scheduled["main"].script()


@pytest.mark.slow
def test_all_kernels_of_a_network_get_a_schedule_for_a_gpu() -> None:
    target = parse_target(GPU % "sm_90")
    mod = fuse(read_network("bert_tiny", device="meta").mod, target)
    names = {v.name_hint for v, f in mod.functions.items() if type(f).__name__ == "PrimFunc"}

    scheduled, count = schedule_untuned(mod, target)

    assert count == len(names)
    assert set(scheduled_kernels(scheduled)) == names
