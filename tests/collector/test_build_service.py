"""The build service: a library that runs, or the reason why not."""

from pathlib import Path

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
