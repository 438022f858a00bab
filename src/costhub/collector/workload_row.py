"""Provides describe: a workload as a row of the workloads table."""

from __future__ import annotations

import json
from typing import Any

import numpy as np

from costhub.collector.operators import FAMILY
from costhub.collector.suite import Workload
from costhub.dataset.workload import argument_shapes, module_to_json, workload_id


def describe(workload: Workload, mod: Any) -> dict[str, Any]:
    """The row of `workload`, whose module is `mod`; its bytes are those touched at least once."""
    from tvm.s_tir.analysis import estimate_tir_flops

    arguments = argument_shapes(mod)
    return {
        "workload_id": workload_id(mod),
        "name": workload.name,
        "operator": FAMILY[workload.operator],
        "shapes": json.dumps([shape for _, shape in arguments]),
        "dtypes": [dtype for dtype, _ in arguments],
        "flop": float(estimate_tir_flops(mod)),
        "bytes": float(sum(int(np.prod(shape)) * np.dtype(dtype).itemsize for dtype, shape in arguments)),
        "module_json": module_to_json(mod),
        "networks": [],
    }
