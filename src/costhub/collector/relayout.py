"""Provides relaid: weights in the layout that a schedule chose for them.

MetaSchedule's RewriteLayout (src/s_tir/meta_schedule/postproc/rewrite_layout.cc) lets a schedule choose the
layout of weights. The scheduled module then begins with a block that copies the weight into it, and a build
drops that block: who calls the program must pass the copy. What the block would do is read from it here.
"""

from __future__ import annotations

import operator
from typing import Any

import numpy as np

REWRITES = "meta_schedule.layout_rewrite_preproc"

OPERATIONS = {
    "Add": operator.add,
    "Sub": operator.sub,
    "Mul": operator.mul,
    "FloorDiv": operator.floordiv,
    "FloorMod": operator.mod,
}


def relaid(values: list[Any], module_json: str, shapes: list[tuple[int, ...]]) -> list[Any]:
    """The arrays as the scheduled module takes them, unchanged where it keeps every layout.

    Args:
        values: One array per argument, in the workload's own layout.
        module_json: The scheduled module, with the blocks that a build drops.
        shapes: Of the arguments after scheduling.

    Raises:
        ValueError: A layout that cannot be read from the module.
    """
    if REWRITES not in module_json:
        return values
    import tvm

    module = tvm.ir.load_json(module_json)
    schedule = tvm.s_tir.Schedule(module)
    sources = list(module["main"].params)
    result = list(values)
    for handle in schedule.get_child_blocks(schedule.get_sblock("root")):
        block = schedule.get(handle)
        if REWRITES in block.annotations:
            position = next(i for i, s in enumerate(sources) if s.same_as(block.body.value.source))
            result[position] = _moved(values[position], block, shapes[position])
    return result


def _moved(values: Any, block: Any, shape: tuple[int, ...]) -> Any:
    """A new array filled as the block fills its buffer; what it leaves out, as in padding, is zero."""
    # Open grids: an index that depends on one axis of many is computed for that axis alone.
    grids = np.ogrid[tuple(slice(int(axis.dom.extent)) for axis in block.iter_vars)]
    axes = {axis.var.name: grid for axis, grid in zip(block.iter_vars, grids, strict=True)}
    to = _flat(block.body.indices, shape, axes)
    taken = _flat(block.body.value.indices, values.shape, axes)
    to, taken = np.broadcast_arrays(to, taken)
    result = np.zeros(shape, values.dtype)
    result.reshape(-1)[to.reshape(-1)] = values.reshape(-1)[taken.reshape(-1)]
    return result


def _flat(indices: Any, shape: tuple[int, ...], axes: dict[str, Any]) -> Any:
    """Positions in the flattened array."""
    flat: Any = np.zeros((1,) * len(axes), np.int64)
    for index, extent in zip(indices, shape, strict=True):
        flat = flat * extent + _value(index, axes)
    return flat


def _value(expression: Any, axes: dict[str, Any]) -> Any:
    kind = type(expression).__name__
    if kind == "Var":
        return axes[expression.name]
    if kind == "IntImm":
        return int(expression)
    if kind not in OPERATIONS:
        raise ValueError(f"a layout is computed by {kind}, which costhub does not know")
    return OPERATIONS[kind](_value(expression.a, axes), _value(expression.b, axes))
