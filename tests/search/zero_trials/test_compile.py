"""Programs of a workload are built and checked in turn until one is right; the rest is in the tests of the call."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from costhub.collector.build.builder import Builder
from costhub.collector.device.local import local_target
from costhub.collector.run.output_check import default_program
from costhub.collector.run.runner import Runner
from costhub.collector.workloads.suites import SuiteWorkload
from costhub.search.database import SearchDatabase, SearchFolder
from costhub.search.options import Job
from costhub.search.zero_trials.compile import BUILT, COMPARED, CompileTarget, _Kernel, compile_kernels
from costhub.search.zero_trials.known import KnownSchedules
from costhub.search.zero_trials.plan import ZeroTrialPlan
from costhub.search.zero_trials.ranking import Ranking, rank_programs
from tests.collector.propose.test_register_tiles import convolution, dense

TARGET = json.dumps(local_target())
PLAN = ZeroTrialPlan(sources=("model",), pool=2, generations=0)


def job(*sizes: int) -> Job:
    return Job("made", SuiteWorkload("made", "matmul", sizes).module())


def twice(mod: Any) -> Any:
    """A product with the same arguments and other outputs."""
    import tvm

    text = mod.script().replace("= C[v_i, v_j] +", "= T.float32(2) * C[v_i, v_j] +")
    assert text != mod.script()
    return tvm.script.from_source(text)


@pytest.mark.slow
def test_a_program_that_is_another_one_is_passed_over_and_said(linear: Any) -> None:
    model, wanted = linear(np.ones(172)), job(48, 48, 48)
    own, other = (
        rank_programs(each.mod, TARGET, model, KnownSchedules([]), PLAN).programs for each in (wanted, job(48, 48, 16))
    )
    with Builder(TARGET, processes=1) as builder, Runner(TARGET) as runner:
        ranking = Ranking((other[0], own[0]), {"model's choice": 2})
        kernel = _Kernel(wanted, ranking, default_program(wanted.mod, TARGET), builder)
        chosen, found = kernel.first_right(builder, runner)
        none, nothing = _Kernel(wanted, Ranking(other[:1]), None, builder).first_right(builder, None)
        _, empty = _Kernel(wanted, Ranking(()), None, builder, allows_all=True).first_right(builder, None)

    assert chosen is own[0]
    assert (found.check, len(found.failed)) == (COMPARED, 1)
    assert set(found.stages) == {"building", "replaying", "comparing"}  # The ranking was made here, by hand.
    assert min(found.stages.values()) > 0.0
    assert none is None
    assert nothing.check is None
    assert "another one (--space" in str(empty.error)
    assert (nothing.error or "").startswith("Its only program is not correct:")


def test_what_was_not_compared_is_not_said_to_be(linear: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    wanted = job(48, 48, 48)
    ranking = rank_programs(wanted.mod, TARGET, linear(np.ones(172)), KnownSchedules([]), PLAN)
    default = default_program(wanted.mod, TARGET)
    with Builder(TARGET, processes=1) as builder, Runner(TARGET) as runner:
        (of_another,) = builder.build([default_program(twice(wanted.mod), TARGET).module_json])
        assert of_another.artifact is not None
        runner.expected(of_another.artifact, default.arguments)
        _, unbuilt = _Kernel(wanted, ranking, replace(default, module_json="{}"), builder).first_right(builder, runner)
        compare = Runner.compare
        monkeypatch.setattr(
            Runner, "compare", lambda *each, **named: replace(compare(*each, **named), output_checked=False)
        )
        _, unlike = _Kernel(wanted, ranking, default, builder).first_right(builder, runner)

    assert (unbuilt.check, unlike.check) == (BUILT, BUILT)
    assert "cannot be built" in unbuilt.failed[-1]
    assert "layout" in unlike.failed[-1]
    assert (len(unbuilt.failed), len(unlike.failed)) == (1, 1)


@pytest.mark.slow
def test_what_cannot_run_here_is_built_and_in_the_database(linear: Any, tmp_path: Path) -> None:
    with SearchFolder(tmp_path) as folder:
        (found,) = compile_kernels(
            [job(48, 48, 48)], linear(np.ones(172)), CompileTarget(TARGET), KnownSchedules([]), PLAN, out=folder
        )

    assert (found.check, found.library, found.error) == (BUILT, None, None)
    ranking = {"other", "space", "choosing", "features", "prediction"}
    assert found.stages.keys() == ranking | {"carrying", "building", "replaying"}
    assert found.seconds == pytest.approx(sum(found.stages[stage] for stage in ranking | {"carrying"}))
    assert len(SearchDatabase(tmp_path).database.get_all_tuning_records()) == 1


@pytest.mark.parametrize(("triple", "suffix"), [(None, ".so"), ("vax-dec-ultrix", ".o")])
def test_a_library_is_an_object_where_nothing_links(triple: str | None, suffix: str) -> None:
    target = {"kind": "llvm", "num-cores": 1, **({"mtriple": triple} if triple else {})}

    assert CompileTarget(json.dumps(target)).suffix == suffix


@pytest.mark.parametrize("name", ["blocked in default", "packed in default", "plain in blocked"])
def test_a_kernel_in_a_space_for_other_layouts_computes_the_same(linear: Any, tmp_path: Path, name: str) -> None:
    kernels = {
        "blocked in default": lambda: convolution(3, 1, "relu"),
        "packed in default": lambda: dense(20, "silu"),
        "plain in blocked": lambda: job(48, 48, 48).mod,
    }
    plan = replace(PLAN, space=name.rpartition(" ")[2])
    own = [Job(name, kernels[name]())]
    with SearchFolder(tmp_path) as folder:
        (found,) = compile_kernels(
            own, linear(np.ones(172)), CompileTarget(TARGET, threads=1), KnownSchedules([]), plan, out=folder
        )

    assert (found.check, found.error, found.space) == (COMPARED, None, plan.space)
