"""The build service: a library that runs, or the reason why not."""

import os
from pathlib import Path

import pytest

from costhub.collector.build_service import BuildReply, BuildRequest, handle
from costhub.collector.sampler import Program


def test_a_program_becomes_a_library_that_computes(
    target: str, programs: list[Program], tmp_path: Path
) -> None:
    import numpy as np
    import tvm

    artifact = tmp_path / "p.so"
    reply = handle(BuildRequest(programs[0].module_json, target, str(artifact)))

    assert isinstance(reply, BuildReply)
    assert reply.error is None
    assert reply.build_s > 0
    arrays = [np.random.default_rng(0).random(shape).astype(dtype) for dtype, shape in programs[0].arguments]
    tensors = [tvm.runtime.tensor(a) for a in arrays]
    tvm.runtime.load_module(str(artifact))["main"](*tensors)
    assert np.isfinite(tensors[-1].numpy()).all()
    assert [p.name for p in tmp_path.iterdir()] == ["p.so"]


def test_text_that_is_no_module_is_an_error_reply(target: str, tmp_path: Path) -> None:
    reply = handle(BuildRequest("{}", target, str(tmp_path / "p.so")))
    assert reply is not None
    assert reply.error


def test_a_target_alone_only_warms_up(target: str) -> None:
    assert handle(target) is None


def test_a_linker_that_fails_is_quoted(
    target: str, programs: list[Program], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    linker = tmp_path / "ld"
    linker.write_text("#!/bin/sh\necho 'no room on this disk' >&2\nexit 1\n")
    linker.chmod(0o755)
    monkeypatch.setenv("PATH", str(tmp_path), prepend=os.pathsep)
    reply = handle(BuildRequest(programs[0].module_json, target, str(tmp_path / "p.so")))
    assert reply is not None
    assert "no room on this disk" in (reply.error or "")
