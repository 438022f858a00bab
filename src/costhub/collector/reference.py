"""Provides reference_module: the kernel whose drift tells whether a device is still what it was."""

from __future__ import annotations

from typing import Any

SIZE = 256
ARGUMENTS = (("float32", (SIZE, SIZE)),) * 3


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
