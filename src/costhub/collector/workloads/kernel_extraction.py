"""Provides handle: the kernels of one network, found in a child process that imports torch and TVM."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from costhub.dataset.operator_class import classify
from costhub.dataset.workload import argument_shapes, check_schedulable, module_to_json, workload_id
from costhub.errors import WorkloadError, class_and_line

# Longer names are harder to read, and the start of the id distinguishes kernels.
_MOST_WORDS = 8


@dataclass(frozen=True)
class ExtractRequest:
    """Asks for the kernels of one network."""

    network: str
    """A name of the zoo, or the path of a file that ``torch.export.save`` or ``tvm.ir.save_json`` wrote."""
    target: str
    """The TVM target, as JSON."""
    least_flop: float
    least_bytes: float
    most_bytes: float
    fast_math: bool = False
    """Whether exp, tanh and erf are polynomials."""


@dataclass(frozen=True)
class ExtractedKernel:
    """One kernel and how often its network calls it."""

    name: str
    workload_id: str
    family: str
    weight: float
    flop: float
    module_json: str


@dataclass(frozen=True)
class ExtractReply:
    """The result of an extraction."""

    functions: int
    """Calls of kernels in it, data movements included."""
    tasks: tuple[ExtractedKernel, ...]
    left_out: dict[str, int]
    """Why kernels were left out, and how many for each reason."""


def handle(request: ExtractRequest) -> ExtractReply | str:
    """The kernels of a network worth measuring; an error text where torch or TVM fails."""
    import tvm
    from tvm.s_tir.meta_schedule import relax_integration

    from costhub.collector.workloads.network_source import read_network
    from costhub.collector.workloads.relax_import import fuse

    try:
        # What is computed from weights alone is computed once, before the network runs.
        mod = read_network(request.network, device="meta").mod
        target = tvm.target.Target(request.target)
        fused = fuse(mod, target, fast_math=request.fast_math)
        return _extracted(relax_integration.extract_tasks(fused, target), request)
    except Exception as error:
        return class_and_line(error)


def _extracted(found: Sequence[Any], request: ExtractRequest) -> ExtractReply:
    tasks: dict[str, ExtractedKernel] = {}
    left_out: Counter[str] = Counter()
    for task in found:
        mod, weight = task.dispatched[0], float(task.weight)
        reason = _unfit(mod, request)
        if reason:
            left_out[reason] += 1
            continue
        identity = workload_id(mod)
        if identity in tasks:
            weight += tasks[identity].weight
        name = _name(str(task.task_name), mod, identity)
        tasks[identity] = ExtractedKernel(name, identity, classify(mod), weight, _flop(mod), module_to_json(mod))
    ordered = sorted(tasks.values(), key=lambda task: (-task.flop * task.weight, task.name))
    return ExtractReply(sum(int(task.weight) for task in found), tuple(ordered), dict(left_out))


def _unfit(mod: Any, request: ExtractRequest) -> str:
    """Why a kernel is not worth measuring, or cannot be; empty where it is."""
    try:
        check_schedulable(mod)
    except WorkloadError as error:
        return "sizes unknown" if "known sizes" in str(error) else "nothing to schedule"
    arguments = argument_shapes(mod)
    if any(dtype != "float32" for dtype, _ in arguments):
        return "not all float32"
    moved = sum(4.0 * int(np.prod(shape)) for _, shape in arguments)
    flop = _flop(mod)
    if flop == 0:
        return "moves data only"
    if flop < request.least_flop and moved < request.least_bytes:
        return "too little work"
    if classify(mod) == "elementwise":
        return "one program only"  # TVM's CPU rules have no choice to make in it
    return "too much memory" if moved > request.most_bytes else ""


def _flop(mod: Any) -> float:
    from tvm.s_tir.analysis import estimate_tir_flops

    return float(estimate_tir_flops(mod))


def _name(task: str, mod: Any, identity: str) -> str:
    """Operators, shapes of the first two arguments, and the start of the id for kernels alike in these."""
    # TVM numbers the functions of a module: fused_conv2d1_add_relu3 is conv2d, add and relu.
    operators = re.sub(r"(?<=[a-z_])\d+(?=_|$)", "", task.removeprefix("fused_")).replace("tir_", "")
    operators = "_".join(operators.split("_")[:_MOST_WORDS])
    shapes = ("x".join(map(str, shape)) for _, shape in argument_shapes(mod)[:2])
    return f"{operators}.{'.'.join(shapes)}.{identity[:6]}"
