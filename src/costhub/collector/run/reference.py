"""Provides reference_module and time_reference: the kernel whose drift shows whether a device has changed."""

from __future__ import annotations

from collections.abc import Callable
from functools import cache
from typing import Any

from costhub.collector.run.evaluator import on_device

SIZE = 256
ARGUMENTS = (("float32", (SIZE, SIZE)),) * 3
QUICK_CALLS = 3
ReferenceCalls = Callable[[], tuple[float, ...]]


def reference_module(device_kind: str) -> Any:
    """A fixed, parallel 256 x 256 matrix product as a ``tvm.IRModule``: about a millisecond on every core.

    Example:
        >>> [variable.name_hint for variable in reference_module("cpu").get_global_vars()]
        ['main']
    """
    import tvm
    from tvm import te

    a = te.placeholder((SIZE, SIZE), name="A")
    b = te.placeholder((SIZE, SIZE), name="B")
    k = te.reduce_axis((0, SIZE), name="k")
    c = te.compute((SIZE, SIZE), lambda i, j: te.sum(a[i, k] * b[k, j], axis=k), name="C")
    function = te.create_prim_func([a, b, c]).with_attr("global_symbol", "main")
    schedule = tvm.s_tir.Schedule(function)
    i, j, reduction = schedule.get_loops(schedule.get_sblock("C"))
    if device_kind == "cpu":
        outer, inner = schedule.split(j, factors=[None, 16])
        schedule.reorder(i, outer, reduction, inner)
        schedule.parallel(i)
        schedule.vectorize(inner)
    else:
        schedule.bind(i, "blockIdx.x")
        schedule.bind(j, "threadIdx.x")
    return schedule.mod


def time_reference(device_kind: str, target: str, *, quick: bool) -> tuple[float, ...]:
    """Seconds per call of the reference kernel, to be summarised by their median.

    Three repeats of at least 10 ms; `quick`: three single calls.
    """
    full, calls = _timers(device_kind, target)
    return calls() if quick else full()


@cache
def _timers(device_kind: str, target: str) -> tuple[ReferenceCalls, ReferenceCalls]:
    import tvm

    from costhub.collector.build.builder import load_target

    device = tvm.device(device_kind, 0)
    module = tvm.compile(reference_module(device_kind), target=load_target(target)).mod
    arguments = on_device(ARGUMENTS, device_kind, device)

    def timer(repeat: int, min_repeat_ms: int) -> ReferenceCalls:
        evaluator = module.time_evaluator("main", device, number=1, repeat=repeat, min_repeat_ms=min_repeat_ms)
        return lambda: tuple(float(s) for s in evaluator(*arguments).results)

    return timer(3, 10), timer(QUICK_CALLS, 0)
