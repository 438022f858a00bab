"""Provides workload_row: a module as a row of the workloads table."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any

import numpy as np

from costhub.dataset.workload import argument_shapes, module_to_json, workload_id


def workload_row(
    mod: Any, *, name: str, operator: str, networks: Sequence[tuple[str, float]] = ()
) -> dict[str, Any]:
    """Describes a workload; its bytes are those of all its arguments.

    Args:
        mod: The workload (``tvm.IRModule``).
        name: The name people read.
        operator: Its operator family.
        networks: Networks that use it, and how often each.

    Raises:
        WorkloadError: an argument is no tensor of known size.
    """
    from tvm.s_tir.analysis import estimate_tir_flops

    arguments = argument_shapes(mod)
    return {
        "workload_id": workload_id(mod),
        "name": name,
        "operator": operator,
        "shapes": json.dumps([shape for _, shape in arguments]),
        "dtypes": [dtype for dtype, _ in arguments],
        "flop": float(estimate_tir_flops(mod)),
        "bytes": float(sum(int(np.prod(shape)) * np.dtype(dtype).itemsize for dtype, shape in arguments)),
        "module_json": module_to_json(mod),
        "networks": [{"name": network, "weight": weight} for network, weight in networks],
    }
