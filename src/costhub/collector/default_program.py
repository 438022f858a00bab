"""Provides default_program: a workload without a schedule, whose outputs count as the right ones."""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import Any

from costhub.dataset.workload import argument_shapes, module_to_json

REDUCTION_AXIS = 2
"""TVM's number for it (``tvm.tirx.IterVar.CommReduce``)."""


@dataclass(frozen=True)
class DefaultProgram:
    """What `Builder.build` and `Runner.expected` need to know what a workload computes."""

    module_json: str
    arguments: tuple[tuple[str, tuple[int, ...]], ...]
    reduction: int
    """The longest sum in it, on which the rounding of results depends."""


def default_program(module: Any, target: str) -> DefaultProgram:
    """The workload (``tvm.IRModule``) as it stands; for a GPU its loops are bound to threads."""
    import tvm

    target_object = tvm.target.Target(json.loads(target))
    runnable = module
    if "gpu" in target_object.keys:
        with target_object:
            runnable = tvm.s_tir.transform.DefaultGPUSchedule()(module)
    return DefaultProgram(module_to_json(runnable), argument_shapes(module), longest_reduction(module))


def longest_reduction(module: Any) -> int:
    """The most terms that one block of the module adds up, multiplies or compares; 1 where none does."""
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
