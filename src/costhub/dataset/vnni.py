"""Provides register_vnni: TVM's VNNI dot product as LLVM 22 wants it.

TVM 0.27 hands ``vpdpbusd`` its bytes as 32-bit words, as LLVM took them until version 21. LLVM 22 takes bytes
and refuses anything else, so that no program that names the intrinsic would build.
"""

from __future__ import annotations

from functools import cache

VNNI_DOT = "dot_16x4_vnni"
"""TVM's name of the intrinsic, kept: a trace means the same with and without the correction."""

FIRST_LLVM_WITH_BYTES = 22


@cache
def register_vnni() -> None:
    """Puts the corrected intrinsic in the place of TVM's; with an older LLVM nothing changes."""
    from tvm.s_tir import TensorIntrin
    from tvm.s_tir.tensor_intrin.x86 import dot_product_16x4_u8i8i32_desc
    from tvm.script import tirx as T
    from tvm.target.codegen import llvm_version_major

    if llvm_version_major() < FIRST_LLVM_WITH_BYTES:
        return

    @T.prim_func(s_tir=True)  # type: ignore[untyped-decorator]
    def dot_product(
        a: T.Buffer((4,), "uint8", offset_factor=1),  # type: ignore[valid-type]
        b: T.Buffer((16, 4), "int8", offset_factor=1),  # type: ignore[valid-type]
        c: T.Buffer((16,), "int32", offset_factor=1),  # type: ignore[valid-type]
    ) -> None:
        with T.sblock("root"):
            T.reads(c[0:16], a[0:4], b[0:16, 0:4])
            T.writes(c[0:16])
            word = T.reinterpret(a.vload([0], "uint8x4"), dtype="int32")
            c[T.ramp(T.int32(0), 1, 16)] = T.call_llvm_pure_intrin(
                T.llvm_lookup_intrinsic_id("llvm.x86.avx512.vpdpbusd.512"),
                c.vload([0], dtype="int32x16"),
                T.reinterpret(T.broadcast(word, 16), dtype="uint8x64"),
                b.vload([0, 0], dtype="int8x64"),
                dtype="int32x16",
            )

    TensorIntrin.register(VNNI_DOT, dot_product_16x4_u8i8i32_desc, dot_product, override=True)
