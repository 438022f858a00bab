"""The runner: times programs, and survives those that crash or hang."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest

from costhub.collector.builder import Builder
from costhub.collector.run_service import Evaluator
from costhub.collector.runner import Runner
from costhub.collector.sampler import Program
from costhub.errors import MeasureError


def library(path: Path, body: str) -> str:
    """A shared library that runs `body` as soon as it is loaded: the shortest way to a kernel gone wrong."""
    source = path.with_suffix(".c")
    source.write_text(
        f"#include <stdlib.h>\n#include <unistd.h>\n__attribute__((constructor)) void f(void) {{ {body} }}\n"
    )
    subprocess.run(["cc", "-shared", "-fPIC", "-o", str(path), str(source)], check=True)
    return str(path)


def test_a_good_program_has_latencies(builder: Builder, runner: Runner, programs: list[Program]) -> None:
    built = builder.build([programs[0].module_json])[0]
    assert built.artifact is not None
    ran = runner.run(built.artifact, programs[0].arguments)
    assert ran.status == "ok"
    assert len(ran.run_s) == runner.evaluator.repeat


def test_a_crash_is_a_row_and_the_next_program_runs(
    builder: Builder, runner: Runner, programs: list[Program], tmp_path: Path
) -> None:
    crashed = runner.run(library(tmp_path / "crash.so", "abort();"), programs[0].arguments)
    assert crashed.status == "run_error"
    assert "SIGABRT" in (crashed.error or "")

    built = builder.build([programs[0].module_json])[0]
    assert built.artifact is not None
    assert runner.run(built.artifact, programs[0].arguments).status == "ok"


def test_the_start_of_the_process_is_not_part_of_the_time_limit(
    builder: Builder, target: str, programs: list[Program]
) -> None:
    built = builder.build([programs[0].module_json])[0]
    assert built.artifact is not None
    # Importing TVM takes longer than this.
    with Runner(target, timeout_s=1.0, evaluator=Evaluator(repeat=1, min_repeat_ms=1)) as runner:
        assert runner.run(built.artifact, programs[0].arguments).status == "ok"


def test_a_device_tvm_does_not_know_ends_the_collection(target: str, programs: list[Program]) -> None:
    with Runner(target, device_kind="abacus") as runner, pytest.raises(MeasureError, match="abacus"):
        runner.run("/nowhere/program.so", programs[0].arguments)


def test_a_hang_is_a_row(runner: Runner, programs: list[Program], tmp_path: Path) -> None:
    hung = runner.run(library(tmp_path / "hang.so", "sleep(600);"), programs[0].arguments, timeout_s=1.0)
    assert hung.status == "run_timeout"


def test_a_missing_library_is_a_row(runner: Runner, programs: list[Program]) -> None:
    assert runner.run("/nowhere/program.so", programs[0].arguments).status == "run_error"


def test_the_reference_kernel_takes_a_moment(runner: Runner) -> None:
    assert 1e-6 < runner.reference_s() < 1.0


def test_a_device_that_cannot_run_it_is_refused() -> None:
    target = '{"kind": "llvm", "mcpu": "no-such-cpu", "num-cores": 2}'
    with (
        Runner(target, device_kind="opencl") as runner,
        pytest.raises(MeasureError, match="reference kernel"),
    ):
        runner.reference_s()
