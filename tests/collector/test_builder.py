"""The build pool: results in order; what fails, hangs or crashes costs its own row."""

from __future__ import annotations

import os

import pytest

from costhub.collector.builder import Builder
from costhub.collector.sampler import Program


def test_results_come_in_the_order_of_the_modules(builder: Builder, programs: list[Program]) -> None:
    modules = [programs[0].module_json, "not a module", programs[1].module_json]

    built = builder.build(modules)

    assert [b.status for b in built] == ["ok", "build_error", "ok"]
    assert built[1].error
    assert all(os.path.exists(b.artifact) for b in built if b.artifact)
    assert (
        len({os.path.dirname(b.artifact) for b in built if b.artifact}) == 2
    )  # TVM removes an artifact's folder


def test_the_processes_stay(builder: Builder, programs: list[Program]) -> None:
    builder.build([p.module_json for p in programs])
    before = [w._process.pid for w in builder._workers if w._process]
    builder.build([p.module_json for p in programs])
    assert [w._process.pid for w in builder._workers if w._process] == before


def test_a_build_over_its_limit_is_a_timeout_and_the_next_one_works(
    target: str, programs: list[Program]
) -> None:
    with Builder(target, processes=1, timeout_s=1e-6) as builder:
        late = builder.build([programs[0].module_json])[0]
        assert late.status == "build_timeout"
        assert "killed" in (late.error or "")
        builder.timeout_s = 60.0
        assert builder.build([programs[0].module_json])[0].status == "ok"


def test_a_process_that_dies_costs_its_own_program(target: str, programs: list[Program]) -> None:
    with Builder(target, processes=1) as builder:
        builder.build([programs[0].module_json])
        worker = builder._workers[0]
        sent: list[int] = []
        original = worker.send

        def send_then_die(request: object) -> None:
            original(request)
            if not sent:
                sent.append(1)
                assert worker._process is not None
                worker._process.kill()

        worker.send = send_then_die  # type: ignore[method-assign]
        built = builder.build([p.module_json for p in programs[:2]])

    assert [b.status for b in built] == ["build_error", "ok"]
    assert "SIGKILL" in (built[0].error or "")


def test_processes_are_replaced_after_many_builds(
    target: str, programs: list[Program], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("costhub.collector.builder.BUILDS_PER_PROCESS", 1)
    with Builder(target, processes=1) as builder:
        pids = []
        for program in programs[:2]:
            assert builder.build([program.module_json])[0].status == "ok"
            assert builder._workers[0]._process is not None
            pids.append(builder._workers[0]._process.pid)
    assert pids[0] != pids[1]
