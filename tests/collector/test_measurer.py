"""Programs are timed one by one while the builder is frozen; every program has a result on every device."""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import wait
from contextlib import AbstractContextManager

import psutil
import pytest

from costhub.collector.build.builder import Builder, BuildResult
from costhub.collector.device.identity import identify
from costhub.collector.device.local import find_local, local_names
from costhub.collector.measurer import (
    BuiltProgram,
    BuiltReference,
    LocalMeasurer,
    MeasuredDevice,
    Measurer,
    MeasureResult,
    board_measurer,
    local_measurer,
)
from costhub.collector.propose.sampler import Program
from costhub.collector.run.drift_monitor import DriftSeconds, MachineState
from costhub.collector.run.output_check import default_program
from costhub.collector.run.runner import Runner, RunResult
from costhub.collector.workloads.suites import find_workload
from costhub.dataset.workload import argument_shapes, module_to_json
from costhub.errors import ArgumentError, DeviceError, MeasureError
from costhub.isolation.process import end_idle_children

TINY = "matmul.128x128x128"


def measurer(builder: Builder, runner: Runner, *names: str) -> LocalMeasurer:
    """A measurer whose devices share one runner."""
    devices = [MeasuredDevice({"device_id": name}, {"kind": "llvm"}) for name in names or ("a",)]
    return LocalMeasurer(devices, builder, [runner] * len(devices))


def test_the_status_of_a_result_is_that_of_the_run_and_of_the_build_where_there_was_none() -> None:
    built, unbuilt = BuildResult("ok", "a.so", 0.1, None), BuildResult("build_timeout", None, 0.1, "too long")
    good, bad = RunResult("ok", (1.0,), 0.1, None), RunResult("run_error", (), 0.1, "why")
    results = [MeasureResult(*each, MachineState(), "d") for each in ((unbuilt, None), (built, good), (built, bad))]
    assert [(r.status, r.error, r.run_s) for r in results] == [
        ("build_timeout", "too long", ()),
        ("ok", None, (1.0,)),
        ("run_error", "why", ()),
    ]


def test_every_program_has_a_result_on_every_device(builder: Builder, runner: Runner, programs: list[Program]) -> None:
    built = builder.build([programs[0].module_json, "not a module", programs[1].module_json])
    batch = [BuiltProgram(build, program.arguments) for build, program in zip(built, programs, strict=False)]

    measuring = measurer(builder, runner, "a", "b")
    found = list(measuring.measure(batch))
    for build in built:
        build.remove()

    assert [index for index, _ in found] == [0, 1, 2] * 2
    results = [result for _, result in found]
    assert [r.device_id for r in results] == ["a"] * 3 + ["b"] * 3
    assert [r.status for r in results] == ["ok", "build_error", "ok"] * 2
    assert results[0].error is None
    assert results[1].error
    assert all((r.machine.reference_s or 0) > 0 for r in results)
    assert all((r.machine.reference_after_s or 0) > 0 for r in results if r.status == "ok")
    each = [monitor.seconds.reference for monitor in measuring._monitors]
    assert min(each) > 0
    assert measuring.drift_seconds().reference == pytest.approx(sum(each))


@pytest.mark.slow
def test_nothing_is_built_while_programs_are_timed(target: str, runner: Runner, programs: list[Program]) -> None:
    with Builder(target, processes=2) as builder:
        built = builder.build([programs[0].module_json])
        under_way = [builder.submit(p.module_json) for p in programs * 2]
        results = measurer(builder, runner).measure([BuiltProgram(built[0], programs[0].arguments)])

        next(results)
        states = [psutil.Process(pid).status() for pid in builder._pool.pids]
        done = sum(f.done() for f in under_way)
        results.close()

        assert states == [psutil.STATUS_STOPPED] * len(states)
        assert done < len(under_way)
        wait(under_way, timeout=60)
        assert {f.result().status for f in under_way} == {"ok"}


