"""The build pool: results in order; what fails, hangs or crashes costs its own row."""

from __future__ import annotations

import errno
import json
import os
import signal
import time
from concurrent.futures import CancelledError
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import psutil
import pytest

from costhub.collector.build.builder import Builder, build_library
from costhub.collector.propose.sampler import Program, Sampler
from costhub.collector.workloads.suites import find_workload
from costhub.errors import MeasureError
from costhub.isolation.child import Child, ChildDied


def test_results_come_in_the_order_of_the_modules(builder: Builder, programs: list[Program]) -> None:
    modules = [programs[0].module_json, "not a module", programs[1].module_json]

    built = builder.build(modules)

    assert [b.status for b in built] == ["ok", "build_error", "ok"]
    assert built[1].error
    assert all(os.path.exists(b.artifact) for b in built if b.artifact)
    # TVM removes the folder of an artifact, so each has its own.
    assert len({os.path.dirname(b.artifact) for b in built if b.artifact}) == 2
    left = {path.parent for path in builder._scratch.path.rglob("*")} - {builder._scratch.path}
    assert {Path(b.artifact).parent for b in built if b.artifact} <= left
    assert all(any(folder.iterdir()) for folder in left), "what a failed build left is removed"


def test_the_processes_for_a_cpu_do_without_torch(builder: Builder) -> None:
    assert builder._pool.call(find_spec, "torch") is None
    with Builder('{"kind": "cuda", "arch": "sm_90"}') as for_gpu, for_gpu._pool._new_child() as child:
        assert child.environment == {}


def test_the_processes_stay(builder: Builder, programs: list[Program]) -> None:
    builder.build([p.module_json for p in programs])
    before = builder._pool.pids
    builder.build([p.module_json for p in programs])
    assert builder._pool.pids == before


def test_a_build_over_its_limit_is_a_timeout_and_the_next_one_works(target: str, programs: list[Program]) -> None:
    with Builder(target, processes=1, timeout_s=1e-6) as builder:
        late = builder.build([programs[0].module_json])[0]
        assert late.status == "build_timeout"
        assert "killed" in (late.error or "")
        builder.timeout_s = 60.0
        assert builder.build([programs[0].module_json])[0].status == "ok"


def test_a_process_that_dies_costs_its_own_program(target: str, programs: list[Program]) -> None:
    with Builder(target, processes=1) as builder:
        builder.build([programs[0].module_json])
        child = builder._pool._children[0]
        sent: list[int] = []
        original = child.send

        def send_then_die(*args: Any) -> None:
            original(*args)
            if not sent:
                sent.append(1)
                assert child.pid is not None
                os.kill(child.pid, signal.SIGKILL)

        child.send = send_then_die  # type: ignore[method-assign]
        built = builder.build([p.module_json for p in programs[:2]])

    assert [b.status for b in built] == ["build_error", "ok"]
    assert "SIGKILL" in (built[0].error or "")


