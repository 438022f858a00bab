"""Provides load_intrinsics: the tensor intrinsics of one kind of target, without TVM's 14-second import.

Importing ``tvm.s_tir.tensor_intrin`` parses the TVMScript of every CUDA, ROCm, Metal, Hexagon and RISC-V intrinsic.
TVM imports that package itself when it makes a TuneContext; a package object put in its place beforehand makes TVM
parse only the submodules of the given target (about 1 s for CPUs).

TVM 0.27 passes ``vpdpbusd`` its bytes as 32-bit words, as LLVM expected until version 21. LLVM 22 expects bytes and
rejects anything else, so `register_vnni` corrects the intrinsic: otherwise no program that uses it would build.

For products of bfloat16 on x86 TVM has no intrinsic; `register_pairs` adds those of AVX512-BF16.
"""

from __future__ import annotations

import importlib
import inspect
import os
import sys
import traceback
import types
from collections.abc import Iterator
from contextlib import contextmanager
from functools import cache
from pathlib import Path

from costhub.dataset.tile_intrinsics import register_tiles_of

PACKAGE = "tvm.s_tir.tensor_intrin"

# x86 and ARM go together: TVM's CPU schedule rules for either only use intrinsics of their own module, and
# both are cheap. Kinds that are not listed get the whole package, as TVM would do.
MODULES_OF_KIND = {"llvm": ("x86", "arm_cpu"), "c": ("x86", "arm_cpu"), "cuda": ("cuda",)}

VNNI_DOT = "dot_16x4_vnni"
"""TVM's name for the intrinsic, kept so that a trace means the same with and without the correction."""

FIRST_LLVM_WITH_BYTES = 22

_FROZEN = ("importlib._bootstrap", "importlib._bootstrap_external")
"""Modules of Python's import system, by the names under which they are on the stack."""

PAIR_CONVOLUTION, PAIR_PRODUCT, FLAT_CONVOLUTION = "conv2d_NCHWc_pairs", "matmul_pairs", "conv2d_flat_pairs"
"""Names of the blocks that multiply pairs of bfloat16; the last is a convolution for matrix units, all rows in one."""

PAIR_DOTS = {lanes: f"dot_{lanes}x2_bf16_avx512" for lanes in (16, 8, 4)}
"""Lanes -> name of the intrinsic that adds two products of bfloat16 to each of so many float32 sums."""


def load_intrinsics(target_kind: str, *, database: str | Path | None = None) -> None:
    """Registers the tensor intrinsics that schedules for `target_kind` (``"llvm"``, ``"cuda"``, …) may name.

    Also corrects TVM's VNNI intrinsic (`register_vnni`). You can call it again, and for several kinds.

    Args:
        target_kind: TVM's name for the kind of target.
        database: The folder of a MetaSchedule database, whose traces may name intrinsics for matrix units
            (`costhub.dataset.tile_intrinsics`); call it before TVM opens the database.

    Example:
        >>> load_intrinsics("llvm")
    """
    import tvm

    if database is not None:
        register_tiles_of(Path(database))
    modules = MODULES_OF_KIND.get(target_kind)
    if modules is None:
        _import_whole_package()
        register_vnni()
        return
    if PACKAGE not in sys.modules:
        package = types.ModuleType(PACKAGE)
        package.__path__ = [os.path.join(os.path.dirname(tvm.__file__), "s_tir", "tensor_intrin")]
        sys.modules[PACKAGE] = package
    with _quick_stacks():
        for name in modules:
            importlib.import_module(f"{PACKAGE}.{name}")
        if "x86" in modules:
            register_vnni()
            register_pairs()


@contextmanager
def _quick_stacks() -> Iterator[None]:
    """Parses TVMScript several times as fast.

    For every function it parses, TVM asks `inspect` for the source of each frame of the stack. Frames of Python's own
    import system have none, nor have those of ``python -c``, which is how child processes start, of ``python -m`` and
    of a prompt. `inspect` looks through all loaded modules for it, each time anew, unless its table of files names a
    module; a module that is not loaded leaves the answer as it was.
    """
    files: dict[str, str] = getattr(inspect, "modulesbyfile", {})
    around = {frame.f_code.co_filename for frame, _ in traceback.walk_stack(None)}
    without_source = {f"<frozen {name}>" for name in _FROZEN} | {file for file in around if file.startswith("<")}
    new = without_source - files.keys()
    files.update(dict.fromkeys(new, "no module"))
    try:
        yield
    finally:
        for file in new:
            files.pop(file, None)


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


