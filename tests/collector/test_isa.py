"""Instruction sets that a CPU can be limited to."""

from __future__ import annotations

import itertools

import pytest

from costhub.collector.isa import ISA_LEVELS, isa_level
from costhub.errors import UnknownNameError


def test_each_level_has_all_that_the_one_before_it_has() -> None:
    levels = list(ISA_LEVELS.values())
    for smaller, larger in itertools.pairwise(levels):
        assert set(smaller.features) < set(larger.features)
        assert smaller.simd_bits < larger.simd_bits


def test_llvm_knows_them_and_their_vectors_are_as_wide_as_we_say() -> None:
    import tvm

    for level in ISA_LEVELS.values():
        target = tvm.target.Target({"kind": "llvm", "mtriple": "x86_64-linux-gnu", "mcpu": level.mcpu})
        with target:
            features = set(tvm.target.codegen.llvm_get_cpu_features(target))
        assert level.flag.replace("_", ".") in features or level.flag in features
        assert ("avx512f" in features) == (level.simd_bits == 512)
        assert ("avx2" in features) == (level.simd_bits >= 256)


def test_an_unknown_one_is_a_sentence() -> None:
    with pytest.raises(UnknownNameError, match="avx512"):
        isa_level("avx51")