@pytest.mark.slow
def test_processes_are_replaced_after_many_builds(
    target: str, programs: list[Program], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("costhub.collector.build.builder.BUILDS_PER_PROCESS", 1)
    with Builder(target, processes=1) as builder:
        pids = []
        for program in programs[:2]:
            assert builder.build([program.module_json])[0].status == "ok"
            pids += builder._pool.pids
    assert pids[0] != pids[1]


def test_a_target_that_tvm_does_not_know_is_a_sentence() -> None:
    with Builder('{"kind": "abacus"}', processes=1) as builder, pytest.raises(MeasureError, match="abacus"):
        builder.build(["not a module"])


def test_an_interrupted_batch_does_not_answer_the_next_one(
    target: str, programs: list[Program], monkeypatch: pytest.MonkeyPatch
) -> None:
    with Builder(target, processes=1) as builder:
        builder.build([programs[0].module_json])
        child = builder._pool._children[0]

        def interrupted(*args: Any, timeout_s: float) -> None:
            child.send(*args)
            raise KeyboardInterrupt

        with monkeypatch.context() as patched:
            patched.setattr(child, "call", interrupted)
            with pytest.raises(KeyboardInterrupt):
                builder.build([programs[0].module_json])
        assert [b.status for b in builder.build([programs[0].module_json])] == ["ok"]


def test_frozen_processes_stand_still_and_the_time_does_not_count(target: str, programs: list[Program]) -> None:
    with Builder(target, processes=1, timeout_s=5.0) as builder:
        builder.build([programs[0].module_json])
        with builder.frozen():
            building = builder.submit(programs[1].module_json)
            time.sleep(0.5)
            assert not building.done()
            builder.timeout_s = 0.3
        assert building.result().status == "ok", "the frozen half second counts as building"


def test_a_process_does_not_start_while_the_builder_is_frozen(target: str, programs: list[Program]) -> None:
    with Builder(target, processes=1) as builder:
        with builder.frozen():
            building = builder.submit(programs[0].module_json)
            time.sleep(0.2)
            assert builder._pool.pids == []
        assert building.result().status == "ok"


def test_closing_a_frozen_builder_ends_what_is_under_way(target: str, programs: list[Program]) -> None:
    builder = Builder(target, processes=1)
    builder.build([programs[0].module_json])
    [pid] = builder._pool.pids
    with builder.frozen():
        building = [builder.submit(p.module_json) for p in programs]
        builder.close()
    with pytest.raises((MeasureError, CancelledError)):
        building[-1].result()
    assert all(b.done() for b in building)
    assert not psutil.pid_exists(pid)


def test_the_seconds_of_a_build_are_told_by_stage(builder: Builder, programs: list[Program]) -> None:
    built = builder.build([programs[0].module_json])[0]
    seconds = built.seconds
    assert min(seconds.lower, seconds.llvm, seconds.link) > 0
    assert seconds.lower + seconds.llvm + seconds.link <= built.build_s


def test_a_program_becomes_a_library_that_computes(target: str, programs: list[Program], tmp_path: Path) -> None:
    import numpy as np
    import tvm

    artifact = tmp_path / "p.so"
    built = build_library(programs[0].module_json, target, str(artifact))

    assert built.error is None
    assert built.build_s > 0
    arrays = [np.random.default_rng(0).random(shape).astype(dtype) for dtype, shape in programs[0].arguments]
    tensors = [tvm.runtime.tensor(a) for a in arrays]
    tvm.runtime.load_module(str(artifact))["main"](*tensors)
    assert np.isfinite(tensors[-1].numpy()).all()
    assert [p.name for p in tmp_path.iterdir()] == ["p.so"]


def test_text_that_is_no_module_is_an_error_built(target: str, tmp_path: Path) -> None:
    built = build_library("{}", target, str(tmp_path / "p.so"))
    assert built.error


def put_failing_linker(folder: Path, monkeypatch: pytest.MonkeyPatch, says: str) -> None:
    """Makes the linker that is found first one that says something and fails."""
    linker = folder / "ld"
    linker.write_text(f"#!/bin/sh\necho '{says}' >&2\nexit 1\n")
    linker.chmod(0o755)
    monkeypatch.setenv("PATH", str(folder), prepend=os.pathsep)


def test_a_linker_that_fails_is_quoted(
    target: str, programs: list[Program], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    put_failing_linker(tmp_path, monkeypatch, "no room on this disk")
    built = build_library(programs[0].module_json, target, str(tmp_path / "p.so"))
    assert "no room on this disk" in (built.error or "")


def test_a_full_disk_ends_the_builds_whether_the_linker_says_so_or_llvm_dies_of_it(
    target: str, programs: list[Program], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Rows that failed for want of room would stay, and count as trials."""
    put_failing_linker(tmp_path, monkeypatch, "ld: final link failed: No space left on device")
    with Builder(target, processes=1) as builder:
        with pytest.raises(MeasureError, match=r"disk of .* is full .*final link failed.* TMPDIR"):
            builder.build([programs[0].module_json])

        def die(*_: Any, timeout_s: float) -> None:
            raise ChildDied("LLVM ERROR: IO failure on output stream: No space left on device")

        monkeypatch.setattr(Child, "call", die)
        with pytest.raises(MeasureError, match=r"disk of .* is full .*LLVM ERROR"):
            builder.build([programs[0].module_json])
        assert not [path for path in builder._scratch.path.iterdir() if path.is_dir()]

        def full(path: str) -> None:
            raise OSError(errno.ENOSPC, "No space left on device", path)

        monkeypatch.setattr("costhub.collector.build.builder.os.mkdir", full)
        with pytest.raises(MeasureError, match=r"disk of .* is full .*No space left"):
            builder.build([programs[0].module_json])


def test_a_program_for_a_gpu_becomes_a_library_without_a_driver_or_a_compiler(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """TVM writes CUDA code for the target's architecture; neither NVIDIA's compiler nor one for C++ is called."""
    monkeypatch.setenv("TVM_COMPILE_FORCE_FALLBACK", "1")
    limits = {"max_threads_per_block": 1024, "max_shared_memory_per_block": 49152, "thread_warp_size": 32}
    target = json.dumps({"kind": "cuda", "arch": "sm_80", **limits})
    (program,) = Sampler(find_workload("matmul.128x128x128").module(), target, seed=0).random(1)
    monkeypatch.setattr("tvm.support.cc.create_shared", lambda *_, **__: pytest.fail("a compiler was called"))

    built = build_library(program.module_json, target, str(tmp_path / "program.so"))

    assert (built.status, built.error) == ("ok", None)
    assert b"__launch_bounds__" in (tmp_path / "program.so").read_bytes()
