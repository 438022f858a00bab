from __future__ import annotations

import json

import numpy as np

from costhub.collector.probe.bench import Bench, architecture_of, assembly_of, compile_for, target_of
from costhub.collector.probe.clock import clock_function
from costhub.collector.probe.overhead import empty_function


def test_a_gpu_has_threads_inside_its_workers() -> None:
    assert Bench("{}", "cpu", 4).threads == 1
    assert Bench("{}", "cuda", 4).threads > 1


def test_a_target_is_made_once(target: str) -> None:
    assert target_of(target) is target_of(target)
    assert Bench(target, "cpu", 1).made_target.kind.name == "llvm"


def test_architectures_have_one_name() -> None:
    assert architecture_of('{"kind": "llvm", "mtriple": "arm64-apple-macos"}') == "aarch64"
    assert architecture_of('{"kind": "llvm", "mtriple": "x86_64-conda-linux-gnu"}') == "x86_64"
    assert architecture_of('{"kind": "llvm"}')


def test_code_for_another_architecture_can_be_looked_at() -> None:
    arm = json.dumps({"kind": "llvm", "mtriple": "aarch64-linux-gnu", "mcpu": "neoverse-n1"})

    assert "eor" in assembly_of(clock_function(), arm)


def test_each_worker_does_its_own_part(target: str) -> None:
    import tvm

    out = tvm.runtime.tensor(np.zeros(4, "float32"))

    seconds = compile_for(empty_function(1), Bench(target, "cpu", 3)).seconds((3, out))

    assert out.numpy().tolist() == [1, 1, 1, 0]
    assert seconds > 0
