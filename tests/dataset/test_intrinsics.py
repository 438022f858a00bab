"""Tensor intrinsics: those of the target are there, the others are not paid for."""

from __future__ import annotations

import subprocess
import sys

import numpy as np
import pytest

from costhub.dataset.intrinsics import PAIR_DOTS, VNNI_DOT, load_intrinsics

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
    done = subprocess.run([sys.executable, "-c", PROBE.format(kind=kind)], capture_output=True, text=True, check=True)
    return done.stdout.splitlines()


@pytest.mark.slow
def test_a_cpu_target_loads_cpu_intrinsics_only() -> None:
    modules, has_vnni = run("llvm")

    assert "x86" in modules.split()
    assert "cuda" not in modules.split()
    assert has_vnni == "True"


STACKS = """
import contextlib, inspect, sys
from costhub.dataset import intrinsics
if {slow}:
    intrinsics._quick_stacks = contextlib.nullcontext
import tvm, tvm_ffi
ismodule, asked = inspect.ismodule, []
inspect.ismodule = lambda each: (asked.append(each), ismodule(each))[1]
intrinsics.load_intrinsics("llvm")
inspect.ismodule = ismodule
from tvm.s_tir import TensorIntrin
names = ["dot_16x4_vnni", "dot_16x4_avx512", "dot_4x4_i8i8s32_neon", *intrinsics.PAIR_DOTS.values()]
print(len(asked))
print(*(tvm_ffi.structural_hash(part) for name in names
        for own in [TensorIntrin.get(name)] for part in (own.desc, own.impl)))
print([file for file in inspect.modulesbyfile if file.startswith("<")])
"""


@pytest.mark.slow
def test_parsing_them_looks_through_the_loaded_modules_less_often_and_gives_the_same() -> None:
    (few, *quick), (many, *slow) = (
        subprocess.run(
            [sys.executable, "-c", STACKS.format(slow=slow)], capture_output=True, text=True, check=True
        ).stdout.splitlines()
        for slow in (False, True)
    )

    assert quick == slow
    assert quick[-1] == "[]"
    assert int(few) < int(many) / 10


def test_the_intrinsic_becomes_one_instruction() -> None:
    load_intrinsics("llvm")
    import tvm
    from tvm.s_tir import TensorIntrin

    function = TensorIntrin.get(VNNI_DOT).impl.with_attr("global_symbol", "main")
    built = tvm.tirx.build(tvm.IRModule({"main": function}), target={"kind": "llvm", "mcpu": "znver4"})
    assert built.inspect_source("s").count("vpdpbusd") == 1


def test_its_description_is_the_dot_product_that_tvm_matches() -> None:
    load_intrinsics("llvm")
    import tvm
    from tvm.s_tir import TensorIntrin

    function = TensorIntrin.get(VNNI_DOT).desc.with_attr("global_symbol", "main")
    a, b = np.arange(4, dtype="uint8"), np.arange(64, dtype="int8").reshape(16, 4)
    c = tvm.runtime.tensor(np.ones(16, "int32"))
    tvm.compile(tvm.IRModule({"main": function}), target="llvm")(*map(tvm.runtime.tensor, (a, b)), c)
    np.testing.assert_array_equal(c.numpy(), 1 + b.astype("int32") @ a.astype("int32"))


@pytest.mark.parametrize(("lanes", "register"), [(16, "%zmm"), (8, "%ymm"), (4, "%xmm")])
def test_pairs_of_bfloat16_become_one_instruction(lanes: int, register: str) -> None:
    load_intrinsics("llvm")
    import tvm
    from tvm.s_tir import TensorIntrin

    function = TensorIntrin.get(PAIR_DOTS[lanes]).impl.with_attr("global_symbol", "main")
    built = tvm.tirx.build(tvm.IRModule({"main": function}), target={"kind": "llvm", "mcpu": "znver4"})
    (dot,) = [line for line in built.inspect_source("s").splitlines() if "vdpbf16ps" in line]
    assert register in dot


def test_their_description_adds_the_products_of_both_halves() -> None:
    load_intrinsics("llvm")
    import tvm
    from tvm.s_tir import TensorIntrin

    function = TensorIntrin.get(PAIR_DOTS[4]).desc.with_attr("global_symbol", "main")
    halves = np.array([[1.5, -2.0], [3.0, 0.5], [-1.0, 4.0], [2.0, 2.0], [0.25, 8.0]], np.float32)  # exact in bfloat16
    bits = halves.view(np.uint32) >> 16
    pairs = (bits[:, 0] | (bits[:, 1] << 16)).view(np.float32)
    sums = tvm.runtime.tensor(np.ones(4, np.float32))
    tvm.compile(tvm.IRModule({"main": function}), target="llvm")(
        tvm.runtime.tensor(pairs[:1].copy()), tvm.runtime.tensor(pairs[1:].copy()), sums
    )
    np.testing.assert_array_equal(sums.numpy(), 1 + halves[1:] @ halves[0])
