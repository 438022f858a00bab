"""The run service: what it answers to each kind of request."""

from pathlib import Path

import pytest

from costhub.collector.build_service import BuildRequest
from costhub.collector.build_service import handle as build
from costhub.collector.default_program import default_program
from costhub.collector.evaluator import Evaluator
from costhub.collector.run_service import ExpectRequest, ReferenceRequest, RunRequest, handle
from costhub.collector.sampler import Program
from costhub.collector.suite import find_workload

QUICK = Evaluator(repeat=1, min_repeat_ms=1)


@pytest.fixture
def artifact(target: str, programs: list[Program], tmp_path: Path) -> str:
    return compiled(programs[0].module_json, target, tmp_path / "p.so")


def compiled(module_json: str, target: str, path: Path) -> str:
    reply = build(BuildRequest(module_json, target, str(path)))
    assert reply is not None
    assert reply.error is None
    return str(path)


def test_a_program_is_timed_as_often_as_asked(artifact: str, programs: list[Program]) -> None:
    reply = handle(RunRequest(artifact, "cpu", programs[0].arguments, Evaluator(repeat=4, min_repeat_ms=1)))
    assert reply is not None
    assert reply.error is None
    assert len(reply.run_s) == 4
    assert all(0 < s < 1 for s in reply.run_s)
    assert reply.wall_s >= sum(reply.run_s)
    assert not reply.output_checked


def test_wrong_arguments_are_an_error_reply(artifact: str) -> None:
    reply = handle(RunRequest(artifact, "cpu", (("float32", (3, 3)),), Evaluator()))
    assert reply is not None
    assert reply.run_s == ()
    assert reply.error
    assert not reply.is_wrong


def test_the_reference_kernel_is_timed(target: str) -> None:
    for quick in (False, True):
        reply = handle(ReferenceRequest("cpu", target, quick))
        assert reply is not None
        assert reply.error is None
        assert len(reply.run_s) == 3


def test_outputs_are_compared_with_those_of_the_default_program(
    artifact: str, target: str, programs: list[Program], tmp_path: Path
) -> None:
    right = default_program(find_workload("matmul.128x128x128").module(), target)
    path = compiled(right.module_json, target, tmp_path / "default.so")
    known = handle(ExpectRequest(path, "cpu", right.arguments, right.reduction))
    assert known is not None
    assert len(known.run_s) == 1
    again = handle(ExpectRequest(path, "cpu", right.arguments, right.reduction))
    assert again is not None
    assert again.run_s == ()

    good = handle(RunRequest(artifact, "cpu", programs[0].arguments, QUICK, expected=path))
    assert good is not None
    assert good.output_checked

    softmax = default_program(find_workload("softmax.64x1000").module(), target)
    other = compiled(softmax.module_json, target, tmp_path / "softmax.so")
    unknown = handle(RunRequest(other, "cpu", softmax.arguments, QUICK, expected=path))
    assert unknown is not None
    assert not unknown.output_checked, "another workload's arguments cannot be compared"


def test_nothing_is_compared_with_what_is_not_there(artifact: str, programs: list[Program]) -> None:
    reply = handle(RunRequest(artifact, "cpu", programs[0].arguments, QUICK, expected="/nowhere.so"))
    assert reply is not None
    assert reply.error is None
    assert not reply.output_checked
