"""Tensor intrinsics: those of the target are there, the others are not paid for."""

from __future__ import annotations

import subprocess
import sys

PROBE = """
from costhub.dataset.intrinsics import load_intrinsics
load_intrinsics({kind!r}); load_intrinsics({kind!r})
import sys
from tvm.s_tir import TensorIntrin
from tvm.s_tir import meta_schedule as ms
print(*sorted(m.rsplit('.', 1)[1] for m in sys.modules if m.startswith('tvm.s_tir.tensor_intrin.')))
print(TensorIntrin.get('dot_16x4_vnni', allow_missing=True) is not None)
"""


def run(kind: str) -> list[str]:
    done = subprocess.run(
        [sys.executable, "-c", PROBE.format(kind=kind)], capture_output=True, text=True, check=True
    )
    return done.stdout.splitlines()


def test_a_cpu_target_loads_cpu_intrinsics_only() -> None:
    modules, has_vnni = run("llvm")

    assert "x86" in modules.split()
    assert "cuda" not in modules.split()
    assert has_vnni == "True"
