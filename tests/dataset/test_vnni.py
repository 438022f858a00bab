"""The corrected VNNI intrinsic: its code is the one instruction, and LLVM takes it."""

from __future__ import annotations

import numpy as np

from costhub.dataset.intrinsics import load_intrinsics
from costhub.dataset.vnni import VNNI_DOT


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