@cache
def register_pairs() -> None:
    """Registers `PAIR_DOTS`: ``vdpbf16ps`` of AVX512-BF16, for pairs of bfloat16 that TVM sees as one float32.

    TVM's passes turn bfloat16 into float32 before LLVM sees it. So pairs are stored as numbers of 32 bits, and the
    instruction is called from LLVM IR, which TVM links in.
    """
    for lanes, name in PAIR_DOTS.items():
        _register_pair_dot(lanes, name)


def _register_pair_dot(lanes: int, name: str) -> None:
    from tvm.s_tir import TensorIntrin
    from tvm.script import tirx as T

    call = f"costhub_{name}"
    linked, vector = _pair_dot_ir(call, lanes), f"float32x{lanes}"

    # The same expression as that of `costhub.collector.workloads.bfloat16_pairs.product_of_pairs`.
    @T.prim_func(s_tir=True)  # type: ignore[untyped-decorator]
    def described(
        a: T.Buffer((1,), "float32", offset_factor=1),  # type: ignore[valid-type]
        b: T.Buffer((lanes,), "float32", offset_factor=1),  # type: ignore[valid-type]
        c: T.Buffer((lanes,), "float32", offset_factor=1),  # type: ignore[valid-type]
    ) -> None:
        with T.sblock("root"):
            T.reads(c[0:lanes], a[0:1], b[0:lanes])
            T.writes(c[0:lanes])
            for i in range(lanes):
                with T.sblock("update"):
                    lane = T.axis.remap("S", [i])
                    c[lane] = c[lane] + (
                        T.reinterpret("float32", T.shift_left(T.reinterpret("uint32", a[0]), T.uint32(16)))
                        * T.reinterpret("float32", T.shift_left(T.reinterpret("uint32", b[lane]), T.uint32(16)))
                        + T.reinterpret("float32", T.bitwise_and(T.reinterpret("uint32", a[0]), T.uint32(0xFFFF0000)))
                        * T.reinterpret(
                            "float32", T.bitwise_and(T.reinterpret("uint32", b[lane]), T.uint32(0xFFFF0000))
                        )
                    )

    @T.prim_func(s_tir=True)  # type: ignore[untyped-decorator]
    def computed(
        a: T.Buffer((1,), "float32", offset_factor=1),  # type: ignore[valid-type]
        b: T.Buffer((lanes,), "float32", offset_factor=1),  # type: ignore[valid-type]
        c: T.Buffer((lanes,), "float32", offset_factor=1),  # type: ignore[valid-type]
    ) -> None:
        with T.sblock("root"):
            T.reads(c[0:lanes], a[0:1], b[0:lanes])
            T.writes(c[0:lanes])
            with T.attr(T.int32(0), "pragma_import_llvm", linked):
                c[T.ramp(T.int32(0), 1, lanes)] = T.call_pure_extern(
                    vector,
                    call,
                    c[T.ramp(T.int32(0), 1, lanes)],
                    T.broadcast(a[0], lanes),
                    b[T.ramp(T.int32(0), 1, lanes)],
                )

    TensorIntrin.register(name, described, computed, override=True)


def _pair_dot_ir(name: str, lanes: int) -> str:
    """A function in LLVM IR that adds to each sum the products of two pairs of bfloat16, given as bits of a float."""
    sums, pairs = f"<{lanes} x float>", f"<{2 * lanes} x bfloat>"
    dot = f"@llvm.x86.avx512bf16.dpbf16ps.{32 * lanes}"
    return f"""
declare {sums} {dot}({sums}, {pairs}, {pairs})
define internal {sums} @{name}({sums} %c, {sums} %a, {sums} %b) alwaysinline nounwind {{
  %p = bitcast {sums} %a to {pairs}
  %q = bitcast {sums} %b to {pairs}
  %r = call {sums} {dot}({sums} %c, {pairs} %p, {pairs} %q)
  ret {sums} %r
}}
"""
