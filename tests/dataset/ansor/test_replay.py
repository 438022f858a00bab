from __future__ import annotations

import json
from typing import Any

import pytest

from costhub.dataset.ansor.named_workloads import parse_key
from costhub.dataset.ansor.replay import read_target, replay_sketches
from costhub.dataset.metaschedule.import_pool import ReplayedTraces
from costhub.dataset.trace import replay
from costhub.dataset.workload import module_to_json
from tests.dataset.ansor.ansor_steps import MATMUL, Tiles

CONV = '["conv2d_layer", 2, 8, 16, 16, 16, 3, 3, 1, "SAME"]'
CONV_TILES = Tiles(
    spatial=((1, 1, 2, 1, 1), (2, 1, 4, 2, 1), (4, 2, 2, 1, 1), (2, 1, 2, 2, 2)),
    reduction=((2, 2, 2), (1, 3, 1), (3, 1, 1)),
    vectors=(1, 2),
    sources=(1, 2),
    computes=3,
    padding=True,
)


def limits(arch: str, **other: Any) -> str:
    sizes = {"max_threads_per_block": 1024, "max_shared_memory_per_block": 49152, "thread_warp_size": 32}
    return json.dumps({"kind": "cuda", "arch": arch, **sizes, **other})


def replayed(key: str, tiles: Tiles, target: str) -> Any:
    read = read_target(target)
    assert not isinstance(read, str)
    reply = replay_sketches(module_to_json(parse_key(key).module()), read[0], [json.dumps(tiles.steps())])
    assert isinstance(reply, ReplayedTraces)
    return reply.programs[0]


@pytest.mark.parametrize("arch", ["sm_37", "sm_70", "sm_90"])
@pytest.mark.parametrize(("key", "tiles"), [(MATMUL, Tiles()), (CONV, CONV_TILES)])
def test_a_program_has_the_tiles_of_its_steps(arch: str, key: str, tiles: Tiles) -> None:
    """On any GPU: from sm_80 on TVM adds spaces whose copies run ahead, which Ansor did not have."""
    program = replayed(key, tiles, limits(arch))

    instructions, decisions = json.loads(program.trace)
    chosen = [decision for number, decision in decisions if instructions[number][0] == "SamplePerfectTile"]
    assert chosen == [list(each) for each in (*tiles.spatial, *tiles.reduction)]
    assert "software_pipeline" not in program.trace
    script = replay(parse_key(key).module(), program.trace).mod.script()
    for extent in tiles.spatial[0][2], tiles.spatial[0][4]:
        assert str(extent) in script


@pytest.mark.parametrize(
    ("key", "tiles", "why"),
    [
        (MATMUL, Tiles(reduction=((4, 4, 4),)), "does not fit the workload"),
        (MATMUL, CONV_TILES, "does not fit the workload"),
        (CONV, Tiles(), "does not fit the workload"),
        (MATMUL, Tiles(spatial=((1, 1, 64, 1, 1), (1, 1, 128, 1, 1))), "VerifyGPUCode"),
    ],
)
def test_steps_that_do_not_fit_are_refused(key: str, tiles: Tiles, why: str) -> None:
    assert why in replayed(key, tiles, limits("sm_70"))


def test_the_limits_are_those_of_the_target() -> None:
    few_threads = limits("sm_70", max_threads_per_block=16)

    assert "VerifyGPUCode" in replayed(MATMUL, Tiles(), few_threads)


@pytest.mark.parametrize(
    ("text", "kind"),
    [
        ('{"kind": "cuda", "arch": "sm_70"}', "cuda"),
        ("nvidia/nvidia-v100", "cuda"),
        ("rocm -mcpu=gfx906", "rocm"),
    ],
)
def test_a_target_is_json_or_a_name(text: str, kind: str) -> None:
    read = read_target(text)

    assert not isinstance(read, str)
    assert (json.loads(read[0])["kind"], read[1]) == (kind, kind)


@pytest.mark.parametrize("text", ["", "{", "[]", "nonsense", "nvidia/nothing", '{"kind": 7}', '{"arch": "sm_70"}'])
def test_what_is_no_target_is_a_sentence(text: str) -> None:
    read = read_target(text)

    assert isinstance(read, str)
    assert "target" in read
