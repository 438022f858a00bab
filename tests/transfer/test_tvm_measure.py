"""costhub's builder and runner under MetaSchedule's interface."""

from __future__ import annotations

import json
import os
from typing import Any

from costhub.collector.builder import Builder
from costhub.collector.runner import Runner
from costhub.collector.sampler import Sampler
from costhub.collector.suite import find_workload


def with_an_instruction_of_another_device() -> Any:
    """A module that no CPU target can build: it uses an instruction that only Metal has."""
    import tvm
    from tvm import te, tirx

    a = te.placeholder((64,), name="A")
    c = te.compute((64,), lambda i: a[i] + tirx.call_intrin("float32", "tirx.simdgroup_load"), name="C")
    return tvm.IRModule({"main": te.create_prim_func([a, c]).with_attr("global_symbol", "main")})


def test_inputs_become_results(target: str) -> None:
    import tvm
    from tvm.s_tir.meta_schedule.arg_info import TensorInfo
    from tvm.s_tir.meta_schedule.builder import BuilderInput
    from tvm.s_tir.meta_schedule.runner import RunnerInput

    from costhub.transfer.tvm_measure import TvmBuilder, TvmRunner

    program = Sampler(find_workload("softmax.64x1000").module(), target, seed=1).random(1)[0]
    bad = with_an_instruction_of_another_device()
    parsed = tvm.target.Target(json.loads(target))
    with Builder(target, processes=1) as builder, Runner(target) as runner:
        inputs = [BuilderInput(tvm.ir.load_json(program.module_json), parsed), BuilderInput(bad, parsed)]
        built = TvmBuilder(builder).build(inputs)
        assert built[0].error_msg is None
        assert built[1].artifact_path is None
        assert "simdgroup_load" in built[1].error_msg

        infos = [TensorInfo(dtype=dtype, shape=list(shape)) for dtype, shape in program.arguments]
        run_inputs = [
            RunnerInput(str(built[0].artifact_path), "cpu", infos),
            RunnerInput("/nowhere.so", "cpu", infos),
        ]
        futures = TvmRunner(runner).run(run_inputs)
        results = [f.result() for f in futures]

    assert all(f.done() for f in futures)
    assert 1 <= len(results[0].run_secs) <= 3  # a slow program is timed once
    assert results[1].error_msg
    assert not os.path.exists(str(built[0].artifact_path))  # the builder took its files with it
