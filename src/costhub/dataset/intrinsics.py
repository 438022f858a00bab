"""Provides load_intrinsics: the tensor intrinsics of one kind of target, without TVM's 14-second import.

Importing ``tvm.s_tir.tensor_intrin`` parses the TVMScript of every CUDA, ROCm, Metal, Hexagon and RISC-V intrinsic.
TVM imports that package itself when it makes a TuneContext; a package object put in its place beforehand makes TVM
parse only the submodules of the given target (about 1 s for CPUs).

TVM 0.27 passes ``vpdpbusd`` its bytes as 32-bit words, as LLVM expected until version 21. LLVM 22 expects bytes and
rejects anything else, so `register_vnni` corrects the intrinsic: otherwise no program that uses it would build.
"""

from __future__ import annotations

import importlib
import os
import sys
import types
from functools import cache

PACKAGE = "tvm.s_tir.tensor_intrin"

# x86 and ARM go together: TVM's CPU schedule rules for either only use intrinsics of their own module, and
# both are cheap. Kinds that are not listed get the whole package, as TVM would do.
MODULES_OF_KIND = {"llvm": ("x86", "arm_cpu"), "c": ("x86", "arm_cpu"), "cuda": ("cuda",)}

VNNI_DOT = "dot_16x4_vnni"
"""TVM's name for the intrinsic, kept so that a trace means the same with and without the correction."""

FIRST_LLVM_WITH_BYTES = 22


def load_intrinsics(target_kind: str) -> None:
    """Registers the tensor intrinsics that schedules for `target_kind` (``"llvm"``, ``"cuda"``, …) may name.

    Also corrects TVM's VNNI intrinsic (`register_vnni`). You can call it again, and for several kinds.

    Example:
        >>> load_intrinsics("llvm")
    """
    import tvm

    modules = MODULES_OF_KIND.get(target_kind)
    if modules is None:
        _import_whole_package()
        register_vnni()
        return
    if PACKAGE not in sys.modules:
        package = types.ModuleType(PACKAGE)
        package.__path__ = [os.path.join(os.path.dirname(tvm.__file__), "s_tir", "tensor_intrin")]
        sys.modules[PACKAGE] = package
    for name in modules:
        importlib.import_module(f"{PACKAGE}.{name}")
    if "x86" in modules:
        register_vnni()


def names_intrinsics(trace_json: str) -> bool:
    """Whether a schedule trace may name tensor intrinsics; most do not, and can skip the parsing.

    Example:
        >>> names_intrinsics('[[["Tensorize",["b0"],["dot_4x4",1],[]]],[]]'), names_intrinsics("[[],[]]")
        (True, False)
    """
    return "ensorize" in trace_json  # the instruction Tensorize, or the annotation auto_tensorize


def _import_whole_package() -> None:
    loaded = sys.modules.get(PACKAGE)
    if loaded is None or not hasattr(loaded, "__file__") or loaded.__file__ is None:
        # The stand-in's submodules stay in sys.modules, so nothing is registered twice.
        sys.modules.pop(PACKAGE, None)
        importlib.import_module(PACKAGE)


@cache
def register_vnni() -> None:
    """Replaces TVM's intrinsic with a corrected one; does nothing with an older LLVM."""
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
