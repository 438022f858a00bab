"""The runner: times programs, and survives those that crash or hang."""

from __future__ import annotations

import os
import re
import subprocess
import time
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import psutil
import pytest

from costhub.collector.build.builder import Builder, build_library
from costhub.collector.device.cpu_state import physical_cpus
from costhub.collector.propose.sampler import Program, Sampler
from costhub.collector.run.evaluator import Evaluator
from costhub.collector.run.output_check import default_program
from costhub.collector.run.runner import Runner, RunResult, run_default, time_program
from costhub.collector.workloads.suites import find_workload
from costhub.errors import MeasureError
from costhub.isolation.limits import Limits, usable_cpus


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


def test_threads_are_bound_though_this_process_leaves_its_own_unbound(
    target: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    # As `load_network` leaves it.
    monkeypatch.setenv("TVM_BIND_THREADS", "0")
    with Runner(target, threads=1) as alone:
        alone.reference_s(quick=True)
        assert alone._child.call(os.getenv, "TVM_BIND_THREADS") == "1"


def test_the_process_for_a_cpu_does_without_torch(runner: Runner) -> None:
    runner.reference_s(quick=True)
    assert runner._child.call(find_spec, "torch") is None


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


@pytest.mark.slow
def test_a_device_tvm_does_not_know_ends_the_collection(target: str, programs: list[Program]) -> None:
    with Runner(target, device_kind="abacus") as runner, pytest.raises(MeasureError, match="abacus"):
        runner.run("/nowhere/program.so", programs[0].arguments)


def test_a_hang_is_a_row(runner: Runner, programs: list[Program], tmp_path: Path) -> None:
    hung = runner.run(library(tmp_path / "hang.so", "sleep(600);"), programs[0].arguments, timeout_s=1.0)
    assert hung.status == "run_timeout"


def test_a_missing_library_is_a_row(runner: Runner, programs: list[Program]) -> None:
    assert runner.run("/nowhere/program.so", programs[0].arguments).status == "run_error"


@pytest.mark.parametrize("quick", [False, True])
def test_the_reference_kernel_takes_a_moment(runner: Runner, quick: bool) -> None:
    assert 1e-6 < runner.reference_s(quick=quick) < 1.0


@pytest.mark.slow
def test_a_device_that_cannot_run_it_is_refused() -> None:
    target = '{"kind": "llvm", "mcpu": "no-such-cpu", "num-cores": 2}'
    with (
        Runner(target, device_kind="opencl") as runner,
        pytest.raises(MeasureError, match="reference kernel"),
    ):
        runner.reference_s()


@pytest.mark.slow
def test_one_thread_and_all_threads_side_by_side(builder: Builder, target: str) -> None:
    """The same program, in a runner that computes on one CPU and in one that computes on all."""
    cores = len(physical_cpus())
    with Runner(target, threads=1) as one, Runner(target) as every:
        for runner in (one, every):
            assert runner.reference_s() > 0
        assert (one.threads, every.threads) == (1, cores)
        assert cpus_of_threads(one) == {one.cpu_affinity}
        assert one.cpu_affinity == str(one.cpus[0])
        if cores > 1:
            assert len(every.cpus) == cores
            # TVM's own threads have a CPU each; what computes beside them may use any of the runner's.
            assert every.cpu_affinity in cpus_of_threads(every)
            assert cpus_of_threads(every) > {every.cpu_affinity}


def cpus_of_threads(runner: Runner) -> set[str | None]:
    """The CPUs that each thread of a runner's process may use, as Linux lists them."""
    found: set[str | None] = set()
    for status in Path(f"/proc/{runner.pid}/task").glob("*/status"):
        (line,) = [line for line in status.read_text().splitlines() if line.startswith("Cpus_allowed_list")]
        found.add(line.split()[1])
    return found


def test_one_thread_uses_no_more_than_the_core_it_is_given(target: str) -> None:
    with Runner(target, threads=1, affinity=[usable_cpus()[0]]) as runner:
        runner.reference_s()
        assert cpus_of_threads(runner) == {str(usable_cpus()[0])}
        process = psutil.Process(runner.pid)
        before, start = sum(process.cpu_times()[:2]), time.monotonic()
        for _ in range(10):
            runner.reference_s()
        used, passed = sum(process.cpu_times()[:2]) - before, time.monotonic() - start
    assert used <= 1.1 * passed + 0.05  # the clock of processor time ticks a hundred times a second


CALLED = """
static volatile int calls;
int __tvm_ffi_main(void *self, const void *args, int n, void *result) {{ {body} return 0; }}
"""


def called(path: Path, body: str) -> str:
    """A shared library whose function ``main`` runs `body` when TVM calls it."""
    source = path.with_suffix(".c")
    source.write_text("#include <stdlib.h>\n#include <unistd.h>\n" + CALLED.format(body=body))
    subprocess.run(["cc", "-shared", "-fPIC", "-o", str(path), str(source)], check=True)
    return str(path)


@pytest.mark.parametrize(
    ("body", "words"),
    [
        ("__builtin_trap();", "SIGILL|SIGTRAP"),
        pytest.param("*(volatile int *)8 = 1;", "SIGSEGV", marks=pytest.mark.slow),
        pytest.param("_exit(3);", "exit code 3", marks=pytest.mark.slow),
        pytest.param("for (;;) calls++;", "processor time", marks=pytest.mark.slow),
    ],
)
def test_the_error_names_how_it_ended(
    target: str, programs: list[Program], tmp_path: Path, body: str, words: str
) -> None:
    limits = Limits(cpu_s=8)  # above what loading TVM takes
    with Runner(target, timeout_s=120, limits=limits) as runner:
        ran = runner.run(called(tmp_path / "bad.so", body), programs[0].arguments)
    assert ran.status == "run_error"
    assert re.search(words, ran.error or "")


def test_arguments_beyond_the_memory_limit_cost_a_row(
    runner: Runner, builder: Builder, programs: list[Program]
) -> None:
    built = builder.build([programs[0].module_json])[0]
    ran = runner.run(built.artifact or "", (("float32", (1 << 40,)),))
    assert ran.status == "run_error"
    assert "memory limit" in (ran.error or "")


def test_a_default_program_that_does_not_run_is_not_run_again(target: str, monkeypatch: pytest.MonkeyPatch) -> None:
    with Runner(target) as runner:
        first = runner.expected("/no/such/library.so", (), reduction=1)
        monkeypatch.setattr(runner, "_result", lambda *_: pytest.fail("it was run again"))
        assert runner.expected("/no/such/library.so", (), reduction=1) == first
    assert first.status != "ok"


def test_a_default_program_that_ran_once_and_no_longer_does_costs_the_comparison_only(
    builder: Builder, target: str, programs: list[Program], monkeypatch: pytest.MonkeyPatch
) -> None:
    default = default_program(find_workload("matmul.128x128x128").module(), target)
    first, other = (built.artifact or "" for built in builder.build([default.module_json, programs[0].module_json]))
    result = Runner._result

    def slow_default(self: Runner, function: Any, timeout_s: float) -> RunResult:
        is_default = function.func is run_default
        return RunResult("run_timeout", (), timeout_s, "killed") if is_default else result(self, function, timeout_s)

    with Runner(target, evaluator=Evaluator(repeat=1, min_repeat_ms=1)) as runner:
        assert runner.expected(first, default.arguments, reduction=default.reduction).status == "ok"
        runner._child.kill()
        monkeypatch.setattr(Runner, "_result", slow_default)

        ran = runner.run(other, programs[0].arguments, check=True)
        again = runner.run(other, programs[0].arguments, check=True)

    assert [(each.status, each.output_checked) for each in (ran, again)] == [("ok", False)] * 2


def test_wrong_outputs_are_a_status_and_no_latency(
    builder: Builder, target: str, programs: list[Program], tmp_path: Path
) -> None:
    default = default_program(find_workload("matmul.128x128x128").module(), target)
    built = builder.build([default.module_json, *(p.module_json for p in programs[:2])])
    assert all(b.artifact for b in built)
    artifacts = [b.artifact or "" for b in built]
    with Runner(target, evaluator=Evaluator(repeat=1, min_repeat_ms=1)) as runner:
        unchecked = runner.run(artifacts[1], programs[0].arguments, check=True)
        assert not unchecked.output_checked, "nothing is known yet to compare with"

        assert runner.expected(artifacts[0], default.arguments, reduction=default.reduction).status == "ok"
        good = runner.run(artifacts[1], programs[0].arguments, check=True)
        assert (good.status, good.output_checked) == ("ok", True)
        idle = called(tmp_path / "idle.so", "")
        wrong = runner.run(idle, programs[0].arguments, check=True)
        assert (wrong.status, wrong.run_s) == ("wrong_output", ())
        compared = runner.compare(artifacts[1], programs[0].arguments, programs[0].module_json)
        assert (compared.status, compared.output_checked, compared.run_s) == ("ok", True, ())
        differs = runner.compare(idle, programs[0].arguments, programs[0].module_json)
        assert (differs.status, differs.output_checked) == ("wrong_output", False)
        assert "argument 2" in (wrong.error or "")
        assert runner.run(idle, programs[0].arguments).status == "ok", "unless nobody looks"

        crashed = runner.run(called(tmp_path / "crash.so", "abort();"), programs[0].arguments, check=True)
        assert crashed.status == "run_error"
        later = runner.run(artifacts[2], programs[1].arguments, check=True)
        assert (later.status, later.output_checked) == ("ok", True), "a new process compares as the last one"


def test_weights_in_another_layout_are_compared_too(builder: Builder, target: str, runner: Runner) -> None:
    import tvm

    workload = find_workload("matmul.128x128x128").module()
    free = tvm.IRModule({"main": workload["main"].with_attr("layout_free_buffers", [1])})
    default = default_program(free, target)
    drawn = Sampler(free, target, seed=2).random(6)
    moved = next(p for p in drawn if p.arguments != default.arguments)
    built = builder.build([default.module_json, moved.module_json])
    first, second = (b.artifact or "" for b in built)
    assert runner.expected(first, default.arguments, reduction=default.reduction).status == "ok"
    assert runner.run(second, moved.arguments, check=True, module_json=moved.module_json).output_checked
    blind = runner.run(second, moved.arguments, check=True)
    assert (blind.status, blind.output_checked) == ("ok", False)


def test_a_process_that_has_run_many_programs_is_replaced(
    builder: Builder, runner: Runner, programs: list[Program], monkeypatch: pytest.MonkeyPatch
) -> None:
    built = builder.build([programs[0].module_json])[0]
    assert runner.run(built.artifact or "", programs[0].arguments).status == "ok"
    before = runner.pid
    assert runner.run(built.artifact or "", programs[0].arguments).status == "ok"
    assert runner.pid == before
    monkeypatch.setattr(runner._child, "most_calls", 1)
    assert runner.run(built.artifact or "", programs[0].arguments).status == "ok"
    assert runner.pid != before


QUICK = Evaluator(repeat=1, min_repeat_ms=1)


@pytest.fixture
def artifact(target: str, programs: list[Program], tmp_path: Path) -> str:
    return compiled(programs[0].module_json, target, tmp_path / "p.so")


def compiled(module_json: str, target: str, path: Path) -> str:
    ran = build_library(module_json, target, str(path))
    assert ran.error is None
    return str(path)


def test_a_program_is_timed_as_often_as_asked(artifact: str, programs: list[Program]) -> None:
    ran = time_program(artifact, "cpu", programs[0].arguments, Evaluator(repeat=4, min_repeat_ms=1))
    assert ran.error is None
    assert len(ran.run_s) == 4
    assert all(0 < s < 1 for s in ran.run_s)
    assert ran.wall_s >= sum(ran.run_s)
    assert not ran.output_checked


def test_wrong_arguments_are_an_error(artifact: str) -> None:
    ran = time_program(artifact, "cpu", (("float32", (3, 3)),), Evaluator())
    assert ran.run_s == ()
    assert ran.error
    assert ran.status == "run_error"


def test_outputs_are_compared_with_those_of_the_default_program(
    artifact: str, target: str, programs: list[Program], tmp_path: Path
) -> None:
    right = default_program(find_workload("matmul.128x128x128").module(), target)
    path = compiled(right.module_json, target, tmp_path / "default.so")
    known = run_default(path, "cpu", right.arguments, right.reduction)
    assert len(known.run_s) == 1
    again = run_default(path, "cpu", right.arguments, right.reduction)
    assert again.run_s == ()

    good = time_program(artifact, "cpu", programs[0].arguments, QUICK, default=path)
    assert good.output_checked

    softmax = default_program(find_workload("softmax.64x1000").module(), target)
    other = compiled(softmax.module_json, target, tmp_path / "softmax.so")
    unknown = time_program(other, "cpu", softmax.arguments, QUICK, default=path)
    assert not unknown.output_checked, "another workload's arguments cannot be compared"


def test_nothing_is_compared_with_what_is_not_there(artifact: str, programs: list[Program]) -> None:
    ran = time_program(artifact, "cpu", programs[0].arguments, QUICK, default="/nowhere.so")
    assert ran.error is None
    assert not ran.output_checked
