import json

import pytest

from costhub.dataset.ansor.named_workloads import parse_key
from costhub.dataset.workload import module_to_json
from scripts.bench.ansor.ansor_refusals import OTHER, refusals
from tests.dataset.ansor.ansor_steps import MATMUL, Tiles

ROOMY = {"max_threads_per_block": 1024, "max_shared_memory_per_block": 49152}


@pytest.mark.parametrize(
    ("tight", "limit"),
    [
        ({}, None),
        ({"thread_warp_size": 64}, "threads of a block, at least a warp"),
        ({"max_threads_per_block": 16, "thread_warp_size": 16}, "threads of a block, at most"),
        ({"max_shared_memory_per_block": 64}, "shared memory of a block"),
        ({"thread_warp_size": 64, "max_shared_memory_per_block": 64}, OTHER),
    ],
)
def test_names_the_limit_without_which_a_program_is_taken(tight: dict[str, int], limit: str | None) -> None:
    target = json.dumps({"kind": "cuda", "arch": "sm_70", **ROOMY, **tight})
    module = module_to_json(parse_key(MATMUL).module())

    counts = refusals(target, module, [json.dumps(Tiles().steps())])

    assert counts == ({("VerifyGPUCode", limit): 1} if limit else {})