def test_a_program_that_computes_something_else_is_a_result_of_its_own_kind(
    target: str, builder: Builder, runner: Runner, programs: list[Program]
) -> None:
    import tvm

    mod = find_workload(TINY).module()
    text = mod.script().replace("= C[v_i, v_j] +", "= T.float32(2) * C[v_i, v_j] +")
    assert text != mod.script()
    default, other = (default_program(each, target) for each in (mod, tvm.script.from_source(text)))
    right, plain, foreign = builder.build([programs[0].module_json, default.module_json, other.module_json])
    assert plain.artifact is not None
    reference = BuiltReference(default, plain.artifact)
    batch = [
        BuiltProgram(right, programs[0].arguments, programs[0].module_json, reference),
        BuiltProgram(foreign, other.arguments, other.module_json, reference),
    ]

    (_, same), (_, wrong) = measurer(builder, runner).measure(batch)

    assert same.status == "ok"
    assert same.run is not None
    assert same.run.output_checked
    assert wrong.status == "wrong_output"


def test_devices_share_one_builder_for_the_one_with_the_most_threads() -> None:
    devices = find_local([name for name, (isa, _) in local_names().items() if isa is None])
    end_idle_children()
    before = set(psutil.Process().children())
    with local_measurer(devices) as measuring:
        measuring.launch()
        children = set(psutil.Process().children()) - before
        assert {d.device_id for d in measuring.devices} == {d.device_id for d in devices}
        assert measuring.target["num-cores"] == max(d.threads or 0 for d in devices)
        assert all(d.cpu_affinity for d in measuring.devices)
        assert len(children) >= len(devices) + 1
    end_idle_children()
    assert not any(child.is_running() for child in children)


def _here() -> AbstractContextManager[Measurer]:
    return local_measurer(find_local([identify(threads=1)["device_id"]]))


@pytest.fixture(params=["here", "boards"])
def opened(request: pytest.FixtureRequest) -> Callable[[], AbstractContextManager[Measurer]]:
    if request.param == "here":
        return _here
    two_boards = request.getfixturevalue("two_boards")
    return lambda: board_measurer(*two_boards)


def test_this_machine_and_boards_measure_alike(opened: Callable[[], AbstractContextManager[Measurer]]) -> None:
    small, large = (find_workload(f"matmul.{size}x{size}x{size}").module() for size in (128, 256))
    modules = (small, large, small)
    with opened() as measuring:
        measuring.launch()
        built = [
            BuiltProgram(build, argument_shapes(mod))
            for build, mod in zip(measuring.builder.build([module_to_json(mod) for mod in modules]), modules)  # noqa: B905
        ]
        broken = BuiltProgram(BuildResult("build_error", None, 0.1, "why"), ())
        results = dict(measuring.measure([*built, broken]))

    assert [results[index].status for index in range(4)] == ["ok", "ok", "ok", "build_error"]
    first, second, third = (min(results[index].run_s) for index in range(3))
    assert second > 2 * max(first, third)
    assert measuring.target["num-cores"] == measuring.device["cores"]
    assert results[0].machine.reference_drift is not None
    assert (measuring.boards is None) == (results[0].board is None)
    assert (measuring.boards is None) == (measuring.drift_seconds() != DriftSeconds()), "boards watch over themselves"


@pytest.mark.parametrize("address", ["here", "127.0.0.1:", ":9190", "a:b", "a:²", "a:0", "a:65536"])
def test_what_is_not_an_address_is_a_sentence(address: str) -> None:
    with pytest.raises(ArgumentError, match="HOST:PORT"), board_measurer(address, "test"):
        pass


def test_a_device_that_this_machine_lacks_is_a_sentence() -> None:
    with pytest.raises(DeviceError, match="no device named 'amd-epyc-zen9'"):
        find_local(["amd-epyc-zen9"])


def test_a_machine_without_a_linker_measures_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    """Every program would be an object file, which cannot be loaded, and a failure for good."""
    devices = find_local(["auto"])
    monkeypatch.setattr("costhub.collector.build.linker._linker", lambda triple: None)

    with (
        pytest.raises(MeasureError, match="No linker for this machine was found: expected ld on the PATH"),
        local_measurer(devices),
    ):
        pass
