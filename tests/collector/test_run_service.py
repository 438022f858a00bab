"""The run service: latencies of one program and of the reference kernel."""

from pathlib import Path

import pytest

from costhub.collector import run_service
from costhub.collector.build_service import BuildRequest
from costhub.collector.build_service import handle as build
from costhub.collector.run_service import Evaluator, ReferenceRequest, RunRequest, handle
from costhub.collector.sampler import Program


@pytest.fixture
def artifact(target: str, programs: list[Program], tmp_path: Path) -> str:
    path = str(tmp_path / "p.so")
    reply = build(BuildRequest(programs[0].module_json, target, path))
    assert reply is not None
    assert reply.error is None
    return path


def test_a_program_is_timed_as_often_as_asked(artifact: str, programs: list[Program]) -> None:
    reply = handle(RunRequest(artifact, "cpu", programs[0].arguments, Evaluator(repeat=4, min_repeat_ms=1)))
    assert reply.error is None
    assert len(reply.run_s) == 4
    assert all(0 < s < 1 for s in reply.run_s)
    assert reply.wall_s >= sum(reply.run_s)


def test_a_slow_program_is_timed_once(
    artifact: str, programs: list[Program], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(run_service, "SLOW_CALL_S", 0.0)
    reply = handle(RunRequest(artifact, "cpu", programs[0].arguments, Evaluator()))
    assert len(reply.run_s) == 1
    assert reply.run_s[0] > 0


def test_wrong_arguments_are_an_error_reply(artifact: str) -> None:
    reply = handle(RunRequest(artifact, "cpu", (("float32", (3, 3)),), Evaluator()))
    assert reply.run_s == ()
    assert reply.error


def test_the_reference_kernel_is_built_once(target: str) -> None:
    first = handle(ReferenceRequest("cpu", target))
    kept = run_service._reference[target]
    second = handle(ReferenceRequest("cpu", target))
    assert first.error is second.error is None
    assert run_service._reference[target] is kept


def test_integers_are_filled_with_small_numbers() -> None:
    import numpy as np

    values = run_service._values(np.random.default_rng(0), "int8", (100,))
    assert values.dtype == np.int8
    assert values.min() >= 1
