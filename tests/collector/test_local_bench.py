"""Programs are timed one by one while the builder is frozen; every program has an outcome on every device."""

from __future__ import annotations

import dataclasses
import os
from concurrent.futures import wait

import psutil
import pytest

from costhub.collector.bench import Expected, Made
from costhub.collector.builder import Builder
from costhub.collector.default_program import default_program
from costhub.collector.local_bench import LocalBench
from costhub.collector.runner import Runner
from costhub.collector.sampler import Program
from costhub.collector.suite import find_workload


def test_every_program_has_an_outcome_on_every_device_and_no_file_stays(
    builder: Builder, runner: Runner, programs: list[Program]
) -> None:
    built = builder.build([programs[0].module_json, "not a module", programs[1].module_json])
    batch = [Made(p, b) for p, b in zip([programs[0], programs[2], programs[1]], built, strict=True)]

    outcomes = list(LocalBench({"a": runner, "b": runner}, builder).measure(batch))

    assert [o.device_id for o in outcomes] == ["a"] * 3 + ["b"] * 3
    assert [o.status for o in outcomes] == ["ok", "build_error", "ok"] * 2
    assert outcomes[0].error is None
    assert outcomes[1].error
    assert all(o.surroundings.reference_s > 0 for o in outcomes)
    assert all((o.surroundings.reference_after_s or 0) > 0 for o in outcomes if o.status == "ok")
    assert not any(b.artifact and os.path.exists(b.artifact) for b in built)


def test_nothing_is_built_while_programs_are_timed(
    target: str, runner: Runner, programs: list[Program]
) -> None:
    with Builder(target, processes=2) as builder:
        built = builder.build([programs[0].module_json])
        under_way = [builder.submit(p.module_json) for p in programs * 4]
        outcomes = LocalBench({"a": runner}, builder).measure([Made(programs[0], built[0])])

        next(outcomes)
        states = [psutil.Process(w.pid).status() for w in builder._workers if w.pid]
        done = sum(f.done() for f in under_way)
        outcomes.close()

        assert states == [psutil.STATUS_STOPPED] * len(states)
        assert done < len(under_way)
        wait(under_way, timeout=60)
        assert {f.result().status for f in under_way} == {"ok"}


def test_an_interrupted_batch_leaves_no_file(
    builder: Builder, runner: Runner, programs: list[Program], monkeypatch: pytest.MonkeyPatch
) -> None:
    built = builder.build([p.module_json for p in programs[:2]])

    def interrupt(*_: object, **__: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(runner, "run", interrupt)
    with pytest.raises(KeyboardInterrupt):
        list(LocalBench({"a": runner}, builder).measure([Made(p, b) for p, b in zip(programs, built)]))  # noqa: B905
    assert not any(os.path.exists(b.artifact or "") for b in built)


def test_a_program_that_computes_something_else_is_a_row_of_its_own_kind(
    target: str, builder: Builder, runner: Runner, programs: list[Program]
) -> None:
    default = default_program(find_workload("matmul.128x128x128").module(), target)
    other = default_program(find_workload("matmul.128x768x768").module(), target)
    right, plain, foreign = builder.build([programs[0].module_json, default.module_json, other.module_json])
    assert plain.artifact is not None
    expected = Expected(default, plain.artifact)
    wrong = dataclasses.replace(programs[0], module_json=other.module_json, arguments=other.arguments)

    outcomes = list(
        LocalBench({"a": runner}, builder).measure(
            [Made(programs[0], right, expected), Made(wrong, foreign, expected)]
        )
    )

    assert outcomes[0].status == "ok"
    assert outcomes[0].ran is not None
    assert outcomes[0].ran.output_checked
    assert outcomes[1].status != "ok" or not outcomes[1].ran.output_checked  # type: ignore[union-attr]
