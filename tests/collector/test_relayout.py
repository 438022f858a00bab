"""Weights in the layout that a schedule chose: the program computes the same with them."""

from __future__ import annotations

import numpy as np
import pytest

from costhub.collector.relayout import REWRITES, relaid
from costhub.collector.sampler import Sampler
from costhub.collector.suite import find_workload
from costhub.dataset.workload import module_from_json


def test_programs_compute_the_same_with_relaid_weights(target: str) -> None:
    import json

    import tvm
    from tvm.s_tir.transform import RemoveWeightLayoutRewriteBlock

    workload = find_workload("matmul.128x128x128").module()
    free = tvm.IRModule({"main": workload["main"].with_attr("layout_free_buffers", [1])})
    rng = np.random.default_rng(0)
    values = [rng.random((128, 128), dtype=np.float32) for _ in range(3)]
    changed = 0
    for program in Sampler(free, target, seed=1).random(4):
        shapes = [shape for _, shape in program.arguments]
        module = RemoveWeightLayoutRewriteBlock(skip_tensor_rewrite=True)(
            module_from_json(program.module_json)
        )
        built = tvm.compile(module, target=tvm.target.Target(json.loads(target)))
        tensors = [tvm.runtime.tensor(v) for v in relaid(values, program.module_json, shapes)]
        built["main"](*tensors)
        np.testing.assert_allclose(tensors[2].numpy(), values[0] @ values[1], rtol=1e-4)
        changed += REWRITES in program.module_json
    assert changed


def test_without_a_rewrite_nothing_is_read() -> None:
    values = [np.ones(3)]
    assert relaid(values, "no module at all", [(3,)]) is values


def test_an_unknown_layout_is_refused() -> None:
    import tvm
    from tvm.script import tirx as T

    @T.prim_func(s_tir=True)
    def main(a: T.Buffer((8,), "float32"), b: T.Buffer((8,), "float32")) -> None:
        moved = T.sblock_alloc_buffer((8,))
        for i in T.grid(8):
            with T.sblock("moved"):
                v = T.axis.spatial(8, i)
                T.sblock_attr({"meta_schedule.layout_rewrite_preproc": True})
                moved[T.max(v, 0)] = a[v]
        for i in T.grid(8):
            with T.sblock("b"):
                v = T.axis.spatial(8, i)
                b[v] = moved[v]

    text = str(tvm.ir.save_json(tvm.IRModule({"main": main})))
    with pytest.raises(ValueError, match="Max"):
        relaid([np.ones(8), np.ones(8)], text, [(8,), (8,)])
