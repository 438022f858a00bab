"""Provides ExpectedOutputs: the results of a workload without a schedule, and whether a program computes the same.

MetaSchedule's RewriteLayout (src/s_tir/meta_schedule/postproc/rewrite_layout.cc) lets a schedule choose the layout of
weights. The scheduled module then begins with a block that copies the weight into it, and a build drops that block:
the caller of the program must pass the copy, which is made here as the block would make it.
"""

from __future__ import annotations

import json
import math
import operator
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

from costhub.collector.run.evaluator import Arguments, on_host, to_device
from costhub.dataset.workload import argument_shapes, module_to_json

REDUCTION_AXIS = 2
"""TVM's number for reduction axes (``tvm.tirx.IterVar.CommReduce``)."""

# Reordered sums differ by about eps * sqrt(terms), relative to their size. The smallest tolerance leaves
# room for other formulas (Winograd's), the largest still finds a program that is wrong by half.
ROUNDING = 4.0
EPSILON = {"float64": 2.0**-52, "float32": 2.0**-23, "float16": 2.0**-10, "bfloat16": 2.0**-7}
LEAST = {"float64": 1e-10, "float32": 2e-4, "float16": 1e-2, "bfloat16": 5e-2}
LARGEST = 0.5
"""Also for types of 8 bits or less."""

REWRITES = "meta_schedule.layout_rewrite_preproc"
OPERATIONS = {
    "Add": operator.add,
    "Sub": operator.sub,
    "Mul": operator.mul,
    "FloorDiv": operator.floordiv,
    "FloorMod": operator.mod,
}

Call = Callable[[list[Any]], object]
"""Runs a program on tensors on its device and waits for it."""


@dataclass(frozen=True)
class DefaultProgram:
    """Input of `Builder.build` and `Runner.expected` to determine the results of a workload."""

    module_json: str
    arguments: tuple[tuple[str, tuple[int, ...]], ...]
    reduction: int
    """The longest sum in it, which determines the rounding of results."""


def default_program(module: Any, target: str) -> DefaultProgram:
    """The workload (``tvm.IRModule``) unscheduled; for a GPU its loops are bound to threads."""
    import tvm

    target_object = tvm.target.Target(json.loads(target))
    runnable = module
    if "gpu" in target_object.keys:
        with target_object:
            runnable = tvm.s_tir.transform.DefaultGPUSchedule()(module)
    return DefaultProgram(module_to_json(runnable), argument_shapes(module), longest_reduction(module))


def longest_reduction(module: Any) -> int:
    """The most terms that one block of the module adds up, multiplies or compares; 1 if there are none."""
    import tvm

    schedule = tvm.s_tir.Schedule(module)
    longest = 1
    for handle in schedule.get_child_blocks(schedule.get_sblock("root")):
        terms = 1
        for axis in schedule.get(handle).iter_vars:
            if int(axis.iter_type) == REDUCTION_AXIS:
                terms *= int(axis.dom.extent)
        longest = max(longest, terms)
    return longest


@dataclass(frozen=True)
class ExpectedOutputs:
    """The arguments of a workload before and after its default program."""

    arguments: Arguments
    before: list[Any]
    after: dict[int, Any]
    """The arguments that the default program writes, by position."""
    reduction: int

    @classmethod
    def of(cls, call: Call, arguments: Arguments, device: Any, reduction: int) -> ExpectedOutputs:
        """Runs the default program; an argument is an output if its content has changed."""
        before = on_host(arguments)
        tensors = [to_device(value, device) for value in before]
        call(tensors)
        after = {i: t.numpy() for i, t in enumerate(tensors) if not _same(t.numpy(), before[i])}
        return cls(arguments, before, after, reduction)

    def difference(self, call: Call, arguments: Arguments, module_json: str | None, device: Any) -> str | None:
        """Runs a program of the workload; returns a sentence if its results differ, else None.

        Args:
            call: Runs the program.
            arguments: Arguments of the program, whose weights may have another layout.
            module_json: The scheduled module, which shows that layout.
            device: The program's device.

        Raises:
            ValueError: The layout is unknown, so nothing can be compared.
        """
        values = relaid(self.before, module_json or "", [shape for _, shape in arguments])
        if tuple((str(v.dtype), v.shape) for v in values) != arguments:
            raise ValueError("the arguments are in a layout that the module does not describe")
        rounds = any("float" in dtype for dtype, _ in arguments)
        tensors = [to_device(value, device) for value in values]
        call(tensors)
        for position, tensor in enumerate(tensors):
            output = tensor.numpy()
            if position in self.after:
                problem = unlike(output, self.after[position], reduction=self.reduction, rounds=rounds)
            else:
                problem = None if _same(output, values[position]) else "was written, but is not an output"
            if problem:
                return f"argument {position} {problem}"
        return None


def tolerance(dtype: str, reduction: int) -> float:
    """Relative difference that rounding may cause in sums of `reduction` terms.

    Example:
        >>> tolerance("float32", 1), tolerance("float16", 16)
        (0.0002, 0.015625)
    """
    rounding = ROUNDING * EPSILON.get(dtype, 1.0) * math.sqrt(reduction)
    return min(LARGEST, max(LEAST.get(dtype, LARGEST), rounding))


def unlike(output: Any, expected: Any, *, reduction: int, rounds: bool) -> str | None:
    """How an output differs from the expected one by more than rounding; None if it does not.

    Args:
        output: The output, which has the same shape as `expected`.
        expected: The default program's output.
        reduction: Terms of the longest sum.
        rounds: Integers may be rounded from floating point, and differ by one.
    """
    dtype = str(expected.dtype)
    if "float" not in dtype:
        off = np.abs(output.astype(np.int64) - expected.astype(np.int64))
        wrong = int((off > (rounds and dtype != "bool")).sum())
        return f"differs in {wrong} of {expected.size} elements" if wrong else None
    output, expected = output.astype(np.float64), expected.astype(np.float64)
    finite = np.isfinite(expected)
    if not np.array_equal(output[~finite], expected[~finite], equal_nan=True):
        return "has finite numbers where infinities or NaN were expected"
    if not np.isfinite(output[finite]).all():
        wrong = int((~np.isfinite(output[finite])).sum())
        return f"has {wrong} infinities or NaN where numbers were expected"
    # Relative to the usual size as well: where terms cancel, a small result is as exact as its large terms.
    size = np.abs(expected[finite])
    allowed = tolerance(dtype, reduction) * (size + (size.mean() if size.size else 0.0))
    off = np.abs(output[finite] - expected[finite])
    wrong = int((off > allowed).sum())
    return f"differs in {wrong} of {expected.size} elements, by up to {off.max():.3g}" if wrong else None


def _same(a: Any, b: Any) -> bool:
    # By bytes: NaN is not equal to itself, and not all small types can be compared.
    a, b = (np.ascontiguousarray(value).view(np.uint8) for value in (a, b))
    return bool(np.array_equal(a, b))


def relaid(values: list[Any], module_json: str, shapes: list[tuple[int, ...]]) -> list[Any]:
    """The arrays as the scheduled module takes them, unchanged if it keeps every layout.

    Args:
        values: One array per argument, in the workload's own layout.
        module_json: The scheduled module, including the blocks that a build drops.
        shapes: Shapes of the arguments after scheduling.

    Raises:
        ValueError: A layout cannot be read from the module.
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
    """A new array filled as the block fills its buffer; elements that it leaves out, as in padding, are zero."""
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
