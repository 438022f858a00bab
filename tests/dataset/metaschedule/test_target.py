from __future__ import annotations

import json

import pytest

from costhub.dataset.metaschedule.target import today_target
from costhub.errors import WorkloadError


@pytest.mark.parametrize(
    ("old", "new", "device"),
    [
        ("llvm", {"kind": "llvm"}, "cpu"),
        ("llvm -mcpu=znver4 -num-cores 2", {"kind": "llvm", "mcpu": "znver4", "num-cores": 2}, "cpu"),
        (
            " llvm -keys=arm_cpu,cpu -mattr=+neon,+v8.2a -mtriple=aarch64-linux-gnu ",
            {"kind": "llvm", "keys": ["arm_cpu", "cpu"], "mattr": ["+neon", "+v8.2a"],
             "mtriple": "aarch64-linux-gnu"},
            "cpu",
        ),
        (
            "cuda -arch=sm_80 -max_threads_per_block=1024 -host=llvm",
            {"kind": "cuda", "arch": "sm_80", "max_threads_per_block": 1024, "host": {"kind": "llvm"}},
            "cuda",
        ),
        ({"kind": "cuda", "arch": "sm_80", "tag": "", "libs": []}, {"kind": "cuda", "arch": "sm_80"}, "cuda"),
        ({"kind": "llvm", "no-such": 1, "mcpu": "znver4"}, {"kind": "llvm", "mcpu": "znver4"}, "cpu"),
        ({"kind": "llvm", "num-cores": "four"}, {"kind": "llvm"}, "cpu"),
    ],
)  # fmt: skip
def test_a_target_keeps_what_it_says(old: object, new: object, device: str) -> None:
    text, kind = today_target(json.dumps(old))

    assert (json.loads(text), kind) == (new, device)
    assert today_target(text) == (text, kind)


@pytest.mark.parametrize("tag", ['"nvidia/nvidia-a100"', '{"tag": "nvidia/nvidia-a100"}'])
def test_a_tag_becomes_what_it_stands_for(tag: str) -> None:
    text, kind = today_target(tag)

    assert json.loads(text)["arch"] == "sm_80"
    assert json.loads(text)["kind"] == kind == "cuda"


@pytest.mark.parametrize(
    "target", ["null", "[]", "7", '""', '"nonsense -x=1"', '{"kind": 3}', "{}", '{"tag": "x/y"}']
)
def test_other_targets_are_refused(target: str) -> None:
    with pytest.raises(WorkloadError):
        today_target(target)
