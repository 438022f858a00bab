"""Provides extract_kernels: the kernels of one network that are worth measuring."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from time import perf_counter
from typing import Any

import numpy as np

from costhub.collector.workloads.network_source import AS_IN_TORCH, Lowering, read_network
from costhub.dataset.operator_class import classify
from costhub.dataset.workload import argument_shapes, check_schedulable, count_flop, module_to_json, workload_id
from costhub.errors import WorkloadError, class_and_line

# Longer names are harder to read, and the start of the id tells kernels apart.
_MAX_WORDS = 8

TOO_LITTLE, TOO_MUCH = "too little work", "too much memory"
"""Why tunable kernels are left out."""


@dataclass(frozen=True)
class KernelBounds:
    """Which kernels are worth measuring."""

    least_flop: float
    """Kernels with less arithmetic are left out, unless"""
    least_bytes: float
    """their arguments have at least this many bytes."""
    most_bytes: float
    """Kernels with larger arguments are left out."""

    def reason(self, flop: float, argument_bytes: float) -> str:
        """Why a kernel is left out; empty if it is not.

        Example:
            >>> KernelBounds(2e5, 1e6, 2.0**26).reason(1e3, 1e3)
            'too little work'
        """
        if flop < self.least_flop and argument_bytes < self.least_bytes:
            return TOO_LITTLE
        return TOO_MUCH if argument_bytes > self.most_bytes else ""


@dataclass(frozen=True)
class ExtractedKernel:
    """One kernel and how often its network calls it."""

    name: str
    workload_id: str
    family: str
    weight: float
    flop: float
    argument_bytes: float
    module_json: str


@dataclass(frozen=True)
class NetworkKernels:
    """The kernels of one network."""

    functions: int
    """Number of kernel calls in it, including data movements."""
    tasks: tuple[ExtractedKernel, ...]
    left_out: dict[str, int]
    """Why kernels were left out, and how many for each reason."""
    open_sizes: Mapping[str, int] = field(default_factory=dict)
    """Places where the network leaves a size open -> the size used."""
    reading_s: float = field(default=0.0, compare=False)
    """Seconds until torch had exported the network and TVM imported it."""


def extract_kernels(
    network: str, target: str, bounds: KernelBounds, lowering: Lowering = AS_IN_TORCH
) -> NetworkKernels:
    """The kernels of a network worth measuring; call it in a child process.

    Args:
        network: A name of the zoo, or the path of a file that ``torch.export.save`` or ``tvm.ir.save_json`` wrote.
        target: The TVM target, as JSON.
        bounds: Which kernels are worth measuring.
        lowering: How its operators become kernels.

    Raises:
        WorkloadError: Torch or TVM fails.
    """
    start = perf_counter()
    import tvm
    from tvm.s_tir.meta_schedule import relax_integration

    from costhub.collector.workloads.relax_import import fuse

    try:
        # What is computed from weights alone is computed once, before the network runs.
        source = read_network(
            network, device="meta", lanes=lowering.lanes(target), bf16_unit=lowering.bf16_unit(target)
        )
        reading_s = perf_counter() - start
        tvm_target = tvm.target.Target(target)
        fused = fuse(source.mod, tvm_target, fast_math=lowering.fast_math)
        found = _extracted(relax_integration.extract_tasks(fused, tvm_target), bounds)
        return replace(found, open_sizes=source.open_sizes, reading_s=reading_s)
    except WorkloadError:
        raise
    except Exception as error:
        raise WorkloadError(class_and_line(error)) from error


def _extracted(found: Sequence[Any], bounds: KernelBounds) -> NetworkKernels:
    tasks: dict[str, ExtractedKernel] = {}
    left_out: Counter[str] = Counter()
    for task in found:
        mod, weight = task.dispatched[0], float(task.weight)
        reason = _unfit(mod, bounds)
        if reason:
            left_out[reason] += 1
            continue
        identity = workload_id(mod)
        if identity in tasks:
            weight += tasks[identity].weight
        name, moved = _name(str(task.task_name), mod, identity), _argument_bytes(mod)
        tasks[identity] = ExtractedKernel(
            name, identity, classify(mod), weight, count_flop(mod), moved, module_to_json(mod)
        )
    ordered = sorted(tasks.values(), key=lambda task: (-task.flop * task.weight, task.name))
    return NetworkKernels(sum(int(task.weight) for task in found), tuple(ordered), dict(left_out))


def _unfit(mod: Any, bounds: KernelBounds) -> str:
    """Why a kernel cannot be measured or is not worth it; empty if it is."""
    try:
        check_schedulable(mod)
    except WorkloadError as error:
        return "sizes unknown" if "known sizes" in str(error) else "nothing to schedule"
    if any(dtype != "float32" for dtype, _ in argument_shapes(mod)):
        return "not float32 throughout"
    try:
        flop = count_flop(mod)
    except WorkloadError:
        return "operations not countable"
    if flop == 0:
        return "moves data only"
    reason = bounds.reason(flop, _argument_bytes(mod))
    if reason != TOO_LITTLE and classify(mod) == "elementwise":
        return "one program only"  # TVM's CPU rules have no choice to make in it
    return reason


def _argument_bytes(mod: Any) -> float:
    """Bytes of the arguments of a kernel that is float32 throughout."""
    return sum(4.0 * int(np.prod(shape)) for _, shape in argument_shapes(mod))


def _name(task: str, mod: Any, identity: str) -> str:
    """Operators, shapes of the first two arguments, and the start of the id to distinguish kernels that share these."""
    # TVM numbers the functions of a module: fused_conv2d1_add_relu3 is conv2d, add and relu.
    operators = re.sub(r"(?<=[a-z_])\d+(?=_|$)", "", task.removeprefix("fused_")).replace("tir_", "")
    operators = "_".join(operators.split("_")[:_MAX_WORDS])
    shapes = ("x".join(map(str, shape)) for _, shape in argument_shapes(mod)[:2])
    return f"{operators}.{'.'.join(shapes)}.{identity[:6]}"
